"""Screenshots of the views at three widths and in both colour schemes, to be looked at."""

import os
import time

import console_looks
from browser import OUTAGE, logs

SIZES = console_looks.SIZES
# The files of the documentation: the name, the path, the size and the scheme.
CATALOGUE = [("blog-recent", "/", (1100, 720), "light"), ("blog-post", None, (1100, 720), "dark")]
CONSOLE = [("console-data", "data", (1100, 640), "light"), ("console-watch", "watch", (1100, 640), "dark")]


def check_screenshots_of_all_views(stage):
    stage.log_in()
    browser = stage.second
    browser.prefer("light", "reduce")
    post = max(stage.administrator.ask("RECENT", {"limit": 100}), key=lambda it: it.get("commentCount", 0))
    views = {"recent": "/", "post": f"/post/{post['id']}", "mine": "/mine", "top": "/mine/top",
             "person": f"/user/{post['uid']}", "write": "/write", "account": "/account", "signin": "/signin",
             "missing": "/post/nothing"}
    for size, (width, height) in SIZES.items():
        browser.resize(width, height)
        for scheme in ("light", "dark"):
            browser.prefer(scheme, "reduce")
            for name, path in views.items():
                show(browser, path)
                browser.screenshot(os.path.join(stage.options.folder, f"{name}-{size}-{scheme}.png"))
    if stage.options.pictures:
        os.makedirs(stage.options.pictures, exist_ok=True)
        for name, path, (width, height), scheme in CATALOGUE:
            browser.resize(width, height)
            browser.prefer(scheme, "reduce")
            show(browser, path or f"/post/{post['id']}")
            browser.screenshot(os.path.join(stage.options.pictures, f"{name}.png"))
        for name, view, (width, height), scheme in CONSOLE:
            browser.resize(width, height)
            browser.prefer(scheme, "reduce")
            console_looks.show(stage, view)
            time.sleep(12 if view == "watch" else 1)
            browser.screenshot(os.path.join(stage.options.pictures, f"{name}.png"))
        sizes = [os.path.getsize(os.path.join(stage.options.pictures, it)) for it in os.listdir(stage.options.pictures)]
        assert sum(sizes) <= 300_000, f"the pictures have {sizes} bytes"
    browser.resize(1280, 900)
    browser.prefer("light")


@logs(*OUTAGE)
def check_screenshots_of_passing_states(stage):
    stage.log_in()
    browser = stage.second
    browser.prefer("light", "reduce")
    author = stage.server.person("emre_spokes")
    for size in ("phone", "desktop"):
        browser.resize(*SIZES[size])
        for scheme in ("light", "dark"):
            browser.prefer(scheme, "reduce")

            def picture(name):
                time.sleep(0.1)
                browser.screenshot(os.path.join(stage.options.folder, f"{name}-{size}-{scheme}.png"))

            show(browser, "/")
            browser.script("document.querySelectorAll('.card')[3].scrollIntoView()")
            browser.until("the scroll", lambda: browser.script("return scrollY") > 400)
            post = author.ask("POST", "Waiting above", "…")["id"]
            browser.find(".fresh", "1 new post")
            picture("fresh")
            author.ask("DELETE", post)
            own = stage.administrator.ask("POSTS", "@ngoc_lan", {"limit": 1})[0]["id"]
            show(browser, f"/post/{own}")
            browser.click(".tools button", "Delete")
            browser.find("dialog")
            picture("dialog")
            browser.click("dialog button", "Keep it")
            browser.find(".comment")
            browser.script("document.querySelector('.discussion').scrollIntoView()")
            picture("comments")
            with browser.without_login():
                show(browser, "/signup")
                browser.fill("#username", "OldChalk")
                browser.fill("#email", "other@example.org")
                browser.fill("#password", "short")
                browser.click("form button[type=submit]")
                browser.find(".notice.error")
                picture("refused")
            show(browser, "/")
            stage.server.pause()
            browser.script("document.querySelector('header nav a[href=\"/top\"]').click()")
            browser.find(".skeleton")
            picture("loading")
            stage.server.kill()
            browser.find(".toast", "Offline")
            picture("offline")
            stage.server.start()
            author = stage.server.person("emre_spokes")
            stage.administrator = stage.server.administrator()
            browser.find(".card")
    browser.resize(1280, 900)
    browser.prefer("light")


def show(browser, path):
    browser.open(path)
    browser.find("h1")
    browser.until("the end of loading", lambda: not any(
        it.is_displayed() and it.location["y"] < 500 for it in browser.all(".skeleton")))
    browser.until("the fonts", lambda: browser.script("return document.fonts.status") == "loaded")
    time.sleep(0.1)
