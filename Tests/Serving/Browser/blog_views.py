"""The views of the blog show the data of the server, and are found again by their addresses."""

import time

from browser import NO_PAGE, logs


def check_recent_posts_scroll_to_the_oldest_in_the_order_of_the_server(stage):
    browser = stage.first
    browser.open("/")
    browser.find(".card")
    expected = all_posts(stage, "RECENT")
    scroll_to_end(browser)
    assert browser.ids() == expected, "the list differs from RECENT"
    first = stage.administrator.ask("SHOW", expected[0])
    assert browser.text(".card h2") == first["title"]
    assert browser.text(".card .excerpt") == first["body"][:400]
    assert browser.star(expected[0]) == [first["starCount"], False]


def check_top_posts_are_in_the_order_of_the_server(stage):
    stage.first.open("/top")
    stage.first.find(".card")
    scroll_to_end(stage.first)
    assert stage.first.ids() == all_posts(stage, "TOP")


def check_a_post_is_shown_with_all_its_comments(stage):
    posts = stage.administrator.ask("RECENT", {"limit": 100})
    post = max(posts, key=lambda post: post.get("commentCount", 0))
    browser = stage.first
    browser.open("/post/" + post["id"])
    browser.find(".post h1", post["title"])
    comments = stage.administrator.ask("COMMENTS", post["id"], {"limit": 100})
    browser.until("all comments", lambda: len(browser.all(".comment")) == len(comments))
    assert browser.texts(".comment .text") == [comment["text"] for comment in comments]
    assert browser.texts(".comment .author bdi") == [comment["author"] for comment in comments]
    assert browser.texts(".body p") == [part for part in post["body"].split("\n\n") if part]
    assert browser.text(".discussion h2") == f"{len(comments)} comments"


def check_a_person_has_a_page_with_their_posts_by_time_and_by_stars(stage):
    uid = stage.administrator.ask("PROFILE", "@ngoc_lan")["uid"]
    for path, verb in [(f"/user/{uid}", "POSTS"), (f"/user/{uid}/top", "TOP")]:
        stage.first.open(path)
        stage.first.find("h1", "ngoc_lan")
        stage.first.find(".card")
        scroll_to_end(stage.first)
        assert stage.first.ids() == all_posts(stage, verb, uid)


def check_every_address_survives_a_reload(stage):
    browser = stage.second
    browser.log_in(stage.people["ngoc_lan"])
    post = stage.administrator.ask("POSTS", "@ngoc_lan", {"limit": 1})[0]
    addresses = {
        "/": "Recent posts", "/top": "Top posts", "/mine": "My posts", "/mine/top": "My top posts",
        f"/post/{post['id']}": post["title"], f"/post/{post['id']}/edit": "Edit the post",
        f"/user/{post['uid']}": "ngoc_lan", f"/user/{post['uid']}/top": "ngoc_lan", "/write": "Write a post",
        "/account": "Account", "/signin": "Sign in", "/signup": "Sign up", "/post/nothing": "No such post",
    }
    for path, heading in addresses.items():
        browser.open(path)
        browser.find("h1", heading)
        browser.driver.refresh()
        browser.find("h1", heading)
        assert browser.path() == path
        browser.until("the title", lambda: browser.driver.title == f"{heading} · Canopy")


def check_back_returns_to_the_place_in_the_list(stage):
    browser = stage.first
    browser.open("/")
    browser.find(".card")
    scroll_to_end(browser)
    post = browser.ids()[40]
    browser.script("document.querySelectorAll('.card')[40].scrollIntoView()")
    before = browser.script("return scrollY")
    browser.script("document.querySelector(`.card[data-key='${arguments[0]}'] h2 a`).click()", post)
    browser.find(".post h1")
    assert browser.script("return scrollY") == 0
    browser.driver.back()
    browser.find(".card")
    assert abs(browser.script("return scrollY") - before) < 2 and len(browser.ids()) == len(all_posts(stage, "RECENT"))
    browser.driver.forward()
    browser.find(".post h1")


def check_a_reload_and_back_over_many_views_return_to_the_place_in_the_list(stage):
    browser = stage.first
    browser.open("/")
    browser.find(".card")
    scroll_to_end(browser)
    post = browser.ids()[30]
    browser.script("document.querySelectorAll('.card')[30].scrollIntoView()")
    before = browser.until("the place", lambda: browser.script("return history.state.scroll === scrollY && scrollY"))
    browser.driver.refresh()
    browser.until("the place", lambda: browser.script("return scrollY") == before)
    browser.script("document.querySelector(`.card[data-key='${arguments[0]}'] h2 a`).click()", post)
    browser.find(".post h1")
    for _ in range(4):
        browser.click("header nav a", "Top")
        browser.find("h1", "Top posts")
        browser.click("header nav a", "Recent")
        browser.find("h1", "Recent posts")
    browser.script("history.go(-9)")
    browser.until("the place", lambda: browser.script("return scrollY") == before)
    assert post in browser.ids()


def check_a_list_that_is_loaded_moves_nothing(stage):
    browser = stage.second
    browser.resize(800, 900)
    try:
        browser.open("/")
        browser.find(".card")
        time.sleep(0.5)
        shifts = browser.probe()["shifts"]
        assert sum(shifts) < 0.05, f"the layout moved: {shifts}"
    finally:
        browser.resize(1280, 900)


@logs(*NO_PAGE)
def check_nothing_to_show_is_said_so(stage):
    browser = stage.first
    browser.open("/post/-Onothing")
    browser.find(".state", "There is no such post")
    browser.open("/post/a%2Fb")
    browser.find(".state", "There is no such post")
    browser.open("/user/nobody")
    browser.find(".state", "no such user")
    browser.find("h1", "No such user")
    browser.open("/mine")
    browser.find(".state", "Sign in to see this page")
    for path in ("/no/such/page", "/post/"):
        browser.open(path)
        browser.find("h1", "Nothing here")
    browser.open("/mine")
    browser.script("localStorage['canopy.session'] = arguments[0]", "not JSON")
    browser.open("/")
    browser.find(".card")


def check_times_move_on_while_a_page_is_shown(stage):
    browser = stage.first
    browser.open("/")
    browser.find(".card time")
    browser.script("document.querySelector('time').dateTime = new Date(Date.now() - 5.5 * 60_000).toISOString()")
    browser.until("another text", lambda: browser.text("time") == "5 minutes ago")


def check_a_page_without_one_of_its_modules_says_so(stage):
    browser = stage.first
    for path, module in [("/", "/shared/line.js"), ("/console/", "/console/tree.js")]:
        browser.command("Network.enable")
        browser.command("Network.setBlockedURLs", urls=[f"*{module}"])
        browser.open(path)
        browser.find("main p", "The page was not loaded in full")
        browser.command("Network.setBlockedURLs", urls=[])
        browser.errors()
    browser.open("/")
    browser.find(".card")


def all_posts(stage, verb, *parts):
    """Returns the ids of all entries of a list, as a client that asks page by page gets them."""
    ids = []
    while True:
        options = {"limit": 100, **({"before": ids[-1]} if ids else {})}
        page = stage.administrator.ask(verb, *parts, options)
        ids += [post["id"] for post in page if "uid" in post]
        if len(page) < 100:
            return ids


def scroll_to_end(browser):
    def is_at_end():
        browser.script("scrollTo(0, document.body.scrollHeight)")
        return browser.all(".finished")
    browser.until("the end of the list", is_at_end)
