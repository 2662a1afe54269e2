"""The Data view of the console: live values, changes, pages, exports and queries."""

import json
import os
import time

from selenium.webdriver.common.keys import Keys

from console_page import Console, token

NASTY = "<img src=x onerror=document.title='broken'>\"'&"
EDITOR = ".inspector textarea"


def check_a_wrong_token_is_refused_and_the_right_one_stays_until_signing_out(stage):
    browser = stage.first
    browser.open("/console/")
    browser.script("sessionStorage.clear()")
    browser.driver.refresh()
    browser.fill("main input", "a-wrong-token-of-some-length")
    browser.press(Keys.ENTER)
    browser.find(".notice.error")
    assert not browser.find("main input").get_attribute("name")
    browser.fill("main input", token(stage))
    browser.press(Keys.ENTER)
    browser.find("nav [aria-current=page]", "Data")
    browser.driver.refresh()
    browser.find("nav [aria-current=page]", "Data")
    browser.click("header button", "Sign out")
    browser.find("main input")
    browser.driver.refresh()
    browser.find("main input")
    # The blog of the same origin keeps texts of its own.
    kept = browser.script("return JSON.stringify([{ ...sessionStorage }, { ...localStorage }])")
    assert token(stage) not in kept, "the token is forgotten"


def check_values_are_live_and_text_stays_text(stage):
    console = Console(stage, "data")
    console.ask("SET", "/operator", {"a": 1, "b": {"c": "text"}})
    console.select("/operator")
    console.select("/operator/b")
    console.waits_for_value("/operator/b/c", '"text"')
    console.ask("UPDATE", "/operator/b", {"c": NASTY, "d": 4})
    console.waits_for_value("/operator/b/c", json.dumps(NASTY))
    console.waits_for_value("/operator/b/d", "4")
    console.ask("REMOVE", "/operator/b")
    console.has_no_key("c")
    assert stage.first.text(".inspector h2") == "/operator", "the selection moves up from a place that is gone"


def check_a_change_of_a_value_moves_nothing(stage):
    console = Console(stage, "data/operator")
    console.ask("SET", "/operator", {"a": 1, "z": 1})
    console.row("/a")
    before = console.row("/z").location
    console.ask("SET", "/operator/a", "a longer text than before, " * 20)
    stage.first.until("the value", lambda: console.value("/a").startswith('"a longer'))
    assert console.row("/z").location == before


def check_a_value_is_edited_as_text_and_as_json(stage):
    console = Console(stage, "data")
    console.ask("SET", "/operator", {"a": "old"})
    console.select("/operator")
    console.select("/operator/a")
    console.has_content(EDITOR, "old")
    stage.first.fill(EDITOR, f"two\nlines {NASTY}")
    console.press("Save")
    console.message("Saved /operator/a")
    assert console.ask("GET", "/operator/a") == f"two\nlines {NASTY}"
    console.choose(".inspector .value-field select", "json")
    stage.first.fill(EDITOR, "[1")
    console.press("Save")
    console.message("This is not JSON")
    stage.first.fill(EDITOR, '{"x":1.5}')
    console.press("Save")
    console.message("Saved /operator/a")
    assert console.ask("GET", "/operator/a") == {"x": 1.5}
    console.press("Edit as JSON")
    console.has_content(EDITOR, '{\n  "x": 1.5\n}')


def check_a_number_that_a_page_cannot_hold_is_refused(stage):
    console = Console(stage, "data/operator")
    console.ask("SET", "/operator", {"a": 1})
    console.row("/a").click()
    console.has_content(EDITOR, "1")
    for text in ("9007199254740993", "1e400", "[-1e400]", '{"x":{"y":9007199254740992}}'):
        stage.first.fill(EDITOR, text)
        console.press("Save")
        console.message("A number in it has more digits than a page can hold")
        assert console.ask("GET", "/operator/a") == 1
    stage.first.fill(EDITOR, "9007199254740991")
    console.press("Save")
    console.message("Saved /operator/a")
    assert console.ask("GET", "/operator/a") == 9007199254740991
    console.ask("SET", "/operator/a", 9007199254740993)
    stage.first.find(".inspector .hint", "more digits than a page can hold")
    assert stage.first.find(EDITOR).get_attribute("readonly")
    stage.first.click(".query summary")
    stage.first.script("document.querySelector('.query select').value = '$value'")
    console.choose(".query .pair select", "startAt")
    stage.first.fill(".query input[aria-label='Lower bound']", "1e400")
    console.press("Run")
    stage.first.find(".query .notice.error", "more digits than a page can hold")


def check_an_unsaved_text_stays_when_another_place_is_selected(stage):
    console = Console(stage, "data/operator")
    console.ask("SET", "/operator", {"a": "old", "b": {"c": 1}})
    console.waits_for_value("/a", '"old"')
    console.row("/a").click()
    console.has_content(EDITOR, "old")
    stage.first.fill(EDITOR, "typed")
    console.row("/b").click()
    console.press("Edit as JSON")
    console.has_content(EDITOR, '{\n  "c": 1\n}')
    stage.first.fill(EDITOR, '{"c":2}')
    console.row("/a").click()
    console.has_content(EDITOR, "typed")
    stage.first.find(".inspector .hint", "You have changed this here, and not saved it")
    console.row("/b").click()
    console.has_content(EDITOR, '{"c":2}')
    console.press("Save")
    console.message("Saved /operator/b")
    console.ask("SET", "/operator/a", "theirs")
    console.row("/a").click()
    console.has_content(EDITOR, "typed")
    console.press("Save")
    stage.first.find(".inspector .hint", "Not saved")
    console.press("Revert")
    console.has_content(EDITOR, "theirs")
    assert console.ask("GET", "/operator") == {"a": "theirs", "b": {"c": 2}}


def check_an_edit_does_not_overwrite_a_newer_value_at_once(stage):
    console = Console(stage, "data/operator")
    console.ask("SET", "/operator", {"a": "old"})
    console.waits_for_value("/a", '"old"')
    console.row("/a").click()
    console.has_content(EDITOR, "old")
    stage.first.fill(EDITOR, "mine")
    console.ask("SET", "/operator/a", "theirs")
    console.press("Save")
    stage.first.find(".inspector .hint", "Not saved")
    assert console.ask("GET", "/operator/a") == "theirs"
    console.press("Save")
    console.message("Saved /operator/a")
    assert console.ask("GET", "/operator/a") == "mine"


def check_a_value_that_removes_a_place_is_saved_after_a_question(stage):
    console = Console(stage, "data")
    for text in ("{}", "null", '{"x":{"y":null}}'):
        console.ask("SET", "/operator", {"a": {"b": 1, "c": 2}})
        console.select("/operator")
        console.select("/operator/a")
        console.press("Edit as JSON")
        console.has_content(EDITOR, '{\n  "b": 1,\n  "c": 2\n}')
        stage.first.fill(EDITOR, text)
        console.press("Save")
        stage.first.find("dialog", "This removes 2 children and everything below")
        console.press("Cancel", "dialog")
        console.is_gone("dialog")
        assert console.ask("GET", "/operator/a") == {"b": 1, "c": 2}
        console.press("Save")
        console.confirm("Remove")
        console.message("Saved /operator/a")
        assert console.ask("GET", "/operator") is None
        console.open("data")


def check_the_focus_stays_near_after_a_save_and_a_removal(stage):
    console = Console(stage, "data")
    browser = stage.first
    console.ask("SET", "/operator", {"a": 1, "b": 2, "c": 3})
    console.select("/operator")
    console.select("/operator/a")
    console.has_content(EDITOR, "1")
    browser.fill(EDITOR, "11")
    console.press("Save")
    browser.find(".message", "Saved /operator/a")
    browser.until("the focus", lambda: browser.script("return document.activeElement.tagName") == "TEXTAREA")
    console.select("/operator/b")
    console.press("Remove")
    console.confirm("Remove")
    console.has_no_key("b")
    selected = "return document.activeElement === document.querySelector('.place[aria-selected=true]')"
    browser.until("the focus", lambda: browser.script(selected))
    # Somebody else removes a value in whose field the operator is.
    console.select("/operator/c")
    console.has_content(EDITOR, "3")
    browser.click(EDITOR)
    console.ask("REMOVE", "/operator/c")
    console.has_no_key("c")
    browser.until("the focus", lambda: browser.script(selected))
    console.ask("REMOVE", "/operator")


def check_a_question_does_not_stay_over_another_place(stage):
    console = Console(stage, "data")
    console.ask("SET", "/operator", {"a": 1})
    console.select("/operator")
    console.press("Open alone")
    console.select("/a")
    console.press("Remove")
    stage.first.find("dialog", "Remove /operator/a?")
    stage.first.driver.back()
    console.is_gone("dialog")
    console.row("/posts")
    assert console.ask("GET", "/operator/a") == 1
    console.ask("REMOVE", "/operator")


def check_a_number_that_a_page_cannot_hold_is_marked_in_the_tree(stage):
    console = Console(stage, "data/operator")
    console.ask("SET", "/operator", {"a": 9007199254740993})
    console.waits_for_value("/a", "≈9007199254740992")
    console.ask("REMOVE", "/operator")


def check_children_are_added_and_removed(stage):
    console = Console(stage, "data")
    browser = stage.first
    console.ask("SET", "/operator", {"a": 1})
    console.select("/operator")
    browser.click(".inspector summary")
    for value in ("null", "7", "8"):
        browser.fill(".inspector details input", "added")
        console.choose(".inspector details select", "json")
        browser.fill(".inspector details textarea", value)
        console.press("Add")
        console.message({"null": "A child cannot be null", "7": "Added /operator/added",
                         "8": "There is a child added already"}[value])
    console.waits_for_value("/operator/added", "7")
    console.select("/operator/added")
    console.press("Remove")
    console.press("Cancel", "dialog")
    console.is_gone("dialog")
    assert console.ask("GET", "/operator/added") == 7
    console.press("Remove")
    console.confirm("Remove")
    console.message("Removed /operator/added")
    console.has_no_key("added")


def check_the_tree_is_used_with_the_keyboard(stage):
    console = Console(stage, "data/operator")
    browser = stage.first
    console.ask("SET", "/operator", {"a": 1, "b": 2})
    console.row("/b")
    browser.script("document.querySelector('[role=treeitem]').focus()")
    browser.press(Keys.ARROW_DOWN)
    browser.find("[role=treeitem][aria-selected=true] .key", "a")
    browser.press(Keys.ENTER)
    browser.until("the editor", lambda: browser.script("return document.activeElement.tagName") == "TEXTAREA")
    browser.script("document.querySelector('[role=treeitem][aria-selected=true]').focus()")
    browser.press(Keys.ARROW_LEFT)
    browser.press(Keys.ARROW_LEFT)
    console.has_no_key("a")
    browser.press(Keys.ARROW_RIGHT)
    console.row("/b")
    browser.press(Keys.END)
    browser.press(Keys.DELETE)
    browser.find("dialog", "Remove /operator/b?")
    browser.press(Keys.ESCAPE)
    console.is_gone("dialog")
    assert browser.script("return document.activeElement.textContent") == "b2", "the focus returns to the row"


def check_a_place_with_many_children_opens_at_once_and_is_exported(stage):
    console = Console(stage, "data")
    number = 20_000
    for start in range(0, number, 2_000):
        console.ask("UPDATE", "/many", {f"k{key:06}": key for key in range(start, start + 2_000)})
    console.ask("SET", "/many/.priority", 7)
    console.open("data")
    console.waits_for_value("/many", f"{number:,}")
    begun = time.monotonic()
    console.select("/many")
    console.waits_for_value("/many/k000099", "99")
    assert time.monotonic() - begun < 3, "the first page took too long"
    console.press(f"Show 100 more of {number - 100:,}")
    console.waits_for_value("/many/k000199", "199")
    folder = os.path.abspath(stage.options.folder)
    stage.first.command("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder)
    for path in ("/many", "/posts"):
        file = os.path.join(folder, f"{path[1:]}.json")
        if os.path.exists(file):
            os.remove(file)
        console.select(path)
        console.press("Export")
        stage.first.until("the file", lambda: os.path.exists(file))
        with open(file, encoding="utf-8") as opened:
            assert json.load(opened) == console.ask("GET", path, {"export": True})
        os.remove(file)
    console.ask("REMOVE", "/many")
    console.ask("REMOVE", "/operator")


def check_a_query_says_what_it_cost_before_its_index_is_made(stage):
    console = Console(stage, "data/posts")
    browser = stage.first
    browser.click(".query summary")
    console.choose(".query select", "child")
    browser.fill(".query label:nth-of-type(2) input", "body")
    console.press("Run")
    browser.find(".results p", "No index")
    browser.find(".results li button")
    console.press("Close the results")
    console.is_gone(".results li")


def check_a_query_shows_its_index_and_its_results_are_live(stage):
    console = Console(stage, "data/posts")
    browser = stage.first
    browser.click(".query summary")
    console.choose(".query select", "child")
    browser.fill(".query label:nth-of-type(2) input", "starCount")
    console.choose(".query .pair:nth-of-type(3) select", "limitToLast")
    browser.fill(".query input[type=number]", "3")
    console.press("Run")
    browser.find(".results p", "The index starCount serves this query")
    top = [post["id"] for post in console.ask("TOP", {"limit": 3})]
    count = console.ask("GET", f"/posts/{top[2]}/starCount")
    browser.until("the posts", lambda: browser.texts(".results li button") == top[::-1])
    console.ask("SET", f"/posts/{top[2]}/starCount", 1_000)
    browser.until("the new order", lambda: browser.texts(".results li button") == [top[1], top[0], top[2]])
    console.ask("SET", f"/posts/{top[2]}/starCount", count)
    console.press("Close the results")
    console.is_gone(".results li")
