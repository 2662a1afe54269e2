"""The page as a whole: its size and speed, its labels and its contrast."""

import audit
from browser import NO_PAGE, logs
from load import NotMeasured, OtherLoad

BYTES_MAX = 60_000
SECONDS_MAX = 0.5


def check_the_first_page_is_small_and_shows_a_post_soon(stage):
    browser = stage.first
    times, disturbed = [], []
    for _ in range(5):
        load = OtherLoad()
        browser.command("Network.clearBrowserCache")
        browser.open("/")
        browser.find(".card")
        size, begun, first = browser.script("""
            const page = performance.getEntriesByType("navigation")[0];
            const files = performance.getEntriesByType("resource");
            return [files.reduce((sum, it) => sum + it.transferSize, page.transferSize), page.responseStart, probe.first]""")
        times.append((first - begun) / 1000)
        disturbed.append(load.disturbs())
        if times[-1] < SECONDS_MAX:
            break
    print(f"        {size} bytes with all fields; the first post after " + ", ".join("%.2f s" % it for it in times))
    assert size <= BYTES_MAX
    if min(times) >= SECONDS_MAX and all(disturbed):
        raise NotMeasured("other programs use this machine")
    assert min(times) < SECONDS_MAX


def check_a_second_visit_fetches_no_file_again(stage):
    browser = stage.first
    browser.open("/")
    browser.find(".card")
    browser.driver.refresh()
    browser.find(".card")
    sent = browser.script("""
        return performance.getEntriesByType("resource").filter((it) => it.responseStatus !== 304 && it.transferSize > 400)
          .map((it) => [it.name, it.transferSize])""")
    assert not sent, f"not from the cache: {sent}"


@logs(*NO_PAGE)
def check_every_view_has_labels_headings_and_contrast_in_both_schemes(stage):
    stage.log_in()
    browser = stage.second
    post = stage.administrator.ask("POSTS", "@ngoc_lan", {"limit": 1})[0]
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        for path in ("/", "/mine", f"/post/{post['id']}", f"/post/{post['id']}/edit", f"/user/{post['uid']}", "/write",
                     "/account", "/post/nothing", "/nowhere", "/console/"):
            look(browser, path, scheme)
        with browser.without_login():
            look(browser, "/signin", scheme)
            look(browser, "/signup", scheme)
    browser.prefer("light")


def look(browser, path, scheme):
    browser.open(path)
    browser.find("h1")
    if path in ("/", "/mine"):
        browser.find(".card")
    problems = audit.problems(browser)
    assert not problems, f"{path} in {scheme}: {problems}"


def check_no_view_is_wider_than_a_small_phone(stage):
    stage.log_in()
    browser = stage.second
    post = stage.administrator.ask("POSTS", "@ngoc_lan", {"limit": 1})[0]
    # A long name beside a time and a button.
    stage.server.person("haruka_words").ask("COMMENT", post["id"], "Narrow enough")
    wide = {"email": "wide@example.org", "password": "seven lamps in a row"}
    stage.server.connect().ask("SIGNUP", wide["email"], wide["password"], "W" * 32)
    with browser.without_login():
        browser.log_in(wide)
        browser.resize(360, 640)
        browser.open("/account")
        browser.find(".leave p", "W" * 32)
        assert browser.script("return document.documentElement.scrollWidth") <= 360
    browser.resize(320, 640)
    for path in ("/", "/mine", f"/post/{post['id']}", "/write", "/account", "/signup"):
        browser.open(path)
        browser.find("h1")
        if path.startswith("/post/"):
            browser.find(".comment .author", "haruka")
        browser.until(path, lambda: browser.script("return document.documentElement.scrollWidth") <= 320)
    browser.resize(1280, 900)
