"""Uses a Canopy server as applications do: through firebase-admin, the official Admin library for Python.

Scripts/official-clients starts the server and runs this file. The variables FIREBASE_DATABASE_EMULATOR_HOST and
FIREBASE_AUTH_EMULATOR_HOST name the server; GOOGLE_CLOUD_PROJECT names its project. Each check prints one line. The
first difference ends the run with both values and exit status 1.
"""

import collections
import os
import queue
import sys
import threading
import time

import firebase_admin
import requests
from firebase_admin import auth, db, exceptions

HOST = os.environ["FIREBASE_DATABASE_EMULATOR_HOST"]
PROJECT = os.environ["GOOGLE_CLOUD_PROJECT"]
OPTIONS = {"databaseURL": "https://default.firebaseio.com", "projectId": PROJECT}
IDENTITY = f"http://{HOST}/identitytoolkit.googleapis.com/v1"
TOKENS = f"http://{HOST}/securetoken.googleapis.com/v1/token"
SECONDS = 20

section = ""


def begin(name):
    global section
    section = name


def check(what, actual, expected):
    """Prints a line for a check; ends the run if the values differ."""
    if actual != expected or type(actual) is not type(expected):
        print(f"FAILED  {section}: {what}\n  expected: {expected!r}\n       got: {actual!r}", flush=True)
        # The threads of listeners would keep the process alive.
        os._exit(1)
    print(f"ok      {section}: {what}", flush=True)


def fails(what, kind, message, body):
    """Checks that a call fails with an error of a class whose message contains a text."""
    try:
        result = body()
    except kind as error:
        check(what, (type(error).__name__, message if message in str(error) else str(error)),
              (kind.__name__, message))
    except Exception as error:  # The failure shows it.
        check(what, f"{type(error).__name__}: {error}", f"{kind.__name__}: {message}")
    else:
        check(what, result, f"{kind.__name__}: {message}")


# MARK: Values


def values():
    begin("values")
    ref = db.reference("/values")
    for value in [
        True, False, 0, 1, -1, 9007199254740991, -9007199254740991, 0.5, -1.25, 1e100, "", "text",
        "quotes \" and \\ and \n and \t", "Grüße, 日本, 👩‍🚀", "\u2028\u0000\u001f",
        {"a": 1}, {"a": {"b": {"c": [True, "x"]}}}, ["a", "b"], [{"a": 1}, {"b": 2}],
    ]:
        ref.set(value)
        check(f"{value!r} is read as it was set", ref.get(), value)
    ref.set({"a": {}, "b": None, "c": 1})
    check("empty objects and null are absent", ref.get(), {"c": 1})
    ref.set({"0": "a", "1": "b"})
    check("children with numbers for keys are a list", ref.get(), ["a", "b"])
    ref.set({"0": "a", "3": "d"})
    check("a list has null for missing children", ref.get(), ["a", None, None, "d"])
    ref.set({"0": "a", "9": "j"})
    check("few children with numbers for keys are an object", ref.get(), {"0": "a", "9": "j"})
    for key in ["with space", "Grüße", "日本", "a+b", "a&b=c", "100%", "a;b", "~!*()'", "👩‍🚀"]:
        child = ref.child(key)
        child.set(key)
        check(f"{key!r} is a key", child.get(), key)
    large = {f"key-{number:05}": "x" * 100 for number in range(20_000)}
    ref.set(large)
    check("two megabytes are read as they were set", ref.get() == large, True)
    ref.delete()
    check("deleted data are None", ref.get(), None)
    check("absent data are None", db.reference("/values/a/b/c").get(), None)


def writes():
    begin("writes")
    ref = db.reference("/writes")
    ref.set({"a": 1, "b": {"c": 2}})
    check("set returns None", ref.child("a").set(3), None)
    ref.update({"b": {"d": 4}, "e": 5})
    check("update replaces the children that it names", ref.get(), {"a": 3, "b": {"d": 4}, "e": 5})
    ref.update({"b/d": 6, "b/f": 7, "a": None})
    check("update takes paths, and None deletes", ref.get(), {"b": {"d": 6, "f": 7}, "e": 5})
    ref.child("b/f").delete()
    check("delete removes one child", ref.get(), {"b": {"d": 6}, "e": 5})
    pushed = ref.child("list").push({"n": 1})
    check("push returns the reference of the new child", pushed.get(), {"n": 1})
    check("a push without a value is an empty text", ref.child("list").push().get(), "")
    keys = [ref.child("list").push(number).key for number in range(20)]
    check("the keys of pushes have twenty characters", {len(key) for key in keys}, {20})
    check("the keys of pushes are in order", sorted(keys), keys)
    before = int(time.time() * 1000)
    ref.child("at").set({".sv": "timestamp"})
    after = int(time.time() * 1000)
    check("a server value is the time", before - 1000 <= ref.child("at").get() <= after + 1000, True)
    ref.child("count").set(5)
    ref.update({"count": {".sv": {"increment": 2}}})
    check("a server value increments", ref.child("count").get(), 7)
    ref.child("ranked").set({".value": "x", ".priority": 2})
    check("a priority is not part of the value", ref.child("ranked").get(), "x")
    check("the parent of a reference has its data", ref.child("b").parent.child("e").get(), 5)
    fails("an invalid key is refused", exceptions.InvalidArgumentError, "Invalid data",
          lambda: ref.set({"a.b": 1}))
    fails("paths that contain each other are refused", exceptions.InvalidArgumentError, "",
          lambda: ref.update({"x": 1, "x/y": 2}))
    check("a refused write changes nothing", ref.child("x").get(), None)


def reads():
    begin("reads")
    ref = db.reference("/reads")
    ref.set({"a": {"b": 1}, "c": "text", "d": [1, 2]})
    check("a shallow read has true for each child", ref.get(shallow=True), {"a": True, "c": True, "d": True})
    check("a shallow read of a leaf is its value", ref.child("c").get(shallow=True), "text")
    check("a shallow read of absent data is None", ref.child("z").get(shallow=True), None)


def etags():
    begin("ETags")
    ref = db.reference("/etags")
    ref.delete()
    check("absent data have null_etag", ref.get(etag=True), (None, "null_etag"))
    value = {"name": "Ada", "since": 1815}
    check("set_if_unchanged creates", ref.set_if_unchanged("null_etag", value)[:2], (True, value))
    data, etag = ref.get(etag=True)
    check("get returns the data with the ETag", data, value)
    check("an ETag is a text", isinstance(etag, str) and len(etag) > 0, True)
    check("get_if_changed sees no change", ref.get_if_changed(etag), (False, None, None))
    check("get_if_changed sees another ETag", ref.get_if_changed("other"), (True, value, etag))
    check("set_if_unchanged returns the present data for a stale ETag",
          ref.set_if_unchanged("stale", {"name": "no"}), (False, value, etag))
    changed = {"name": "Ada", "since": 1833}
    success, data, new = ref.set_if_unchanged(etag, changed)
    check("set_if_unchanged sets", (success, data), (True, changed))
    check("set_if_unchanged returns the new ETag", new, ref.get(etag=True)[1])
    check("the new ETag is another one", new == etag, False)
    check("the returned ETag is the one of the data", ref.get_if_changed(new), (False, None, None))
    ref.set(value)
    check("the same data have the same ETag", ref.get(etag=True), (value, etag))


def transactions():
    begin("transactions")
    ref = db.reference("/transactions")
    ref.delete()
    check("a transaction creates", ref.child("a").transaction(lambda present: (present or 0) + 1), 1)
    check("a transaction changes", ref.child("a").transaction(lambda present: present + 1), 2)
    rounds, workers = 10, 4
    # Each worker is one of the library's applications, because a library's session is for one thread.
    apps = [firebase_admin.initialize_app(None, OPTIONS, f"worker-{number}") for number in range(workers)]
    errors = []

    def work(app):
        counter = db.reference("/transactions/counter", app)
        for _ in range(rounds):
            while True:
                try:
                    counter.transaction(lambda present: (present or 0) + 1)
                    break
                except db.TransactionAbortedError:
                    continue
                except Exception as error:
                    return errors.append(error)

    threads = [threading.Thread(target=work, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for app in apps:
        firebase_admin.delete_app(app)
    check("no transaction fails", errors, [])
    check("no increment of transactions is lost", ref.child("counter").get(), rounds * workers)

    def refuse(_):
        raise KeyError("not now")

    fails("a function that raises ends its transaction", KeyError, "not now",
          lambda: ref.child("a").transaction(refuse))
    check("an ended transaction changes nothing", ref.child("a").get(), 2)
    other = db.reference("/transactions/contended")
    other.set(0)

    def disturb(present):
        other.set(present + 1)
        return -1

    fails("a transaction gives up", db.TransactionAbortedError, "aborted",
          lambda: other.transaction(disturb))


# MARK: Queries


def queries():
    begin("queries")
    ref = db.reference("/queries/people")
    people = {
        "ada": {"name": "Ada", "height": 165, "at": {"city": "London"}},
        "alan": {"name": "Alan", "height": 180, "at": {"city": "Wilmslow"}},
        "grace": {"name": "Grace", "height": 168.5, "at": {"city": "New York"}},
        "kurt": {"name": "Kurt", "height": 180, "at": {"city": "Princeton"}},
        "nobody": {"name": "?"},
        "odd": {"name": False, "height": "tall", "at": {"city": True}},
    }
    ref.set(people)

    def keys(query):
        result = query.get()
        return list(result) if isinstance(result, (dict, list)) else result

    by_height = ref.order_by_child("height").get()
    check("a query returns the whole children", by_height, collections.OrderedDict(
        (key, people[key]) for key in ["nobody", "ada", "grace", "alan", "kurt", "odd"]))
    for what, query, expected in [
        ("order_by_child, null before numbers before texts", ref.order_by_child("height"),
         ["nobody", "ada", "grace", "alan", "kurt", "odd"]),
        ("order_by_child and limit_to_first", ref.order_by_child("height").limit_to_first(2),
         ["nobody", "ada"]),
        ("order_by_child and limit_to_last", ref.order_by_child("height").limit_to_last(2),
         ["kurt", "odd"]),
        ("order_by_child and start_at", ref.order_by_child("height").start_at(168.5),
         ["grace", "alan", "kurt", "odd"]),
        ("order_by_child and end_at", ref.order_by_child("height").end_at(168.5),
         ["nobody", "ada", "grace"]),
        ("order_by_child and equal_to", ref.order_by_child("height").equal_to(180), ["alan", "kurt"]),
        ("order_by_child and equal_to a text", ref.order_by_child("name").equal_to("Ada"), ["ada"]),
        ("order_by_child and equal_to False", ref.order_by_child("name").equal_to(False), ["odd"]),
        ("order_by_child and a range", ref.order_by_child("height").start_at(166).end_at(180),
         ["grace", "alan", "kurt"]),
        ("order_by_child, a range and limit_to_last",
         ref.order_by_child("height").start_at(100).end_at(180).limit_to_last(2), ["alan", "kurt"]),
        ("order_by_child with a path", ref.order_by_child("at/city").start_at("M"),
         ["grace", "kurt", "alan"]),
        ("order_by_child of a child that none has", ref.order_by_child("none").limit_to_first(2),
         ["ada", "alan"]),
        ("a query without a result", ref.order_by_child("height").equal_to(1), []),
        ("order_by_key", ref.order_by_key(), ["ada", "alan", "grace", "kurt", "nobody", "odd"]),
        ("order_by_key and limit_to_first", ref.order_by_key().limit_to_first(1), ["ada"]),
        ("order_by_key and limit_to_last", ref.order_by_key().limit_to_last(2), ["nobody", "odd"]),
        ("order_by_key and start_at", ref.order_by_key().start_at("kurt"), ["kurt", "nobody", "odd"]),
        ("order_by_key and end_at", ref.order_by_key().end_at("alan"), ["ada", "alan"]),
        ("order_by_key and equal_to", ref.order_by_key().equal_to("grace"), ["grace"]),
        ("order_by_key, a range and a limit",
         ref.order_by_key().start_at("alan").end_at("odd").limit_to_first(2), ["alan", "grace"]),
    ]:
        check(what, keys(query), expected)
    scores = db.reference("/queries/scores")
    scores.set({"a": 3, "b": "x", "c": True, "d": 1.5, "e": False, "f": {"g": 1}, "h": "10", "i": 3})
    for what, query, expected in [
        ("order_by_value, by type and value", scores.order_by_value(),
         [("e", False), ("c", True), ("d", 1.5), ("a", 3), ("i", 3), ("h", "10"), ("b", "x"), ("f", {"g": 1})]),
        ("order_by_value and limit_to_first", scores.order_by_value().limit_to_first(2),
         [("e", False), ("c", True)]),
        ("order_by_value and limit_to_last", scores.order_by_value().limit_to_last(1), [("f", {"g": 1})]),
        ("order_by_value and start_at", scores.order_by_value().start_at("10"),
         [("h", "10"), ("b", "x"), ("f", {"g": 1})]),
        ("order_by_value and end_at", scores.order_by_value().end_at(True), [("e", False), ("c", True)]),
        ("order_by_value and equal_to", scores.order_by_value().equal_to(3), [("a", 3), ("i", 3)]),
    ]:
        check(what, list(query.get().items()), expected)
    check("a query of absent data is empty", keys(db.reference("/queries/absent").order_by_key()) or [], [])
    texts = db.reference("/queries/texts")
    # The library does not escape & + % and # in a query.
    texts.set({"a": "Grüße, 日本", "b": "a = b; c?", "c": 'say "x"'})
    for key, text in texts.get().items():
        check(f"equal_to {text!r}", list(texts.order_by_value().equal_to(text).get()), [key])
    numbers = db.reference("/queries/numbers")
    numbers.set(["a", "b", "c"])
    check("a query of a list has its values", [
        value for value in dict(enumerate(result) if isinstance(result, list) else result).values()
        if value is not None
    ] if (result := numbers.order_by_key().start_at("1").get()) else result, ["b", "c"])


# MARK: Listeners


class Listening:
    """A listener whose events wait in a queue."""

    def __init__(self, ref):
        self.events = queue.Queue()
        self.registration = ref.listen(
            lambda event: self.events.put((event.event_type, event.path, event.data)))

    def next(self):
        try:
            return self.events.get(timeout=SECONDS)
        except queue.Empty:
            return f"no event in {SECONDS} seconds"

    def close(self):
        self.registration.close()


def listeners():
    begin("listeners")
    ref = db.reference("/listeners")
    ref.set({"a": 1})
    first, second = Listening(ref), Listening(ref.child("b/c"))
    check("a listener begins with the data", first.next(), ("put", "/", {"a": 1}))
    check("a listener of absent data begins with None", second.next(), ("put", "/", None))
    ref.child("b/c").set("Grüße, 日本, 👩‍🚀")
    check("set is a put at its path", first.next(), ("put", "/b/c", "Grüße, 日本, 👩‍🚀"))
    check("set at the path of a listener is a put", second.next(), ("put", "/", "Grüße, 日本, 👩‍🚀"))
    ref.update({"a": 2, "d/e": 3})
    check("update is a patch", first.next(), ("patch", "/", {"a": 2, "d/e": 3}))
    ref.child("d").update({"e": 4, "f": None})
    check("update below a listener is a patch at its path", first.next(), ("patch", "/d", {"e": 4, "f": None}))
    key = ref.child("list").push({"n": 1}).key
    check("push is a put", first.next(), ("put", f"/list/{key}", {"n": 1}))
    ref.child("a").transaction(lambda present: present + 1)
    check("a transaction is a put", first.next(), ("put", "/a", 3))
    ref.child("b").delete()
    check("delete is a put of None", first.next(), ("put", "/b", None))
    check("delete above a listener is a put of None", second.next(), ("put", "/", None))
    ref.set({"z": 0})
    check("set of the whole is a put", first.next(), ("put", "/", {"z": 0}))
    large = {f"key-{number:04}": "x" * 100 for number in range(2_000)}
    ref.child("large").set(large)
    check("an event with 200 kilobytes arrives", first.next() == ("put", "/large", large), True)
    # The library reads until the server sends something, so it must be ended by a write. Its thread ends with an error,
    # because its connection is closed while it reads: that is not printed.
    print_error, threading.excepthook = threading.excepthook, lambda _: None
    for listening in [first, second]:
        closing = threading.Thread(target=listening.close)
        closing.start()
        while closing.is_alive():
            ref.child("b/c").set(time.time())
            closing.join(0.05)
    threading.excepthook = print_error
    check("listeners end", True, True)


# MARK: Rules


def rules():
    begin("rules")
    client = db.reference()._client
    before = client.request("get", "/.settings/rules.json").text
    check("rules are read without comments",
          list(client.body("get", "/.settings/rules.json", params="format=strict")), ["rules"])
    wanted = {"rules": {
        ".read": "auth != null && auth.token.reader == true",
        "own": {"$uid": {".read": "auth != null && auth.uid == $uid", ".write": "auth != null && auth.uid == $uid"}},
        "open": {".read": True, ".write": True, ".indexOn": ["n"]},
        "typed": {".write": True, ".validate": "newData.isNumber()"},
    }}
    client.request("put", "/.settings/rules.json", json=wanted)
    check("rules are read as they were written", client.body("get", "/.settings/rules.json"), wanted)
    fails("invalid rules are refused", exceptions.InvalidArgumentError, "",
          lambda: client.request("put", "/.settings/rules.json", json={"rules": {".read": "auth.uid ="}}))
    check("invalid rules replace nothing", client.body("get", "/.settings/rules.json"), wanted)
    db.reference("/own").set({"ada": 1, "alan": 2})
    db.reference("/open").set({"a": {"n": 1, "m": 1}})

    def app(name, override):
        return firebase_admin.initialize_app(
            None, {**OPTIONS, "databaseAuthVariableOverride": override}, name)

    ada, nobody = app("ada", {"uid": "ada"}), app("nobody", None)
    reader = app("reader", {"uid": "grace", "token": {"reader": True}})
    check("auth_variable_override reads as a user", db.reference("/own/ada", ada).get(), 1)
    db.reference("/own/ada", ada).set(3)
    check("auth_variable_override writes as a user", db.reference("/own/ada").get(), 3)
    denied = exceptions.UnauthenticatedError
    fails("another user's data are not read", denied, "Permission denied",
          lambda: db.reference("/own/alan", ada).get())
    fails("another user's data are not written", denied, "Permission denied",
          lambda: db.reference("/own/alan", ada).set(4))
    fails("None is anonymous", denied, "Permission denied", lambda: db.reference("/own/ada", nobody).get())
    check("anonymous users read open data", db.reference("/open/a/n", nobody).get(), 1)
    check("the claims of an override count", db.reference("/own", reader).get(), {"ada": 3, "alan": 2})
    fails("data that are not valid are refused", denied, "Permission denied",
          lambda: db.reference("/typed", nobody).set("text"))
    db.reference("/typed", nobody).set(1)
    check("valid data are written", db.reference("/typed").get(), 1)
    check("a user queries with an index",
          dict(db.reference("/open", nobody).order_by_child("n").equal_to(1).get()), {"a": {"n": 1, "m": 1}})
    fails("a user does not query without an index", exceptions.InvalidArgumentError,
          'Index not defined, add ".indexOn": "m", for path "/open", to the rules',
          lambda: db.reference("/open", nobody).order_by_child("m").equal_to(1).get())
    fails("a user does not read rules", denied, "",
          lambda: db.reference("/", ada)._client.body("get", "/.settings/rules.json"))
    for other in [ada, nobody, reader]:
        firebase_admin.delete_app(other)
    return wanted, before


# MARK: Accounts


def post(address, body):
    response = requests.post(f"{address}?key=any", json=body, timeout=SECONDS)
    return response.status_code, response.json()


def accounts():
    begin("accounts")
    user = auth.create_user(email="ada@example.org", password="engine of 1843", display_name="Ada")
    check("create_user returns the account", (user.email, user.display_name, user.disabled),
          ("ada@example.org", "Ada", False))
    check("get_user finds it", auth.get_user(user.uid).email, "ada@example.org")
    check("get_user_by_email finds it, in capitals too", auth.get_user_by_email("ADA@example.org").uid, user.uid)
    fails("get_user refuses an unknown uid", auth.UserNotFoundError, "No user record found",
          lambda: auth.get_user("unknown"))
    fails("an address has one account", auth.EmailAlreadyExistsError, "EMAIL_EXISTS",
          lambda: auth.create_user(email="ada@example.org", password="another one"))
    named = auth.create_user(uid="chosen-uid", email="alan@example.org", password="machine of 1936")
    check("create_user takes a uid", named.uid, "chosen-uid")
    fails("a uid has one account", auth.UidAlreadyExistsError, "DUPLICATE_LOCAL_ID",
          lambda: auth.create_user(uid="chosen-uid", email="other@example.org", password="machine of 1937"))
    found = auth.get_users([auth.UidIdentifier(user.uid), auth.EmailIdentifier("alan@example.org"),
                            auth.UidIdentifier("unknown")])
    check("get_users finds several", sorted(account.uid for account in found.users),
          sorted([user.uid, "chosen-uid"]))
    check("get_users names the missing ones", [id.uid for id in found.not_found], ["unknown"])
    check("list_users has all", {user.uid, "chosen-uid"} <= {
        account.uid for account in auth.list_users(max_results=1).iterate_all()}, True)
    updated = auth.update_user(user.uid, display_name="Countess", email_verified=True,
                               photo_url="https://example.org/ada.png")
    check("update_user changes the account",
          (updated.display_name, updated.email_verified, updated.photo_url),
          ("Countess", True, "https://example.org/ada.png"))
    check("update_user removes a name",
          auth.update_user(user.uid, display_name=auth.DELETE_ATTRIBUTE).display_name, None)
    auth.set_custom_user_claims(user.uid, {"reader": True})
    check("claims are kept", auth.get_user(user.uid).custom_claims, {"reader": True})

    status, login = post(f"{IDENTITY}/accounts:signInWithPassword",
                         {"email": "ada@example.org", "password": "engine of 1843", "returnSecureToken": True})
    check("a password signs in", (status, login.get("localId")), (200, user.uid))
    claims = auth.verify_id_token(login["idToken"], check_revoked=True)
    claims_at = claims["iat"]
    check("verify_id_token returns the claims",
          (claims["uid"], claims["email"], claims["aud"], claims["reader"],
           claims["firebase"]["sign_in_provider"]),
          (user.uid, "ada@example.org", PROJECT, True, "password"))
    fails("verify_id_token refuses a text", auth.InvalidIdTokenError, "", lambda: auth.verify_id_token("no.token"))
    token = auth.create_custom_token("custom-uid", {"reader": True, "level": 3}).decode()
    status, custom = post(f"{IDENTITY}/accounts:signInWithCustomToken",
                          {"token": token, "returnSecureToken": True})
    check("a custom token signs in", (status, custom.get("isNewUser")), (200, True))
    claims = auth.verify_id_token(custom["idToken"])
    check("the claims of a custom token are in the identity token",
          (claims["uid"], claims["reader"], claims["level"], claims["firebase"]["sign_in_provider"]),
          ("custom-uid", True, 3, "custom"))
    check("a custom token creates an account", auth.get_user("custom-uid").uid, "custom-uid")
    status, fresh = post(TOKENS, {"grant_type": "refresh_token", "refresh_token": custom["refreshToken"]})
    check("a refresh token gives an identity token", (status, auth.verify_id_token(fresh["id_token"])["uid"]),
          (200, "custom-uid"))
    signed_in = lambda path, id_token: requests.get(  # noqa: E731
        f"http://{HOST}{path}.json", params={"auth": id_token}, timeout=SECONDS)
    db.reference("/own/custom-uid").set("mine")
    check("an identity token reads under the rules", signed_in("/own/custom-uid", fresh["id_token"]).json(), "mine")
    check("its claims count in rules", signed_in("/own", custom["idToken"]).status_code, 200)

    # The library compares seconds.
    while int(time.time()) <= claims_at:
        time.sleep(0.05)
    auth.revoke_refresh_tokens(user.uid)
    fails("a revoked token is refused", auth.RevokedIdTokenError, "revoked",
          lambda: auth.verify_id_token(login["idToken"], check_revoked=True))
    check("a revoked token does not read", signed_in("/own", login["idToken"]).status_code, 401)
    auth.update_user("chosen-uid", password="machine of 1950")
    status, answer = post(f"{IDENTITY}/accounts:signInWithPassword",
                          {"email": "alan@example.org", "password": "machine of 1936", "returnSecureToken": True})
    check("the old password is refused", (status, answer["error"]["message"]), (400, "INVALID_LOGIN_CREDENTIALS"))
    auth.update_user("chosen-uid", disabled=True)
    status, answer = post(f"{IDENTITY}/accounts:signInWithPassword",
                          {"email": "alan@example.org", "password": "machine of 1950", "returnSecureToken": True})
    check("a disabled account does not sign in", (status, answer["error"]["message"]), (400, "USER_DISABLED"))
    link = auth.generate_password_reset_link("ada@example.org")
    check("a link for a new password has a code", "oobCode=" in link, True)
    result = auth.delete_users(["chosen-uid", "unknown"])
    check("delete_users deletes", (result.success_count, result.failure_count), (2, 0))
    for uid in [user.uid, "custom-uid"]:
        auth.delete_user(uid)
        fails("a deleted account is not found", auth.UserNotFoundError, "", lambda uid=uid: auth.get_user(uid))
    check("the token of a deleted account does not read",
          signed_in("/own/custom-uid", fresh["id_token"]).status_code, 401)


def main():
    firebase_admin.initialize_app(None, OPTIONS)
    for part in [values, writes, reads, etags, transactions, queries, listeners]:
        part()
    _, before = rules()
    accounts()
    begin("rules")
    client = db.reference()._client
    client.request("put", "/.settings/rules.json", data=before.encode())
    check("the text of rules is kept", client.request("get", "/.settings/rules.json").text, before)
    print(f"all checks passed with firebase-admin {firebase_admin.__version__}")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
