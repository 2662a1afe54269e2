"""The console in a browser, as the operator sees it: rows of the tree, views, questions and messages."""

import os

from selenium.webdriver.common.keys import Keys

ROW = """
let list = document.querySelector("[role=tree] [role=group]");
let row = null;
for (const key of arguments[0]) {
  const item = [...(list?.children ?? [])].find((each) => each.querySelector(".key")?.textContent === key);
  if (!item) return null;
  row = item.querySelector(".place");
  list = item.querySelector("[role=group]");
}
row?.scrollIntoView({ block: "center" });
return row;"""


class Console:
    """A view of the console. Signs in if the browser has no token yet."""

    def __init__(self, stage, view, browser=None):
        self.stage = stage
        self.browser = browser or stage.first
        self.ask = stage.administrator.ask
        self.open(view)

    def open(self, view):
        # A change of the part behind # alone would not load the page anew.
        self.browser.driver.get("about:blank")
        self.browser.open(f"/console/#/{view}")
        self.browser.until("the frame", lambda: self.shows("main input[type=password], nav [aria-current]"))
        if not self.shows("nav [aria-current]"):
            self.browser.fill("main input", token(self.stage))
            self.browser.press(Keys.ENTER)
        self.browser.find("nav [aria-current=page]", view.partition("/")[0].capitalize())

    def shows(self, selector, text=""):
        """Whether an element is visible and contains a text."""
        return any(it.is_displayed() and text in it.text for it in self.browser.all(selector))

    def is_gone(self, selector, text=""):
        self.browser.until(f"no {selector} {text}", lambda: not self.shows(selector, text))

    # The tree

    def row(self, path):
        """Waits for the row of a location; those above must be open. It has no keys with a slash."""
        keys = path.strip("/").split("/")
        return self.browser.until(f"the row of {path}", lambda: self.browser.script(ROW, keys))

    def select(self, path):
        self.row(path).click()
        self.browser.find(".inspector h2", path)

    def value(self, path):
        """Returns the text of a value in the tree."""
        self.row(path)
        return self.browser.until("the value", lambda: self.browser.script(
            f"const row = (() => {{ {ROW} }})(); return row?.querySelector('.value').textContent",
            path.strip("/").split("/")))

    def waits_for_value(self, path, text):
        self.browser.until(f"{text} at {path}", lambda: self.value(path) == text)

    def has_no_key(self, key):
        self.browser.until(f"no key {key}", lambda: key not in self.browser.texts(".key"))

    # Controls

    def press(self, text, within="main"):
        self.browser.click(f"{within} button:not(:disabled)", text)

    def confirm(self, action):
        self.press(action, "dialog")
        self.is_gone("dialog")

    def message(self, text):
        """Waits for a message, and closes it."""
        self.browser.find(".message", text)
        self.browser.click(".message button")
        self.is_gone(".message", text)

    def content(self, selector):
        return self.browser.script("return document.querySelector(arguments[0])?.value", selector)

    def has_content(self, selector, text):
        self.browser.until(f"{text[:60]} in {selector}", lambda: self.content(selector) == text)

    def choose(self, selector, value):
        self.browser.script("""
            arguments[0].value = arguments[1];
            arguments[0].dispatchEvent(new Event("change", { bubbles: true }));""", self.browser.find(selector), value)


def token(stage):
    with open(os.path.join(stage.server.data, "admin-token"), encoding="utf-8") as file:
        return file.read().strip()
