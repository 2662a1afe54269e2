"""Each action of a reader, with the mouse and with the keyboard alone."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browser import Browser

BODY = "Eleven millimetres since breakfast.\n\nAnd it is not over."


def check_a_person_signs_up_writes_edits_comments_stars_renames_and_deletes(stage):
    browser = stage.first
    browser.open("/signup")
    browser.fill("#username", "newcomer")
    browser.fill("#email", "newcomer@example.org")
    browser.fill("#password", "short")
    browser.click("form button[type=submit]")
    browser.find(".notice.error", "That password is too short")
    assert browser.script("return document.getElementById('username').value") == "newcomer", "a refusal keeps the texts"
    browser.fill("#password", "two lamps and a ladder")
    browser.click("form button[type=submit]")
    browser.find("a.me")

    browser.click("header nav a", "My posts")
    browser.find(".state", "There is no post here yet")
    browser.click(".state a", "Write one")
    browser.fill("#title", "Rain gauge")
    browser.fill("#body", BODY)
    browser.driver.refresh()
    browser.find("#title")
    assert browser.script("return document.getElementById('body').value") == BODY, "a draft survives a reload"
    browser.click("form button[type=submit]", "Publish")
    browser.find(".post h1", "Rain gauge")
    post = browser.path().removeprefix("/post/")
    assert browser.texts(".body p") == BODY.split("\n\n")
    assert browser.script("return Object.keys(localStorage).filter((k) => k.includes('draft')).length") == 0

    browser.click(".tools a", "Edit")
    browser.fill("#title", "Rain gauge, again")
    browser.click("form button", "Save")
    browser.find(".post h1", "Rain gauge, again")

    browser.click(".post .star")
    browser.until("the star", lambda: stage.administrator.ask("SHOW", post)["starCount"] == 1)
    assert browser.text(".post .star .count") == "1"

    browser.fill("#comment", "A draft of a comment")
    browser.driver.refresh()
    browser.find("#comment")
    browser.until("the draft", lambda: browser.script("return document.getElementById('comment').value") == "A draft of a comment")
    browser.click(".discussion form button")
    browser.find(".comment", "A draft of a comment")
    browser.find(".discussion h2", "1 comment")

    browser.open("/account")
    browser.fill("#username", "OldChalk")
    browser.click("form button", "Rename")
    browser.find(".notice.error", "taken")
    browser.fill("#username", "drizzle")
    browser.click("form button", "Rename")
    browser.find("a.me[aria-label='Account of drizzle']")
    browser.open(f"/post/{post}")
    browser.find(".post .author", "drizzle")
    browser.find(".comment .author", "drizzle")

    browser.click(".comment button", "Delete")
    browser.click("dialog button", "Keep it")
    assert len(browser.all(".comment")) == 1
    browser.click(".comment button", "Delete")
    browser.click("dialog .danger")
    browser.find(".discussion .state", "No comments yet")
    browser.click(".tools button", "Delete")
    browser.click("dialog .danger")
    browser.find("h1", "Recent posts")
    assert post not in browser.ids()
    browser.open(f"/post/{post}")
    browser.find(".state", "There is no such post")


def check_a_person_signs_out_and_in_and_returns_to_the_page(stage):
    browser = stage.first
    browser.open("/account")
    browser.click("button", "Sign out")
    browser.find("header a", "Sign in")
    assert browser.script("return localStorage['canopy.session'] === undefined")
    browser.click("header nav a", "Top")
    browser.find("h1", "Top posts")
    browser.find(".card")
    browser.click(".card .star")
    browser.find("h1", "Sign in")
    browser.fill("#email", stage.people["OldChalk"]["email"])
    browser.fill("#password", "not her password")
    browser.click("form button[type=submit]")
    browser.find(".notice.error", "The e-mail address or the password is wrong")
    browser.fill("#password", stage.people["OldChalk"]["password"])
    browser.click("form button[type=submit]")
    browser.find("h1", "Top posts")
    browser.find("a.me[aria-label='Account of OldChalk']")


def check_a_deleted_comment_goes_wherever_it_is_and_the_focus_goes_to_the_heading(stage):
    stage.log_in()
    browser = stage.second
    author = stage.server.person("ngoc_lan")
    post = author.ask("POST", "Twenty-five comments", "…")["id"]
    for number in range(25):
        author.ask("COMMENT", post, f"Comment {number}.")
    try:
        browser.open(f"/post/{post}")
        browser.until("all comments", lambda: browser.script("scrollTo(0, document.body.scrollHeight)")
                      or len(browser.all(".comment")) == 25)
        # The last one is behind the newest 20, which the list itself follows.
        for text, number in [("Comment 2.", 24), ("Comment 24.", 23)]:
            comment = browser.find(".comment", text)
            browser.script("arguments[0].scrollIntoView({ block: 'center' })", comment)
            button = comment.find_element("css selector", "button")
            button.click()
            browser.click("dialog .danger")
            browser.find(".discussion h2", f"{number} comments")
            browser.until("its end", lambda: text not in browser.texts(".comment:not(.gone) .text"))
            assert not browser.all(".comment.gone:not([inert])"), "its button can be pressed again"
            browser.until("the focus", lambda: focused(browser)["text"] == f"{number} comments")
    finally:
        author.ask("DELETE", post)


def check_the_skip_link_keeps_the_view_with_its_texts(stage):
    browser = stage.first
    with browser.without_login():
        browser.open("/signup")
        browser.fill("#email", "half@example.org")
        browser.script("document.querySelector('.skip').focus()")
        browser.press(Keys.ENTER)
        browser.until("the focus", lambda: focused(browser)["id"] == "main")
        assert browser.script("return document.getElementById('email').value") == "half@example.org"


def check_a_question_does_not_stay_over_another_view(stage):
    stage.log_in()
    browser = stage.second
    author = stage.server.person("ngoc_lan")
    post = author.ask("POST", "Not to be deleted", "…")["id"]
    browser.open("/")
    browser.click(".card h2 a", "Not to be deleted")
    browser.click(".tools button", "Delete")
    browser.find("dialog")
    browser.driver.back()
    browser.find("h1", "Recent posts")
    browser.until("the end of the question", lambda: not browser.all("dialog"))
    assert author.ask("SHOW", post)["title"] == "Not to be deleted"
    author.ask("DELETE", post)


def check_the_main_flows_work_with_the_keyboard_alone(stage):
    stage.log_in()
    browser = stage.second
    browser.open("/")
    browser.find(".card")
    browser.press(Keys.TAB)
    assert focused(browser)["text"] == "Skip to the content"
    browser.press(Keys.ENTER)
    # The first star of the list.
    tab_to(browser, lambda it: it["class"] == "star")
    before = browser.star(browser.ids()[0])
    browser.press(Keys.SPACE)
    browser.until("the star", lambda: browser.star(browser.ids()[0])[1] != before[1])
    browser.press(Keys.SPACE)
    browser.until("the star again", lambda: browser.star(browser.ids()[0]) == before)

    browser.open("/")
    browser.find("header a", "Write")
    tab_to(browser, lambda it: it["text"] == "Write")
    browser.press(Keys.ENTER)
    browser.find("#title")
    assert focused(browser)["tag"] == "H1", "the heading of a new view has the focus"
    tab_to(browser, lambda it: it["id"] == "title")
    browser.press("By the keyboard", Keys.TAB, "No mouse was near.", Keys.TAB)
    assert focused(browser)["text"] == "Publish"
    browser.press(Keys.ENTER)
    browser.find(".post h1", "By the keyboard")
    tab_to(browser, lambda it: it["id"] == "comment")
    browser.press("Typed", Keys.TAB, Keys.ENTER)
    browser.find(".comment", "Typed")
    browser.script("document.querySelector('h1').focus()")
    tab_to(browser, lambda it: it["text"] == "Delete")
    browser.press(Keys.ENTER)
    browser.find("dialog")
    browser.press(Keys.ESCAPE)
    browser.until("the dialog to close", lambda: not browser.all("dialog"))
    assert focused(browser)["text"] == "Delete", "the focus returns to the button"
    browser.press(Keys.ENTER)
    browser.find("dialog")
    browser.press(Keys.TAB if focused(browser)["text"] == "Keep it" else Keys.NULL)
    assert focused(browser)["text"] == "Delete"
    browser.press(Keys.ENTER)
    browser.find("h1", "Recent posts")


def check_an_account_is_made_renamed_left_and_used_again_with_the_keyboard_alone(stage):
    browser = Browser(stage.server.address)
    try:
        browser.open("/")
        browser.find("header a", "Sign up")
        follow(browser, "Sign up")
        type_into(browser, "username", "fingers")
        type_into(browser, "email", "fingers@example.org")
        type_into(browser, "password", "short")
        browser.press(Keys.ENTER)
        browser.find(".notice.error", "That password is too short")
        assert focused(browser)["id"] == "password", "a refusal leaves the focus where it was"
        type_into(browser, "password", "ten keys and no mouse", tabs=False)
        browser.press(Keys.ENTER)
        browser.find("a.me[aria-label='Account of fingers']")
        browser.find("h1", "Recent posts")

        # The focus is at the heading of the list, and the header is before it.
        follow(browser, "Write", backwards=True)
        type_into(browser, "title", "Before")
        type_into(browser, "body", "By hand.")
        tab_to(browser, lambda it: it["text"] == "Publish")
        browser.press(Keys.SPACE)
        browser.find(".post h1", "Before")
        follow(browser, "Edit")
        browser.find("#title")
        type_into(browser, "title", "After")
        browser.press(Keys.ENTER)
        browser.find(".post h1", "After")
        post = browser.path().removeprefix("/post/")
        assert stage.administrator.ask("SHOW", post)["title"] == "After"

        tab_to(browser, lambda it: it["class"] == "me", backwards=True)
        browser.press(Keys.ENTER)
        browser.find("h1", "Account")
        type_into(browser, "username", "OldChalk")
        browser.press(Keys.ENTER)
        browser.find(".notice.error", "taken")
        type_into(browser, "username", "thumbs", tabs=False)
        browser.press(Keys.ENTER)
        browser.find("a.me[aria-label='Account of thumbs']")
        browser.until("what screen readers say", lambda: "Your user name is changed" in browser.texts(
            "#notices [role=status]"))
        browser.find(".toast", "Your user name is changed")
        assert focused(browser)["tag"] == "H1", "the focus is lost"
        follow(browser, "Sign out")
        browser.find("header a", "Sign in")

        follow(browser, "Sign in", backwards=True)
        type_into(browser, "email", "fingers@example.org")
        type_into(browser, "password", "not this one")
        browser.press(Keys.ENTER)
        browser.find(".notice.error", "The e-mail address or the password is wrong")
        type_into(browser, "password", "ten keys and no mouse", tabs=False)
        browser.press(Keys.ENTER)
        browser.find("a.me[aria-label='Account of thumbs']")
        author = stage.server.connect()
        author.ask("LOGIN", "fingers@example.org", "ten keys and no mouse")
        author.ask("DELETE", post)
        assert not browser.errors()
    finally:
        browser.close()


def follow(browser, text, backwards=False):
    """Goes to a link or button with the Tab key, and presses it."""
    browser.until(f"{text} to be shown", lambda: text in browser.texts("a, button"))
    tab_to(browser, lambda it: it["text"] == text, backwards)
    browser.press(Keys.ENTER)


def type_into(browser, id, text, tabs=True):
    """Goes to a field with the Tab key, unless it has the focus, and replaces its text."""
    browser.find(f"#{id}")
    if tabs:
        tab_to(browser, lambda it: it["id"] == id)
    ActionChains(browser.driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
    browser.press(text)


def tab_to(browser, condition, backwards=False):
    """Presses Tab until the focus is where it should be; every stop shows its focus."""
    for _ in range(60):
        if backwards:
            ActionChains(browser.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
        else:
            browser.press(Keys.TAB)
        it = focused(browser)
        assert it["outline"] != "none", f"the focus on {it} is not visible"
        if condition(it):
            return
    raise AssertionError("Tab does not reach it")


def focused(browser):
    return browser.script("""
        const it = document.activeElement;
        return { tag: it.tagName, id: it.id, class: it.className, text: it.textContent.trim(),
                 outline: getComputedStyle(it).outlineStyle }""")
