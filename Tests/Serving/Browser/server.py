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
            for source, sink, change in [(client, server, self.changes()), (server, client, bytes)]:
                threading.Thread(target=self.copy, args=(source, sink, change), daemon=True).start()

    def changes(self):
        """Returns a function of each chunk of a connection to the server, which returns what is passed on."""
        return bytes

    def copy(self, source, sink, change):
        try:
            while data := change(source.recv(1 << 16)):
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


class SpoilingProxy(DelayingProxy):
    """Passes connections on without a delay, and makes the server refuse some requests on WebSockets."""

    def __init__(self, target):
        # The beginning of the requests that are to be refused, such as "SHOW "; none are without one.
        self.spoilt = None
        super().__init__(target, 0)

    def changes(self):
        return Spoiler(self).pass_on


class Spoiler:
    """One connection of a browser: the bytes before its first WebSocket frame, and then its frames."""

    def __init__(self, proxy):
        self.proxy, self.head, self.rest = proxy, b"", None

    def pass_on(self, data):
        if self.rest is None:
            self.head += data
            _, end, frames = self.head.rpartition(b"\r\n\r\n")
            if b"upgrade: websocket" in self.head.lower() and end:
                self.rest = bytearray(frames)
            return data
        self.rest += data
        data = bytearray(data)
        while frame := self.first_frame():
            # The place of the frame in this chunk; it is negative for one that began in the chunk before.
            place = len(data) - len(self.rest)
            start, mask, length = frame
            text = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self.rest[start:start + length]))
            spoilt = self.proxy.spoilt
            if spoilt and text.startswith(spoilt.encode()) and place + start >= 0:
                # No verb begins with this letter.
                data[place + start] = ord("X") ^ mask[0]
            del self.rest[:start + length]
        return bytes(data)

    def first_frame(self):
        """Returns where the content of the first frame begins, its mask and its length, if it is complete."""
        if len(self.rest) < 6:
            return None
        size = self.rest[1] & 127
        extra = {126: 2, 127: 8}.get(size, 0)
        start = 2 + extra + 4
        length = int.from_bytes(self.rest[2:2 + extra]) if extra else size
        if len(self.rest) < start + length:
            return None
        return start, bytes(self.rest[start - 4:start]), length
