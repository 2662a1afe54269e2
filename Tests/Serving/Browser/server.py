"""A Canopy server with the demo data, which the checks kill and start again, and clients of its line protocol."""

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time

SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on ports that stay the same when it starts again."""

    def __init__(self, canopy, seed, imported=None):
        self.canopy = canopy
        self.folder = tempfile.TemporaryDirectory()
        self.data = os.path.join(self.folder.name, "data")
        self.port, self.http_port = free_port(), free_port()
        self.address = f"http://127.0.0.1:{self.http_port}"
        subprocess.run([canopy, "seed", "--data", self.data, seed], check=True, capture_output=True)
        with open(seed, encoding="utf-8") as file:
            self.people = {person["username"]: person for person in json.load(file)["people"]}
        if imported:
            command = [canopy, "import", "--data", self.data, "/many", imported]
            subprocess.run(command, check=True, capture_output=True)
        self.start()

    def start(self):
        log = open(os.path.join(self.folder.name, "log"), "ab")
        self.process = subprocess.Popen(
            [self.canopy, "serve", "--data", self.data, "--port", str(self.port), "--http-port", str(self.http_port),
             "--logins-per-minute", "1000"],
            stdout=subprocess.PIPE, stderr=log, text=True)
        ready = set()
        while ready != {"line", "http"}:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the server ended at its start:\n{self.log()}")
            if line.startswith("ready "):
                ready.add(line.split()[1])

    def log(self):
        with open(os.path.join(self.folder.name, "log"), encoding="utf-8") as file:
            return file.read()[-4000:]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(SECONDS)
        self.folder.cleanup()
        return status

    def console_link(self):
        """Returns a link that opens the console once."""
        command = [self.canopy, "console", "--data", self.data, "--address", self.address]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def connect(self):
        return Client(self.port)

    def administrator(self):
        with open(os.path.join(self.data, "admin-token"), encoding="utf-8") as file:
            token = file.read().strip()
        client = Client(self.port)
        client.ask("AUTH", token)
        return client

    def person(self, name):
        client = Client(self.port)
        client.ask("LOGIN", self.people[name]["email"], self.people[name]["password"])
        return client


class Client:
    """A connection that speaks the line protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.lines = self.socket.makefile("r", encoding="utf-8", newline="\n")

    def send(self, verb, *parts):
        texts = [part if index == 0 and verb == "WATCH" else json.dumps(part) for index, part in enumerate(parts)]
        self.socket.sendall((" ".join([verb, *texts]) + "\n").encode())

    def receive(self):
        while True:
            line = self.lines.readline()
            if line.startswith("+"):
                return json.loads(line[1:])
            if not line.startswith(">"):
                raise AssertionError(f"the server said: {line.strip()}")

    def ask(self, verb, *parts):
        self.send(verb, *parts)
        return self.receive()


class DelayingProxy:
    """Passes connections on, each chunk of bytes after a delay in each direction."""

    def __init__(self, target, seconds):
        self.target, self.seconds = target, seconds
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink in [(client, server), (server, client)]:
                threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    def copy(self, source, sink):
        try:
            while data := source.recv(1 << 16):
                # The next bytes wait as well, so a stream of them has the same delay as a single chunk, or a longer one.
                time.sleep(self.seconds)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()
