"""The views Rules, People, Watch and Clients of the console, and its return after a server was killed."""

import json
import os
import re
import urllib.error
import urllib.request

from browser import OUTAGE, logs
from console_page import Console, token

EDITOR = ".editor textarea"
PASSWORD = "main input[type=password]"


def check_rules_are_checked_compared_published_and_explained(stage):
    console = Console(stage, "rules")
    browser = stage.first
    console.has_content(EDITOR, console.ask("RULES")["text"])
    browser.fill(EDITOR, '{ "rules": {\n  "operator": { ".read": "tru" }\n} }')
    browser.click("#problems .link", "2:")
    assert browser.script("return document.activeElement.selectionStart") > 13, "the caret is in the second line"
    assert browser.find(".bar .button", "Publish").get_attribute("disabled")
    browser.fill(EDITOR, '{ "rules": {\n  "operator": { ".read": "true" }\n} }')
    browser.find("#problems", "No problems")
    console.press("Difference")
    browser.find(".diff .added", "operator")
    browser.find(".diff .removed")
    console.press("Publish")
    console.confirm("Publish")
    console.message("The rules are in force since commit")
    assert console.ask("RULES")["builtIn"] is False
    browser.fill(".explain input", "@OldChalk")
    browser.fill(".explain input.path", "/operator/a")
    console.press("Explain")
    browser.find(".verdict.allowed")
    browser.find(".steps li", "/operator/.read")
    console.choose(".explain select", "SET")
    browser.fill(".explain textarea", "1")
    console.press("Explain")
    browser.find(".verdict.denied")


def check_the_rules_that_another_operator_publishes_are_those_in_force(stage):
    console = Console(stage, "rules")
    browser = stage.first
    before = console.ask("RULES")["text"]
    console.has_content(EDITOR, before)
    mine = '{ "rules": {\n  "mine": { ".read": "true" }\n} }'
    browser.fill(EDITOR, mine)
    theirs = '{ "rules": {\n  "theirs": { ".read": "true" },\n  "mine": { ".read": "true" }\n} }'
    console.ask("RULES", theirs)
    console.press("Difference")
    browser.until("the difference", lambda: "theirs" in (browser.text(".diff .removed") or ""))
    browser.find("#problems", "No problems")
    console.press("Publish")
    browser.find("dialog", "Somebody has published other rules since you began")
    browser.find("dialog", "0 lines added, 1 line removed")
    console.press("Cancel", "dialog")
    console.is_gone("dialog")
    assert console.ask("RULES")["text"] == theirs
    # The warning stays after a reload, as the draft does.
    browser.driver.refresh()
    console.has_content(EDITOR, mine)
    browser.find("#problems", "No problems")
    console.press("Publish")
    browser.find("dialog", "Somebody has published other rules since you began")
    console.press("Cancel", "dialog")
    console.is_gone("dialog")
    console.press("Revert")
    console.press("Cancel", "dialog")
    console.is_gone("dialog")
    assert console.content(EDITOR) == mine
    console.press("Revert")
    console.confirm("Revert")
    console.has_content(EDITOR, theirs)
    browser.script("document.querySelector(arguments[0]).setSelectionRange(9, 9)", EDITOR)
    console.ask("RULES", before)
    console.has_content(EDITOR, before)
    assert browser.script("return document.querySelector(arguments[0]).selectionStart", EDITOR) == 9, "the caret moved"


def check_a_draft_of_rules_survives_a_reload_and_the_built_in_rules_return(stage):
    console = Console(stage, "rules")
    browser = stage.first
    console.has_content(EDITOR, console.ask("RULES")["text"])
    browser.fill(EDITOR, "{ a draft")
    browser.driver.refresh()
    console.has_content(EDITOR, "{ a draft")
    console.press("Built-in")
    console.confirm("Restore")
    console.message("The rules are in force since commit")
    assert console.ask("RULES")["builtIn"] is True
    console.has_content(EDITOR, console.ask("RULES")["text"])


def check_a_person_is_found_disabled_enabled_and_signed_out(stage):
    console = Console(stage, "people")
    browser = stage.first
    email = stage.people["OldChalk"]["email"]
    uid = console.ask("USER", "@OldChalk")["uid"]
    browser.fill("main input[type=search]", "oldch")
    browser.until("one row", lambda: browser.texts("tbody th") == ["OldChalk"])
    console.press("OldChalk", "tbody")
    browser.find("h2", "OldChalk")
    console.press("Disable")
    console.confirm("Disable")
    console.message("OldChalk is disabled")
    browser.find("tbody .tag.bad", "disabled")
    assert console.ask("USER", uid)["disabled"] is True
    console.press("Enable")
    console.message("OldChalk may sign in again")
    assert console.ask("USER", uid)["disabled"] is False

    # An empty password is not asked about, and a refused one stays.
    console.press("Set password")
    assert not browser.all("dialog")
    browser.fill(PASSWORD, "short")
    console.press("Set password")
    console.confirm("Set it")
    console.message("That password is too short")
    assert console.content(PASSWORD) == "short"
    # The password of the demo data stays.
    browser.fill(PASSWORD, stage.people["OldChalk"]["password"])
    console.press("Set password")
    console.confirm("Set it")
    console.message("The password is set")
    visitor = stage.server.person("OldChalk")
    assert visitor.ask("WHOAMI")["email"] == email
    # The details are read again, too.
    console.press("Refresh")
    browser.find("h3", "Sessions (1)")
    console.press("Sign out everywhere")
    console.confirm("Sign out")
    console.message("OldChalk is signed out everywhere")
    browser.find("h3", "Sessions (0)")
    browser.until("the end of the login", lambda: visitor.ask("WHOAMI") is None)


def check_a_person_gets_a_code_for_a_new_password(stage):
    console = Console(stage, "people")
    browser = stage.first
    visitor = sign_up(stage, "forgetful")
    choose_person(console, "forgetful")
    console.press("Reset code")
    browser.find("dialog", "once and within an hour")
    console.press("Cancel", "dialog")
    console.is_gone("dialog")
    assert not console.shows(".facts dt", "Code")
    console.press("Reset code")
    console.confirm("Make it")
    code = browser.until("the code", lambda: dict(zip(browser.texts(".facts dt"), browser.texts(".facts dd"))).get("Code"))
    visitor.ask("RESET", code, "another words of forgetful")
    browser.until("the end of the login", lambda: visitor.ask("WHOAMI") is None)
    visitor.ask("LOGIN", "forgetful@example.org", "another words of forgetful")
    # A disabled account gets none: its user cannot sign in.
    console.press("Disable")
    console.confirm("Disable")
    console.message("forgetful is disabled")
    browser.find("main button:disabled", "Reset code")
    console.ask("DELETEUSER", "@forgetful", {"posts": True})


def check_a_person_is_exported_and_deleted_with_and_without_posts(stage):
    console = Console(stage, "people")
    browser = stage.first
    for name, posts in (("leaving", False), ("vanishing", True)):
        visitor = sign_up(stage, name)
        post = visitor.ask("POST", f"By {name}", "Words.")["id"]
        choose_person(console, name)
        uid = console.ask("USER", "@" + name)["uid"]
        file = os.path.join(stage.options.folder, f"user-{uid}.json")
        browser.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=os.path.dirname(file))
        console.press("Export")
        console.message(f"Exported the data of {name}")
        browser.until("the file", lambda: os.path.exists(file))
        with open(file, encoding="utf-8") as opened:
            pages = [json.loads(line) for line in opened]
        os.remove(file)
        assert pages[0]["account"]["username"] == name
        assert [it["id"] for page in pages for it in page["posts"]] == [post]
        console.press("Delete with posts" if posts else "Delete the account")
        browser.find("dialog", f"Delete {name}{' with all posts' if posts else ''}?")
        console.press("Cancel", "dialog")
        console.is_gone("dialog")
        assert console.ask("USER", "@" + name)["username"] == name
        console.press("Delete with posts" if posts else "Delete the account")
        console.confirm("Delete")
        console.message(f"{name} is deleted")
        browser.find(".columns .hint", "It does not exist any longer")
        browser.until("the end of the row", lambda: name not in browser.texts("tbody th"))
        browser.until("the end of the login", lambda: visitor.ask("WHOAMI") is None)
        kept = lambda: console.ask("GET", f"/posts/{post}") is not None
        browser.until("the end of the post", lambda: not kept()) if posts else None
        assert kept() != posts
        if not posts:
            console.ask("REMOVE", f"/posts/{post}")


def sign_up(stage, name):
    visitor = stage.server.connect()
    visitor.ask("SIGNUP", f"{name}@example.org", f"some words of {name}", name)
    return visitor


def choose_person(console, name):
    console.browser.fill("main input[type=search]", name)
    console.browser.until("one row", lambda: console.browser.texts("tbody th") == [name])
    console.press(name, "tbody")
    console.browser.find("h2", name)


def check_a_backup_is_made_and_listed(stage):
    console = Console(stage, "backups")
    browser = stage.first
    before = console.ask("BACKUPS")["backups"]
    browser.find(".hint", f"{len(before)} backup")
    console.press("Back up now")
    console.message("is complete")
    after = console.ask("BACKUPS")["backups"]
    assert len(after) == len(before) + 1
    browser.until("its row", lambda: after[0]["file"] in browser.texts("tbody th"))
    browser.find(".hint", f"{len(after)} backup")
    # A backup that fails is an error of this page, too.
    folder = os.path.join(stage.server.data, "backups")
    os.rename(folder, folder + ".away")
    try:
        with open(folder, "w", encoding="utf-8"):
            pass
        console.press("Back up now")
        console.message("is not a folder")
    finally:
        os.remove(folder)
        os.rename(folder + ".away", folder)
    browser.find(".hint", "The last backup failed")


def check_the_level_of_the_log_is_changed(stage):
    console = Console(stage, "watch")
    browser = stage.first
    label = "//label[span='The server logs from']/select"
    level = browser.until("the list", lambda: browser.script(
        "return document.evaluate(arguments[0], document, null, 9, null).singleNodeValue", label))
    browser.until("the present level", lambda: level.get_attribute("value") == console.ask("LOGLEVEL")["level"])
    before = console.ask("LOGLEVEL")["level"]
    for name in ("debug", before):
        browser.script("""
            arguments[0].value = arguments[1];
            arguments[0].dispatchEvent(new Event("change", { bubbles: true }));""", level, name)
        console.message(f"The server logs from {name} on")
        assert console.ask("LOGLEVEL")["level"] == name


def check_all_people_are_listed_in_pages(stage):
    console = Console(stage, "people")
    stage.first.until("the people", lambda: stage.first.texts("tbody th"))
    while console.shows(".foot button", "Show more"):
        before = len(stage.first.all("tbody tr"))
        console.press("Show more", ".foot")
        stage.first.until("more rows", lambda: len(stage.first.all("tbody tr")) > before)
    assert set(stage.people) <= set(stage.first.texts("tbody th"))


def check_figures_move_and_the_log_grows(stage):
    console = Console(stage, "watch")
    browser = stage.first
    browser.until("two points of a line", lambda: "L" in browser.script(
        "return document.querySelector('.chart path.series-0')?.getAttribute('d') ?? ''"))
    figures = dict(zip(browser.texts(".chart h2"), browser.script(
        "return [...document.querySelectorAll('.chart')].map((it) => it.querySelector('dd').textContent)")))
    assert re.match(r"[1-9]", figures["Connections"]), figures
    assert re.match(r"[1-9].*MiB", figures["Memory"]), figures
    browser.until("the requests of this page", lambda: re.match(r"0?\.?[1-9]", browser.text(".chart dd")))
    # The requests of this page are few, but each is the first after a pause.
    for title in ("Latency", "Latency of HTTP", "Refused requests"):
        browser.until(f"figures of {title}", lambda: refused_and_fetched(stage) and is_complete(browser, title))
    # Published again, the rules leave a line in the log.
    console.ask("RULES", console.ask("RULES")["text"])
    browser.find(".log li", "the rules have been replaced")


def refused_and_fetched(stage):
    """Makes the server refuse a request by HTTP and one by the line protocol, and answer one by HTTP."""
    visitor = stage.server.connect()
    visitor.send("GET", "/accounts")
    assert visitor.lines.readline().startswith("-PERMISSION_DENIED")
    for path, status in [("/accounts.json", 401), ("/posts.json?shallow=true", 200)]:
        try:
            with urllib.request.urlopen(stage.server.address + path) as reply:
                assert reply.status == status
        except urllib.error.HTTPError as error:
            assert error.code == status
    return True


def is_complete(browser, title):
    """Whether a chart shows numbers, of which some are not 0: of the latency both, of refusals those of two ports."""
    texts = browser.script("""
        const chart = [...document.querySelectorAll('.chart')].find((it) => it.querySelector('h2').textContent === arguments[0]);
        return [...chart.querySelectorAll('dl div')].map((it) => [it.children[0].textContent, it.children[1].textContent])""",
        title)
    numbers = [name for name, text in texts if re.match(r"0?\.?[1-9]", text)]
    return numbers == (["line", "HTTP"] if title.startswith("Refused") else ["median", "p99"])


def check_a_connection_is_shown_and_ended(stage):
    victim = stage.server.administrator()
    victim.ask("LISTEN", "/operator", {"orderBy": "$key", "limitToLast": 2})
    victim.ask("ONDISCONNECT", "SET", "/operator/gone", True)
    console = Console(stage, "clients")
    browser = stage.first
    known = lambda: {it["id"]: it for it in console.ask("CLIENTS", {"limit": 1_000})["clients"]}
    id = [key for key, it in known().items() if it["subscriptions"] == 1 and it["armed"] == 1][-1]
    browser.until("its row", lambda: str(id) in browser.texts("tbody .link"))
    browser.script("[...document.querySelectorAll('tbody .link')].find((it) => it.textContent === arguments[0]).click()", str(id))
    browser.find("h2", f"Connection {id}")
    browser.find(".rows li", "/operator")
    browser.find(".rows li", "/operator/gone")
    console.press("End this connection")
    console.confirm("End it")
    console.message(f"Connection {id} has ended")
    browser.until("its end", lambda: id not in known())
    browser.until("its write", lambda: console.ask("GET", "/operator/gone") is True)
    browser.find(".columns .hint", "It does not exist any longer")
    browser.until("the end of its row", lambda: str(id) not in browser.texts("tbody .link"))
    console.ask("REMOVE", "/operator")


@logs(*OUTAGE)
def check_the_console_goes_on_after_the_server_was_killed(stage):
    console = Console(stage, "data")
    console.row("/posts")
    stage.server.kill()
    stage.first.find("#state", "No connection")
    stage.server.start()
    stage.administrator = stage.server.administrator()
    stage.first.until("the connection", lambda: not stage.first.text("#state"))
    stage.administrator.ask("SET", "/operator", 5)
    console.waits_for_value("/operator", "5")
    stage.administrator.ask("REMOVE", "/operator")
    console.has_no_key("operator")
    assert token(stage)
