"""Texts on a slow line, texts that two browsers edit, and sessions that end: no text is lost, and none is overwritten."""

import time

from browser import OUTAGE, Browser, logs
from server import DelayingProxy

SECONDS = 0.7


def check_a_form_takes_no_text_while_it_is_sent(stage):
    with_slow_line(stage, type_while_a_comment_is_sent)


def type_while_a_comment_is_sent(stage, proxy, browser):
    post = browser.ids()[0]
    browser.open(f"/post/{post}")
    browser.fill("#comment", "Sent slowly")
    proxy.seconds = SECONDS
    browser.click(".discussion form button")
    assert browser.script("return document.getElementById('comment').readOnly"), "the text could be changed, and lost"
    browser.click("#comment")
    browser.press(" and changed")
    browser.find(".comment .text", "Sent slowly")
    assert browser.text(".comment .text") == "Sent slowly"
    browser.until("the end", lambda: not browser.script("return document.getElementById('comment').readOnly"))
    browser.fill("#comment", "typed later")
    proxy.seconds = 0
    browser.script("document.getElementById('comment').value = ''")


def check_a_late_reply_does_not_leave_the_view_that_is_shown_then(stage):
    with_slow_line(stage, go_elsewhere_before_the_reply)


def go_elsewhere_before_the_reply(stage, proxy, browser):
    browser.open("/write")
    browser.fill("#title", "Published slowly")
    browser.fill("#body", "But surely.")
    proxy.seconds = SECONDS
    browser.click("form button[type=submit]", "Publish")
    browser.click("header nav a", "Top")
    browser.find("h1", "Top posts")
    drafts = "return Object.keys(localStorage).filter((key) => key.includes('draft')).length"
    browser.until("the reply", lambda: browser.script(drafts) == 0)
    assert browser.path() == "/top", "the page has left the view that the reader had chosen"
    browser.driver.back()
    browser.find("h1", "Write a post")
    assert browser.script("return document.getElementById('title').value") == "", "the published text is shown again"
    proxy.seconds = 0
    post = stage.administrator.ask("RECENT", {"limit": 1})[0]
    assert post["title"] == "Published slowly"
    browser.open(f"/post/{post['id']}")
    browser.find(".tools button", "Delete")
    proxy.seconds = SECONDS
    browser.click(".tools button", "Delete")
    browser.click("dialog .danger")
    browser.click("header nav a", "Top")
    browser.until("the end of the post", lambda: stage.administrator.ask("RECENT", {"limit": 1})[0]["id"] != post["id"])
    time.sleep(SECONDS * 3)
    assert browser.path() == "/top"


def check_an_edit_does_not_overwrite_a_newer_text_at_once(stage):
    stage.log_in()
    browser = stage.second
    author = stage.server.person("ngoc_lan")
    post = author.ask("POST", "First", "One.")["id"]
    browser.open(f"/post/{post}/edit")
    browser.fill("#title", "Mine")
    author.ask("EDIT", post, "Theirs", "Two.")
    browser.click("form button", "Save")
    browser.find(".notice.error", "The post has changed since you opened it")
    assert stage.administrator.ask("SHOW", post)["title"] == "Theirs"
    browser.driver.refresh()
    browser.find(".notice", "This is your draft")
    assert browser.script("return document.getElementById('title').value") == "Mine"
    author.ask("EDIT", post, "Theirs again", "Three.")
    browser.click("form button", "Save")
    browser.find(".notice.error", "Save again to replace")
    browser.click("form button", "Save")
    browser.find(".post h1", "Mine")
    browser.open(f"/post/{post}/edit")
    browser.find("#title")
    assert not any(it.is_displayed() for it in browser.all("form .notice")), "no draft is left"
    stage.first.open(f"/post/{post}/edit")
    stage.first.find(".state", "Only the author of a post can edit it")
    author.ask("DELETE", post)
    assert stage.first.driver.title == "Edit the post · Canopy"


def check_publishing_in_one_tab_keeps_the_draft_of_another(stage):
    stage.log_in()
    browser = stage.second
    author = stage.server.person("ngoc_lan")
    browser.open("/write")
    browser.fill("#title", "Of the first tab")
    browser.fill("#body", "Ready.")
    browser.driver.switch_to.new_window("tab")
    try:
        browser.open("/write")
        browser.fill("#title", "Of the second tab")
        browser.driver.switch_to.window(browser.driver.window_handles[0])
        browser.click("form button[type=submit]", "Publish")
        browser.find(".post h1", "Of the first tab")
        browser.driver.switch_to.window(browser.driver.window_handles[1])
        browser.open("/write")
        browser.find("#title")
        assert browser.script("return document.getElementById('title').value") == "Of the second tab"
        browser.script("for (const key in localStorage) if (key.includes('draft')) localStorage.removeItem(key)")
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(browser.driver.window_handles[0])
    author.ask("DELETE", author.ask("POSTS", "@ngoc_lan", {"limit": 1})[0]["id"])


def check_changes_are_discarded_after_a_question_and_back_shows_the_post_once(stage):
    stage.log_in()
    browser = stage.second
    author = stage.server.person("ngoc_lan")
    post = author.ask("POST", "To be changed", "One.")["id"]
    browser.open("/")
    browser.click(".card h2 a", "To be changed")
    browser.click(".tools a", "Edit")
    browser.fill("#title", "Changed")
    browser.click("form button", "Discard")
    browser.click("dialog button", "Keep it")
    assert browser.script("return document.getElementById('title').value") == "Changed"
    browser.click("form button", "Discard")
    browser.click("dialog .danger")
    browser.find(".post h1", "To be changed")
    browser.click(".tools a", "Edit")
    browser.find("#title")
    assert browser.script("return document.getElementById('title').value") == "To be changed"
    browser.fill("#title", "Changed")
    browser.click("form button", "Save")
    browser.find(".post h1", "Changed")
    browser.driver.back()
    browser.find("h1", "Recent posts")
    author.ask("DELETE", post)


@logs(*OUTAGE)
def check_a_reader_who_signs_out_without_a_connection_is_signed_out_on_the_server_later(stage):
    person = sign_up(stage, "traveller")
    browser = Browser(stage.server.address)
    try:
        browser.log_in(person)
        token = browser.script("return JSON.parse(localStorage['canopy.session']).token")
        browser.open("/account")
        browser.find("button", "Sign out")
        stage.server.kill()
        browser.find(".toast", "Offline")
        browser.click("button", "Sign out")
        browser.find("header a", "Sign in")
        stage.server.start()
        stage.administrator = stage.server.administrator()
        browser.until("the end of the session", lambda: not is_valid(stage, token))
        browser.until("the end of the token", lambda: browser.script("return localStorage['canopy.ended'] === undefined"))
        assert not browser.errors(*OUTAGE)
    finally:
        browser.close()


def check_a_session_that_the_operator_ends_is_noticed_and_the_reader_comes_back(stage):
    person = sign_up(stage, "guest")
    browser = Browser(stage.server.address)
    try:
        browser.log_in(person)
        browser.open("/write")
        browser.fill("#title", "Half of a text")
        stage.administrator.ask("ENDSESSIONS", "@guest")
        # The reader looks at the page again.
        browser.script("document.dispatchEvent(new Event('visibilitychange'))")
        browser.find(".toast.error", "Your session has ended")
        browser.find(".state", "Your drafts are kept in this browser")
        browser.open("/")
        browser.find(".card")
        browser.click("header a", "Sign in")
        browser.click(".other a", "Sign up")
        browser.find("h1", "Sign up")
        browser.click(".other a", "Sign in")
        browser.fill("#email", person["email"])
        browser.fill("#password", person["password"])
        browser.click("form button[type=submit]")
        browser.find("h1", "Recent posts")
        browser.click("header a", "Write")
        browser.find("#title")
        assert browser.script("return document.getElementById('title').value") == "Half of a text"
        browser.driver.back()
        browser.find("h1", "Recent posts")
        browser.open("/signin")
        browser.find(".state", "You are signed in as guest")
        assert not browser.errors()
    finally:
        browser.close()


def check_values_of_other_kinds_do_not_break_the_lists(stage):
    browser = stage.first
    posts = {"-Pzzzzzzzzzzzzzzzzz1": {"title": "A number as its body", "body": 12, "uid": "odd", "author": 7, "createdAt": 1},
             "-Pzzzzzzzzzzzzzzzzz2": "a text alone"}
    try:
        for key, value in posts.items():
            stage.administrator.ask("SET", f"/posts/{key}", value)
        browser.open("/")
        browser.find(".card h2", "A number as its body")
        browser.find(".card h2", "Untitled")
        assert not [it for it in browser.texts(".card") if "NaN" in it or "undefined" in it]
        browser.open("/post/-Pzzzzzzzzzzzzzzzzz1")
        browser.find(".post h1", "A number as its body")
        assert browser.texts(".body p") == ["12"] and browser.text(".post .star .count") == "0"
    finally:
        stage.administrator.ask("UPDATE", "/posts", dict.fromkeys(posts))


def with_slow_line(stage, use):
    """Logs a person in over a line that becomes slow when the use says so."""
    proxy = DelayingProxy(stage.server.http_port, 0)
    browser = Browser(proxy.address)
    try:
        browser.log_in(stage.people["haruka_words"])
        browser.find(".card")
        use(stage, proxy, browser)
        assert not browser.errors()
    finally:
        browser.close()
        proxy.close()


def sign_up(stage, name):
    person = {"email": f"{name}@example.org", "password": "seven lamps in a row"}
    stage.server.connect().ask("SIGNUP", person["email"], person["password"], name)
    return person


def is_valid(stage, token):
    client = stage.server.connect()
    client.send("AUTH", token)
    return client.lines.readline().startswith("+")
