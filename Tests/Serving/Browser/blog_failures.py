"""Requests that the server refuses once: each view says so, and "Try again" shows what was missing."""

import contextlib

from selenium.webdriver.common.keys import Keys

from blog_views import all_posts
from browser import Browser
from console_page import Console
from server import SpoilingProxy

COMMENTS = 45


def check_a_page_of_posts_that_fails_is_fetched_again(stage):
    with spoiling(stage) as (proxy, browser):
        proxy.spoilt = "RECENT "
        browser.open("/")
        browser.find(".card")
        browser.script("scrollTo(0, document.body.scrollHeight)")
        fails(browser, ".list-foot")
        shown = browser.ids()
        assert len(shown) >= 20 and len(set(shown)) == len(shown), "the posts above stay"
        # It may fail again.
        press_again(browser, ".list-foot")
        fails(browser, ".list-foot")
        assert browser.ids() == shown
        proxy.spoilt = None
        press_again(browser, ".list-foot")
        browser.until("more posts", lambda: len(browser.ids()) > len(shown))
        assert not browser.all(".list-foot [role=alert]")
        # From here on, pages come by themselves again.
        browser.until("the end of the list", lambda: browser.script("scrollTo(0, document.body.scrollHeight)")
                      or browser.all(".finished"))
        assert browser.ids() == all_posts(stage, "RECENT")


def check_a_page_of_comments_that_fails_is_fetched_again(stage):
    author = stage.server.person("emre_spokes")
    post = author.ask("POST", "Much discussed", "…")["id"]
    texts = [f"Comment {number}" for number in range(COMMENTS)]
    for text in texts:
        author.ask("COMMENT", post, text)
    try:
        with spoiling(stage) as (proxy, browser):
            proxy.spoilt = "COMMENTS "
            browser.open(f"/post/{post}")
            browser.find(".comment")
            browser.script("scrollTo(0, document.body.scrollHeight)")
            fails(browser, ".discussion .list-foot")
            assert browser.texts(".comment .text") == texts[:-21:-1] and browser.text(".post h1") == "Much discussed"
            proxy.spoilt = None
            press_again(browser, ".discussion .list-foot")
            browser.until("all comments", lambda: browser.script("scrollTo(0, document.body.scrollHeight)")
                          or browser.texts(".comment .text") == texts[::-1])
            browser.find(".finished", "No more comments")
    finally:
        author.ask("DELETE", post)


def check_an_editor_whose_post_is_not_read_reads_it_again(stage):
    author = stage.server.person("haruka_words")
    post = author.ask("POST", "To be edited", "Soon.")["id"]
    try:
        with spoiling(stage) as (proxy, browser):
            browser.log_in(stage.people["haruka_words"])
            proxy.spoilt = "SHOW "
            browser.open(f"/post/{post}/edit")
            fails(browser, "main")
            assert browser.text("h1") == "Edit the post" and not browser.all("#title")
            press_again(browser, "main")
            fails(browser, "main")
            proxy.spoilt = None
            press_again(browser, "main")
            browser.find("#title")
            assert browser.script("return document.getElementById('title').value") == "To be edited"
            browser.fill("#title", "Edited")
            # The editor reads the post again before it saves. A refusal of that keeps the text.
            proxy.spoilt = "SHOW "
            browser.click("form button", "Save")
            browser.find("form .notice.error")
            assert browser.script("return document.getElementById('title').value") == "Edited"
            assert stage.administrator.ask("SHOW", post)["title"] == "To be edited"
            proxy.spoilt = None
            browser.click("form button", "Save")
            browser.find(".post h1", "Edited")
            browser.open("/post/-Onothing/edit")
            browser.find(".state", "no such post")
            assert not browser.all(".state button"), "another attempt would not find it either"
    finally:
        author.ask("DELETE", post)


def check_children_and_people_of_the_console_that_fail_are_read_again(stage):
    with spoiling(stage) as (proxy, browser):
        console = Console(stage, "data", browser)
        console.row("/posts")
        proxy.spoilt = "KEYS "
        console.row("/posts").click()
        browser.find(".tree .note", "Try again")
        console.row("/users")
        # A change makes the console read what is shown again. A refusal of that takes nothing away.
        stage.administrator.ask("SET", "/operator", 1)
        browser.until("the errors of both", lambda: len(browser.all(".tree .note button")) == 2)
        console.row("/users")
        proxy.spoilt = None
        # In one go: each click draws the list again.
        browser.script("for (const button of document.querySelectorAll('.tree .note button')) button.click()")
        browser.until("the posts", lambda: len(browser.all(".place")) > 20)
        console.row("/operator")
        stage.administrator.ask("REMOVE", "/operator")
        proxy.spoilt = "USERS "
        console.open("people")
        browser.find(".foot", "Try again")
        assert not browser.all("tbody tr")
        proxy.spoilt = None
        browser.click(".foot button", "Try again")
        browser.until("the people", lambda: len(browser.all("tbody tr")) > 5)


@contextlib.contextmanager
def spoiling(stage):
    """A proxy that makes requests fail, and a browser whose requests pass through it."""
    proxy = SpoilingProxy(stage.server.http_port)
    browser = Browser(proxy.address)
    try:
        yield proxy, browser
        assert not browser.errors()
    finally:
        browser.close()
        proxy.close()


def fails(browser, place):
    """Waits for an error, which screen readers read at once, in a part of a view."""
    browser.find(f"{place} [role=alert] button", "Try again")
    assert not browser.all(f"{place} .skeleton"), "it does not seem to be loading any longer"


def press_again(browser, place):
    """Presses the button with the keyboard, as the mouse would do."""
    button = browser.find(f"{place} [role=alert] button", "Try again")
    browser.script("arguments[0].focus()", button)
    browser.press(Keys.ENTER)
