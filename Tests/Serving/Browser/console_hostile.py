"""Data that somebody has made to break the console: strange keys, huge texts, deep trees and rules of a megabyte."""

from console_page import Console

KEYS = ["a%2Fb", "__proto__", "constructor", "<b>bold<b>", "\u202ekey", "?x=1&y", "%", "  ", "é" * 100]
DEPTH = 30


def check_strange_keys_are_shown_opened_alone_and_exported(stage):
    console = Console(stage, "data")
    browser = stage.first
    for number, key in enumerate(KEYS):
        console.ask("SET", f"/hostile/{key}", {"n": number})
    console.open("data/hostile")
    browser.until("the keys", lambda: set(browser.texts(".tree [role=group] .key")) == set(KEYS))
    for key in KEYS:
        row = browser.until(key, lambda: next(
            (it for it in browser.all(".place") if it.find_element("css selector", ".key").text.strip() == key.strip()
             and it.get_attribute("aria-level") == "2"), None))
        row.click()
        browser.until("the selection", lambda: browser.text(".inspector h2") == f"/hostile/{key}")
    browser.click(".inspector button", "Open alone")
    browser.until("the place alone", lambda: browser.text(".tree .key") == f"/hostile/{KEYS[-1]}")
    for address in ("constructor", "__proto__", "data/%", "data/%E0%A4%A"):
        browser.driver.get("about:blank")
        browser.open(f"/console/#/{address}")
        browser.find("nav [aria-current=page]", "Data")
        browser.find(".place")
    console.ask("REMOVE", "/hostile")


def check_a_deep_tree_and_a_huge_text_stay_usable(stage):
    console = Console(stage, "data")
    browser = stage.first
    keys = [f"level{number}" for number in range(DEPTH)]
    console.ask("SET", "/deep/" + "/".join(keys), 1)
    browser.resize(390, 844)
    try:
        for depth in range(DEPTH):
            console.row("/deep/" + "/".join(keys[:depth])).click()
            console.row("/deep/" + "/".join(keys[:depth + 1]))
        assert browser.script("return document.documentElement.scrollWidth") <= 390
        rows = browser.script("""
            return [...document.querySelectorAll(".place")].filter((it) => it.textContent.startsWith("level")).map((it) =>
              [parseFloat(getComputedStyle(it).paddingLeft), it.querySelector(".key").clientWidth])""")
        indents = [indent for indent, _ in rows]
        assert len(rows) == DEPTH and indents == sorted(set(indents)), f"levels look the same: {indents}"
        assert min(width for _, width in rows) > 50, f"keys are cut off: {rows}"
    finally:
        browser.resize(1280, 900)
    console.ask("REMOVE", "/deep")
    text = "x" * 900_000
    for name in "abc":
        console.ask("SET", f"/huge/{name}", text)
    console.open("data/huge")
    console.row("/a").click()
    browser.until("the text", lambda: len(console.content(".inspector textarea") or "") == len(text))
    assert len(browser.text(".tree")) < 1_000, "the tree has the beginning of a text alone"
    browser.click(".place .key", "/huge")
    console.press("Edit as JSON")
    browser.find(".inspector .hint", "too large to edit here")
    assert not browser.all(".inspector > form"), "there is an empty field"
    console.ask("REMOVE", "/huge")


def check_a_request_that_is_too_long_is_refused_and_the_connection_stays(stage):
    console = Console(stage, "people")
    browser = stage.first
    browser.until("the people", lambda: browser.texts("tbody th"))
    enter = """
        arguments[0].value = arguments[1] + "é".repeat(arguments[2]);
        arguments[0].dispatchEvent(new Event("input", { bubbles: true }));"""
    browser.script(enter, browser.find("main input[type=search]"), "", 600_000)
    browser.find(".foot", "too long for one request")
    assert not browser.text("#state"), "the connection is lost"
    browser.fill("main input[type=search]", "oldch")
    browser.until("one row", lambda: browser.texts("tbody th") == ["OldChalk"])
    console.open("rules")
    console.choose(".explain select", "SET")
    # A line of the bound is sent; one byte more is not.
    bound = stage.server.connect().ask("HELLO")["limits"]["lineBytes"]
    frame = len('EXPLAIN null "SET" "/" ""')
    for excess, answer in [(0, ".verdict"), (1, ".explain .notice.error")]:
        browser.script("arguments[0].value = '\"' + 'x'.repeat(arguments[1]) + '\"'",
                       browser.find(".explain textarea"), bound - frame + excess)
        console.press("Explain")
        browser.find(answer)
        assert not browser.text("#state"), "the connection is lost"


def check_rules_of_a_megabyte_are_refused_with_a_sentence(stage):
    console = Console(stage, "rules")
    browser = stage.first
    area = ".editor textarea"
    console.has_content(area, console.ask("RULES")["text"])
    took = browser.script("""
        const area = document.querySelector(arguments[0]);
        const start = performance.now();
        area.value = "123456789\\n".repeat(110_000);
        area.dispatchEvent(new Event("input", { bubbles: true }));
        return performance.now() - start;""", area)
    browser.find("#problems .notice.error", "too long for one request")
    assert browser.find(".bar .button", "Publish").get_attribute("disabled")
    assert browser.script("return document.querySelectorAll('.gutter div').length") <= 20_000
    print(f"        the page took {took:.0f} ms to take a megabyte of lines")
    console.press("Revert")
    console.confirm("Revert")
    console.has_content(area, console.ask("RULES")["text"])
