"""Saves a data folder of an earlier program as text, with the answers of that program.

Usage: old_folders.py PROGRAM COMMIT TODAY. Scripts/old-folders builds the programs and runs this file.

PROGRAM serves a new data folder, gets a fixed load through the line protocol, stops, gets more of it, and is killed.
The files of that moment are saved in the folder MIGRATION-COMMIT beside this file: the database as SQL, other binary files
as hexadecimal digits, texts unchanged. Then PROGRAM starts again with the folder, and answers questions. The file
answers.txt has each question with its answer.

At the end two checks follow. PROGRAM gives the same answers from a folder that is made of the texts. And TODAY, today's
program, opens such a folder; then PROGRAM gives the same answers from the copy of the database that TODAY has kept.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile

SECONDS = 120
# People of Seeds/demo.json.
HARRIET = ("harriet.adeyemi@example.org", "chalk-dust-and-litmus-7", "OldChalk")
LAN = ("lan.nguyen@example.org", "plot9-needs-more-compost", "ngoc_lan")
LANS_NEW_PASSWORD = "plot9-needs-less-compost"
ODILE = ("odile@example.com", "seventy-two-percent-water", "odile_bakes")
# Names of clients from 16 characters on count as secret.
SECRET = "k3v9-x2m7-p1q8-z5"
RULES = {
    "rules": {
        "free": {".read": True, ".write": True, ".indexOn": "mm"},
        "weather": {".read": True},
        "status": {"$uid": {".read": True, ".write": "auth.uid === $uid"}},
    }
}
# Files that no later start reads.
PASSING = {"canopy.sock", "lock", "canopy.sqlite-shm"}


class Connection:
    """A connection of the line protocol."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        self.lines = self.socket.makefile("rb")

    def ask(self, line):
        """Sends a request, and returns the line of its answer."""
        self.socket.sendall(line.encode() + b"\n")
        while True:
            answer = self.lines.readline().decode().rstrip("\r\n")
            if not answer:
                raise SystemExit(f"the server closed the connection at {line}")
            if not answer.startswith(">"):
                return answer

    def events(self, answer):
        """Returns the lines of the events that an answer of LISTEN announces."""
        count = json.loads(answer[1:])["initial"] if answer.startswith("+") else 0
        return [self.lines.readline().decode().rstrip("\r\n") for _ in range(count)]

    def load(self, line):
        """Sends a request of the load. An earlier program may not know it. Returns the value of the answer, or {}."""
        answer = self.ask(line)
        if answer.startswith("+"):
            return json.loads(answer[1:])
        print(f"  {line.split()[0]}: {answer}")
        return {}

    def close(self):
        self.lines.close()
        self.socket.close()


class Server:
    """A program that serves a folder."""

    def __init__(self, program, folder, *options):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CANOPY_")}
        environment["CANOPY_HTTP_PORT"] = "off"
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "serve", "--data", str(folder), "--port", "0", *options],
            stdout=subprocess.PIPE, stderr=self.errors, env=environment, text=True)
        self.folder = folder
        line = self.process.stdout.readline()
        if not line.startswith("ready line "):
            self.process.wait()
            self.errors.seek(0)
            raise SystemExit(f"{program} does not start: {line}{self.errors.read().decode()}")
        self.port = int(line.rsplit(":", 1)[1])

    def connect(self):
        return Connection(self.port)

    def connect_as_administrator(self):
        connection = self.connect()
        token = (self.folder / "admin-token").read_text().strip()
        assert connection.ask(f"AUTH {token}").startswith("+")
        return connection

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(SECONDS)
        self.process.stdout.close()
        self.errors.close()


# MARK: The load


def text(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def load_blog(server, known):
    """Sign-ups, posts, stars, comments, a new name, and values that are replaced and removed."""
    harriet, lan = server.connect(), server.connect()
    harriet.load(f"SIGNUP {' '.join(HARRIET)}")
    known["lan"] = lan.load(f"SIGNUP {' '.join(LAN)}")["uid"]
    rain = harriet.load('POST "Rain gauge" "Eleven millimetres since yesterday. \\"Eleven\\", said Harriet."')["id"]
    gone = harriet.load('POST "A mistake" "This goes away."')["id"]
    tomatoes = lan.load('POST "Sowing tomatoes in February" "The packet says March: chờ đi con."')["id"]
    known["posts"] = [rain, tomatoes]
    lan.load(f"STAR {rain}")
    harriet.load(f"STAR {tomatoes}")
    lan.load(f"STAR {tomatoes}")
    lan.load(f"STAR {tomatoes}")
    lan.load(f'COMMENT {rain} "Plot 9 had nine."')
    wrong = harriet.load(f'COMMENT {tomatoes} "Tin foil."')["id"]
    harriet.load(f'COMMENT {tomatoes} "Tin foil on a board."')
    harriet.load(f"UNCOMMENT {tomatoes} {wrong}")
    harriet.load(f'EDIT {rain} "Rain gauge" "Twelve millimetres."')
    harriet.load(f"DELETE {gone}")
    harriet.load("RENAME NewChalk")
    lan.load(f"PASSWORD {LAN[1]} {LANS_NEW_PASSWORD}")
    harriet.close()
    lan.close()


def load_tree(administrator, known):
    """Values of all kinds, priorities, server values, and removals."""
    days = {"mon": {"sky": "rain", "mm": 11, ".priority": 2}, "tue": {"sky": "fog", "mm": 0, ".priority": "b"}}
    known["sequence"] = administrator.load(f"SET /weather {text(days)}")["seq"]
    administrator.load('UPDATE /weather/mon {"mm":{".sv":{"increment":2}},"seen":{".sv":"timestamp"}}')
    administrator.load("REMOVE /weather/tue/sky")
    known["wednesday"] = administrator.load('SET /weather/wed {".value":4.25,".priority":-1}')["seq"]
    administrator.load('PUSH /weather/notes "the gauge overflowed"')
    numbers = [0, -1, 1.5e300, 9007199254740993, -0.001, True, False, "", "\n\t\"\\/ é 🌧"]
    administrator.load(f"SET /values {text(numbers)}")
    administrator.load(f"SET /values/7 {text({'deep': {'er': {'still': None, 'x': 1}}})}")
    etag = administrator.load('GET /weather/mon/mm {"etag":true}').get("etag")
    administrator.load(f"CAS /weather/mon/mm {etag} 14")
    administrator.load(f"SET /many {text({f'k{number}': number * 7 for number in range(7)})}")
    administrator.load("UPDATE /many " + text({f"k{number}": None for number in range(0, 7, 3)}))


def load_newer(server, administrator, known):
    """Things that only later programs have: rules, namespaces, accounts of all kinds, codes."""
    administrator.load(f"RULES {text(text(RULES))}")
    odile = server.connect()
    if odile.load(f"SIGNUP {' '.join(ODILE)}"):
        odile.load("DELETEACCOUNT")
    odile.close()
    for request in ["ANONYMOUS", f"FORGOT {HARRIET[0]}"]:
        other = server.connect()
        other.load(request)
        other.close()
    custom = administrator.load('ISSUE weather-station {"level":3}')
    if custom:
        station = server.connect()
        known["station"] = station.load(f"CUSTOM {custom['token']}")["token"]
        station.close()
    if administrator.load("USE weather"):
        administrator.load('SET /stations {"a":{"mm":3},"b":{"mm":5}}')
        administrator.load("REMOVE /stations/a/mm")
        administrator.load(f"ONCE {SECRET} 1 0 SET /stations/c 1")
        other = server.connect_as_administrator()
        other.load("USE weather")
        other.load('ONDISCONNECT SET /gone "the station"')
        administrator.load("USE default")
        return [other]
    return []


def repeated(name, place):
    """Writes that clients may send again: of a short name and of a secret one."""
    return [
        f"ONCE {name} 3 1 UPDATE {place} {text({'short': {'.sv': {'increment': 1}}})}",
        f"ONCE {SECRET}-{name} 2 0 UPDATE {place} {text({'secret': {'.sv': {'increment': 1}}})}",
    ]


def load_repeated(server, administrator, known):
    harriet = server.connect()
    harriet.load(f"LOGIN {HARRIET[0]} {HARRIET[1]}")
    nobody = server.connect()
    for connection, name, place in [(administrator, "desk", "/once"), (harriet, "kitchen", "/free"),
                                    (nobody, "porch", "/free")]:
        connection.load(f"ONCE {name} 1 0 SET {place}/first 1")
        connection.load(f"ONCE {name} 2 1 SET {place}/second 2")
        known["repeated"][name] = [line for line in repeated(name, place) if connection.load(line)]
    harriet.close()
    nobody.close()


def arm(server, known):
    """On-disconnect writes, with exceptions. Returns the connections, which must stay open."""
    administrator, other = server.connect_as_administrator(), server.connect_as_administrator()
    administrator.load('ONDISCONNECT UPDATE /gone {"a":{"x":1,"y":2},"b":true,"c":"kept"}')
    administrator.load("ONDISCONNECT CANCEL /gone/a/x")
    administrator.load("ONDISCONNECT CANCEL /gone/b")
    administrator.load('ONDISCONNECT SET /gone/count {".sv":{"increment":2}}')
    administrator.load('ONDISCONNECT UPDATE /gone {"c":{".sv":{"increment":1}},"d":{".value":1,".priority":3}}')
    other.load("ONDISCONNECT REMOVE /many/k4")
    other.load("ONDISCONNECT SET /gone/e 5")
    other.load("ONDISCONNECT CANCEL /gone/e")
    lan = server.connect()
    known["token"] = lan.load(f"LOGIN {LAN[0]} {LANS_NEW_PASSWORD}")["token"]
    lan.load(f'ONDISCONNECT SET /status/{known["lan"]} "offline"')
    lan.load("ONDISCONNECT SET /free/lan/a 1")
    lan.load("ONDISCONNECT SET /free/lan/b 2")
    lan.load("ONDISCONNECT CANCEL /free/lan/a")
    return [administrator, other, lan]


# MARK: Questions


def questions(known):
    """The questions: for each connection who asks, and the requests."""
    rain, tomatoes = known["posts"]
    uid = known["lan"]
    again = known["repeated"]
    yield "administrator", [
        'GET / {"export":true}', "COUNT /posts", "RULES", *again["desk"], "GET /once", "USERS",
        # Before-images have the values that are gone.
        f'LISTEN /posts {{"since":{known["sequence"] - 3}}}', f'LISTEN /weather {{"since":{known["wednesday"]}}}']
    yield "nobody", [
        f"LOGIN {HARRIET[0]} {HARRIET[1]}", "WHOAMI", "ACCOUNT", "POSTS me", *again["kitchen"], "GET /free"]
    yield "nobody", [f"AUTH {known['token']}", "WHOAMI", f"GET /status/{uid}"]
    yield "nobody", [f"LOGIN {LAN[0]} {LAN[1]}", f"LOGIN {ODILE[0]} {ODILE[1]}"]
    yield "nobody", [
        "RECENT", "TOP", f"COMMENTS {tomatoes}", "PROFILE @NewChalk", "PROFILE @OldChalk",
        *again["porch"], "GET /free", "GET /many"]
    if "station" in known:
        yield "nobody", [f"AUTH {known['station']}", "WHOAMI"]


def questions_of_namespace():
    yield "administrator", ["GET /", f"ONCE {SECRET} 1 0 SET /stations/c 1"]


def answers(server, lists, namespace=None):
    """Asks, and returns the text of the answers. Requests that the program does not know are left out."""
    lines = []
    for who, requests in lists:
        connection = server.connect_as_administrator() if who == "administrator" else server.connect()
        lines.append(f"= {who}")
        if namespace:
            connection.ask(f"USE {namespace}")
        for request in requests:
            answer = connection.ask(request)
            if not answer.startswith(("-UNKNOWN_VERB", "-BAD_REQUEST")):
                lines += [f"> {request}", answer]
                if request.startswith("LISTEN"):
                    lines += connection.events(answer)
        connection.close()
    return "\n".join(lines) + "\n"


def all_answers(program, folder, known):
    """Starts a program, and returns the texts of its answers by the name of the file that gets them."""
    server = Server(program, folder)
    found = {"answers.txt": answers(server, questions(known))}
    if (folder / "namespaces" / "weather").exists():
        name = "namespaces/weather/answers.txt"
        found[name] = answers(server, questions_of_namespace(), namespace="weather")
    server.end(signal.SIGTERM)
    return found


def comparable(found):
    """Returns answers without new tokens and their times."""
    result = []
    for name in sorted(found):
        for line in found[name].splitlines():
            if line.startswith("+{"):
                value = json.loads(line[1:])
                line = {key: value[key] for key in value if key not in ("token", "expires")}
            result.append(line)
    return result


# MARK: Texts


def dump(database):
    """Returns a database as SQL, with its settings."""
    # A copy, so that the files are not changed.
    with tempfile.TemporaryDirectory() as copy:
        for file in database.parent.glob("canopy.sqlite*"):
            shutil.copy(file, copy)
        db = sqlite3.connect(f"{copy}/{database.name}")
        db.text_factory = bytes
        one = lambda sql: db.execute(sql).fetchone()[0]
        lines = [f"PRAGMA page_size = {one('PRAGMA page_size')};",
                 f"PRAGMA auto_vacuum = {one('PRAGMA auto_vacuum')};",
                 f"PRAGMA journal_mode = {one('PRAGMA journal_mode').decode()};",
                 f"PRAGMA application_id = {one('PRAGMA application_id')};",
                 f"PRAGMA user_version = {one('PRAGMA user_version')};", "BEGIN;"]
        schema = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
        parts = [[part.decode() for part in row] for row in schema.fetchall()]
        tables = [part for part in parts if part[0] == "table"]
        lines += [f"{sql};" for _, name, sql in tables if not name.startswith("sqlite_")]
        if any(name == "sqlite_sequence" for _, name, _ in tables):
            lines.append("DELETE FROM sqlite_sequence;")
        for _, name, _ in tables:
            columns = [row[1].decode() for row in db.execute(f"PRAGMA table_info({name})")]
            quoted = " || ',' || ".join(f"quote({column})" for column in columns)
            for row in db.execute(f"SELECT {quoted} FROM {name}").fetchall():
                lines.append(f"INSERT INTO {name} VALUES({row[0].decode()});")
        # Triggers come last, so that they do not change what the rows have counted.
        lines += [f"{sql};" for type, _, sql in parts if type != "table"]
        db.close()
    return "\n".join(lines + ["COMMIT;"]) + "\n"


def save(data, folder):
    """Writes the files of a data folder as texts."""
    for file in sorted(data.rglob("*")):
        place = folder / file.relative_to(data)
        if file.is_dir() or file.is_socket() or file.name in PASSING or file.name.endswith("-wal"):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.name == "canopy.sqlite":
            place.with_suffix(".sql").write_text(dump(file))
            continue
        content = file.read_bytes()
        try:
            content.decode()
            assert b"\0" not in content
            place.write_bytes(content)
        except (UnicodeDecodeError, AssertionError):
            place.with_name(file.name + ".hex").write_text(content.hex() + "\n")


def restore(folder, data):
    """Makes a data folder of texts. The test in Swift does the same."""
    for file in sorted(folder.rglob("*")):
        place = data / file.relative_to(folder)
        if file.is_dir() or file.name == "answers.txt":
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".sql":
            db = sqlite3.connect(place.with_suffix(".sqlite"), isolation_level=None)
            db.executescript(file.read_text())
            db.close()
        elif file.suffix == ".hex":
            place.with_suffix("").write_bytes(bytes.fromhex(file.read_text()))
        else:
            shutil.copy(file, place)
            place.chmod(0o600)


# MARK: Runs


def make(program, data, known):
    """Lets the program write a folder. It is killed while on-disconnect writes wait."""
    server = Server(program, data, "--checkpoint-every", "15")
    administrator = server.connect_as_administrator()
    load_blog(server, known)
    load_tree(administrator, known)
    administrator.close()
    server.end(signal.SIGTERM)
    subprocess.run([program, "namespace", "create", "--data", str(data), "weather"], stderr=subprocess.DEVNULL)
    server = Server(program, data)
    administrator = server.connect_as_administrator()
    armed = load_newer(server, administrator, known)
    administrator.load('UPDATE /weather {"mon/mm":15,"thu":{"mm":2,".priority":1}}')
    administrator.load("REMOVE /weather/wed")
    load_repeated(server, administrator, known)
    armed += arm(server, known)
    server.end(signal.SIGKILL)
    for connection in armed + [administrator]:
        connection.close()


def compare(what, found, expected):
    for a, b in zip(comparable(found), comparable(expected)):
        if a != b:
            raise SystemExit(f"{what} differs:\n  expected {b}\n  got      {a}")
    assert len(comparable(found)) == len(comparable(expected))
    print(f"  ok: {what}")


def last_migration(data):
    db = sqlite3.connect(data / "canopy.sqlite")
    name = db.execute("SELECT identifier FROM grdb_migrations ORDER BY rowid DESC").fetchone()[0]
    db.close()
    return name


def go_back(data):
    """Puts the databases in place that today's program has kept, as the article on the format says."""
    for place in [data, data / "namespaces" / "weather"]:
        for copy in place.glob("before-schema-*.sqlite"):
            for file in place.glob("canopy.*"):
                file.unlink()
            copy.rename(place / "canopy.sqlite")


def main(program, commit, today):
    known = {"repeated": {}}
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        data = work / "data"
        make(program, data, known)
        shutil.copytree(data, work / "saved", ignore=shutil.ignore_patterns(*PASSING))
        expected = all_answers(program, data, known)
        folder = pathlib.Path(__file__).parent / f"{last_migration(data)}-{commit}"
        shutil.rmtree(folder, ignore_errors=True)
        save(work / "saved", folder)
        for name, found in expected.items():
            (folder / name).write_text(found)
        restore(folder, work / "restored")
        compare("the program's answers from the texts", all_answers(program, work / "restored", known), expected)
        restore(folder, work / "updated")
        Server(today, work / "updated").end(signal.SIGTERM)
        go_back(work / "updated")
        compare("its answers from the kept copy", all_answers(program, work / "updated", known), expected)
        print(f"  {folder.name} is written")


if __name__ == "__main__":
    main(*sys.argv[1:])
