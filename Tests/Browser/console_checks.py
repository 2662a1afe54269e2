"""Uses the console of a running server in Chromium, as an operator does. Each check prints one line.

Arguments: the address of the HTTP port, that of the line port, the data folder of the server, and a folder for the
screenshots. The server must have the data of Seeds/demo.json. The first failure ends the run with exit status 1.
"""

import json
import os
import socket
import sys
import time

from console_page import ConsolePage, Keys, until

NASTY = "<img src=x onerror=document.title='broken'>\"'&"


class Line:
    """A client of the line protocol, as the administrator."""

    def __init__(self, address, token):
        host, port = address.rsplit(":", 1)
        self.file = socket.create_connection((host, int(port))).makefile("rw", encoding="utf-8", newline="\n")
        self("AUTH", token)

    def __call__(self, verb, *parts):
        self.send(verb, *parts)
        while (line := self.file.readline()).startswith(">"):
            pass
        assert line.startswith("+"), line
        return json.loads(line[1:])

    def send(self, verb, *parts):
        self.file.write(" ".join([verb, *(json.dumps(part) for part in parts)]) + "\n")
        self.file.flush()


def equal(actual, expected):
    assert actual == expected, f"expected {expected!r}, got {actual!r}"


# MARK: Entrance


def a_wrong_token_is_refused(page, line):
    page.open()
    page.first("main input").send_keys("wrong-token-wrong-token", Keys.ENTER)
    page.first(".notice.error")
    assert not page.all("nav")
    page.errors()


def the_token_stays_for_a_reload_and_goes_with_signing_out(page, line):
    page.sign_in()
    page.row("/posts")
    page.browser.refresh()
    page.row("/posts")
    page.press("Sign out", "header")
    page.first("main input")
    page.browser.refresh()
    page.first("main input")
    page.sign_in()


# MARK: Data


def values_are_live(page, line):
    line("SET", "/browser", {"a": 1, "b": {"c": "text"}})
    page.row("/browser").click()
    page.row("/browser/b").click()
    equal(page.shown("/browser/b/c"), '"text"')
    line("SET", "/browser/b/c", NASTY)
    until("the new value", lambda: page.shown("/browser/b/c") == json.dumps(NASTY))
    line("SET", "/browser/b/d", 4)
    equal(page.shown("/browser/b/d"), "4")
    line("REMOVE", "/browser/b")
    page.gone(".key", "c")
    equal(page.shown("/browser/a"), "1")


def a_change_of_a_value_moves_nothing(page, line):
    before = page.row("/posts").location
    line("SET", "/browser/a", "a longer text than before, in the same row")
    until("the value", lambda: page.shown("/browser/a").startswith('"a longer'))
    equal(page.row("/posts").location, before)


def a_value_is_edited(page, line):
    page.row("/browser/a").click()
    page.first(".inspector h2", "/browser/a")
    until("the value", lambda: page.first(".inspector textarea").get_attribute("value").startswith("a longer"))
    page.type(".inspector textarea", f"two\nlines {NASTY}")
    page.press("Save")
    page.message("Saved /browser/a")
    equal(line("GET", "/browser/a"), f"two\nlines {NASTY}")
    page.choose(".inspector .value-field select", "json")
    page.type(".inspector textarea", "[1")
    page.press("Save")
    page.message("This is not JSON")
    page.type(".inspector textarea", '{"x":1.5}')
    page.press("Save")
    page.message("Saved /browser/a")
    equal(line("GET", "/browser/a"), {"x": 1.5})


def an_edit_does_not_overwrite_a_newer_value(page, line):
    line("SET", "/browser/a", "old")
    until("the leaf", lambda: page.shown("/browser/a") == '"old"')
    page.row("/browser/a").click()
    until("the value", lambda: page.first(".inspector textarea").get_attribute("value") == "old")
    page.type(".inspector textarea", "mine")
    line("SET", "/browser/a", "theirs")
    page.press("Save")
    page.first(".inspector .hint", "Not saved")
    equal(line("GET", "/browser/a"), "theirs")
    page.press("Save")
    page.message("Saved")
    equal(line("GET", "/browser/a"), "mine")


def children_are_added_and_removed(page, line):
    page.row("/browser").click()
    page.first(".inspector h2", "/browser")
    page.press("Edit as JSON")
    until("the JSON", lambda: '"mine"' in page.first(".inspector textarea").get_attribute("value"))
    page.first(".inspector summary").click()
    page.type(".inspector details input", "added")
    page.choose(".inspector details select", "json")
    page.type(".inspector details textarea", "7")
    page.press("Add")
    page.message("Added /browser/added")
    equal(page.shown("/browser/added"), "7")
    page.type(".inspector details input", "added")
    page.type(".inspector details textarea", "8")
    page.press("Add")
    page.message("There is a child added already")
    equal(line("GET", "/browser/added"), 7)
    page.row("/browser/added").click()
    page.first(".inspector h2", "/browser/added")
    page.press("Remove")
    page.press("Cancel", "dialog")
    equal(line("GET", "/browser/added"), 7)
    page.press("Remove")
    page.confirm("Remove")
    page.message("Removed /browser/added")
    page.gone(".key", "added")
    page.first(".inspector h2", "/browser")


def the_tree_is_used_with_the_keyboard(page, line):
    page.open("#/data/browser")
    page.row("/a")
    page.browser.execute_script("document.querySelector('[role=treeitem]').focus()")
    page.keys(Keys.ARROW_DOWN)
    equal(page.first("[role=treeitem][aria-selected=true] .key").text, "a")
    page.keys(Keys.ENTER)
    until("the editor", lambda: page.browser.switch_to.active_element.tag_name == "textarea")
    page.browser.execute_script("document.querySelector('[role=treeitem][aria-selected=true]').focus()")
    page.keys(Keys.ARROW_LEFT)
    page.keys(Keys.ARROW_LEFT)
    page.gone(".key", "a")
    page.keys(Keys.ARROW_RIGHT)
    page.row("/a")
    page.keys(Keys.END)
    page.keys(Keys.DELETE)
    page.first("dialog")
    page.keys(Keys.ESCAPE)
    page.gone("dialog")


def a_place_with_many_children_opens_at_once(page, line):
    number = 20_000
    for start in range(0, number, 2_000):
        line("UPDATE", "/many", {f"k{key:06}": key for key in range(start, start + 2_000)})
    page.open("#/data/")
    row = page.row("/many")
    equal(page.shown("/many"), f"{number:,}")
    begun = time.monotonic()
    row.click()
    equal(page.shown("/many/k000099"), "99")
    assert time.monotonic() - begun < 2, "it took too long"
    page.press(f"Show 100 more of {number - 100:,}")
    equal(page.shown("/many/k000199"), "199")
    page.first(".note button", f"Show 100 more of {number - 200:,}")


def a_subtree_is_exported(page, line):
    folder = os.path.abspath(SCREENSHOTS)
    page.browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
    for path in ("/many", "/posts"):
        file = os.path.join(folder, f"{path[1:]}.json")
        if os.path.exists(file):
            os.remove(file)
        page.row(path).click()
        page.first(".inspector h2", path)
        page.press("Export")
        until("the file", lambda: os.path.exists(file))
        page.first(".inspector .hint", "Exported")
        with open(file, encoding="utf-8") as opened:
            equal(json.load(opened), line("GET", path, {"export": True}))
    line("REMOVE", "/many")


def a_query_shows_its_index_and_is_live(page, line):
    page.open("#/data/posts")
    page.first(".query summary").click()
    page.choose(".query select", "child")
    page.type(".query input", "starCount")
    page.choose(".query label:nth-of-type(5) select", "limitToLast")
    page.type(".query input[type=number]", "3")
    page.press("Run")
    page.first(".results p", "The index starCount serves this query")
    shown = lambda: [row.text for row in page.all(".results li button")]
    top = [post["id"] for post in line("TOP", {"limit": 3})]
    until("the posts", lambda: shown() == top[::-1])
    line("SET", f"/posts/{top[2]}/starCount", 99)
    until("the new order", lambda: shown() == [top[1], top[0], top[2]])
    page.press("Close the results")
    page.gone(".results li")


# MARK: Rules


def rules_are_checked_compared_and_published(page, line):
    page.view("Rules")
    before = line("RULES")["text"]
    until("the rules", lambda: page.first(".editor textarea").get_attribute("value") == before)
    page.type(".editor textarea", '{ "rules": {\n  "browser": { ".read": "tru" }\n} }')
    page.first("#problems .link", "2:").click()
    assert page.browser.execute_script("return document.activeElement.selectionStart") > 13
    assert not page.all("main button:not(:disabled)") or "Publish …" not in [
        each.text for each in page.all("main button:not(:disabled)")]
    page.type(".editor textarea", '{ "rules": {\n  "browser": { ".read": "true" }\n} }')
    page.first("#problems p", "No problems")
    page.press("Difference")
    page.first(".diff .added", "2")
    page.first(".diff .removed")
    page.press("Publish")
    page.confirm("Publish")
    page.message("The rules are in force")
    equal(line("RULES")["builtIn"], False)


def a_request_is_explained(page, line):
    page.type(".explain input", "@OldChalk")
    page.type(".explain input.path", "/browser/a")
    page.press("Explain")
    page.first(".verdict.allowed")
    page.first(".steps code", "/browser/.read")
    page.choose(".explain select", "SET")
    page.type(".explain textarea", "1")
    page.press("Explain")
    page.first(".verdict.denied")


def a_draft_survives_a_reload_and_the_built_in_rules_return(page, line):
    page.press("Difference")
    page.type(".editor textarea", "{ a draft")
    page.browser.refresh()
    until("the draft", lambda: page.first(".editor textarea").get_attribute("value") == "{ a draft")
    page.press("Built-in")
    page.confirm("Restore")
    page.message("The rules are in force")
    equal(line("RULES")["builtIn"], True)
    until("the rules", lambda: page.first(".editor textarea").get_attribute("value") == line("RULES")["text"])


# MARK: People


def a_person_is_found_disabled_and_enabled(page, line):
    page.view("People")
    page.first("tbody tr")
    user = line("USERS", {"limit": 3})["users"][2]
    page.type("main input[type=search]", user["username"])
    until("one row", lambda: page.all("tbody th")[0].text == user["username"])
    page.press(user["username"], "tbody")
    page.first("h2", user["username"])
    page.press("Disable")
    page.confirm("Disable")
    page.message(f"{user['username']} is disabled")
    page.first("tbody .tag.bad", "disabled")
    equal(line("USER", user["uid"])["disabled"], True)
    page.press("Enable")
    page.message(f"{user['username']} may log in again")
    equal(line("USER", user["uid"])["disabled"], False)


def a_password_is_set_and_sessions_end(page, line):
    user = line("USERS", {"limit": 3})["users"][2]
    page.type("main input[type=password]", "short")
    page.press("Set password")
    page.confirm("Set it")
    page.message("That password is too short")
    page.type("main input[type=password]", "two lamps and a ladder")
    page.press("Set password")
    page.confirm("Set it")
    page.message("The password is set")
    visitor = Line(LINE, page.token)
    visitor("LOGIN", user["email"], "two lamps and a ladder")
    page.press(user["username"], "tbody")
    page.first("h3", "Sessions (1)")
    page.press("Sign out everywhere")
    page.confirm("Sign out")
    page.message(f"{user['username']} is signed out everywhere")
    page.first("h3", "Sessions (0)")
    equal(visitor("WHOAMI"), None)


# MARK: Watch and clients


def figures_move_and_the_log_grows(page, line):
    page.view("Watch")
    charts = until("the charts", lambda: page.all("live-chart"))
    assert len(charts) >= 8
    until("two points", lambda: "L" in page.browser.execute_script(
        "return document.querySelector('live-chart .series-0').getAttribute('d')"))
    until("connections", lambda: any(character in "123456789" for character in page.text("live-chart:nth-of-type(4) dd")))
    before = len(page.all(".log li"))
    line("RULES", line("RULES")["text"])
    until("a line of the log", lambda: len(page.all(".log li")) > before or before == 300)


def a_connection_is_shown_and_ended(page, line):
    victim = Line(LINE, page.token)
    victim("LISTEN", "/browser", {"orderBy": "$key", "limitToLast": 2})
    victim("ONDISCONNECT SET", "/browser/gone", True)
    page.view("Clients")
    ids = lambda: {each["id"]: each for each in line("CLIENTS", {"limit": 1000})["clients"]}
    mine = [key for key, each in ids().items() if each["subscriptions"] == 1 and each["armed"] == 1][-1]
    page.press(f"{mine}", "tbody")
    page.first("h2", f"Connection {mine}")
    page.first(".rows li", "1 /browser")
    page.first(".rows code", "/browser/gone")
    page.press("End this connection")
    page.confirm("End it")
    page.message(f"Connection {mine} has ended")
    until("the row is gone", lambda: mine not in ids())
    until("the write", lambda: line("GET", "/browser/gone") is True)
    line("REMOVE", "/browser")


# MARK: All views


VIEWS = ("data", "rules", "people", "watch", "clients")


def every_view_has_names_contrast_and_fits(page, line):
    for width, height, dark in [(1280, 860, False), (1280, 860, True), (820, 900, False), (390, 844, False), (390, 844, True)]:
        other = ConsolePage(page.address, page.token, width=width, height=height, dark=dark)
        try:
            other.sign_in()
            for view in VIEWS:
                other.browser.execute_script("location.hash = arguments[0]", f"#/{view}")
                until(view, lambda: other.text("nav [aria-current=page]").lower() == view)
                time.sleep(1.2)
                name = f"console-{view}-{width}-{'dark' if dark else 'light'}"
                other.browser.save_screenshot(os.path.join(SCREENSHOTS, f"{name}.png"))
                equal((name, "without a name", other.unlabelled()), (name, "without a name", []))
                equal((name, "faint", other.faint()), (name, "faint", []))
                assert other.overflow() <= 0, f"{name} is too wide"
            equal(other.errors(), [])
        finally:
            other.close()


CHECKS = [
    a_wrong_token_is_refused, the_token_stays_for_a_reload_and_goes_with_signing_out, values_are_live,
    a_change_of_a_value_moves_nothing, a_value_is_edited, an_edit_does_not_overwrite_a_newer_value,
    children_are_added_and_removed, the_tree_is_used_with_the_keyboard, a_place_with_many_children_opens_at_once,
    a_subtree_is_exported, a_query_shows_its_index_and_is_live, rules_are_checked_compared_and_published,
    a_request_is_explained, a_draft_survives_a_reload_and_the_built_in_rules_return,
    a_person_is_found_disabled_and_enabled, a_password_is_set_and_sessions_end, figures_move_and_the_log_grows,
    a_connection_is_shown_and_ended, every_view_has_names_contrast_and_fits,
]


def main():
    global LINE, SCREENSHOTS
    address, LINE, folder, SCREENSHOTS = sys.argv[1:5]
    os.makedirs(SCREENSHOTS, exist_ok=True)
    with open(os.path.join(folder, "admin-token"), encoding="utf-8") as file:
        token = file.read().strip()
    page = ConsolePage(address, token)
    line = Line(LINE, token)
    wanted = sys.argv[5:]
    try:
        if wanted:
            page.sign_in()
        for check in CHECKS:
            name = check.__name__.replace("_", " ")
            if wanted and not any(each in name for each in wanted):
                continue
            try:
                check(page, line)
                equal(page.errors(), [])
            except Exception:
                page.browser.save_screenshot(os.path.join(SCREENSHOTS, "console-failure.png"))
                print(f"FAILED  console: {name}", flush=True)
                raise
            print(f"ok      console: {name}", flush=True)
    finally:
        page.close()


if __name__ == "__main__":
    main()
