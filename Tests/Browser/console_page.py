"""The console in one browser, as an operator uses it: by the names of its parts, with the mouse or the keyboard."""

import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

SECONDS = 10


def chromium(width=1280, height=860, dark=False):
    """Starts a headless Chromium of this size."""
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (f"--window-size={width},{height}", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    return browser


def until(what, body, seconds=SECONDS):
    """Waits until a call returns a true value, and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if value := body():
                return value
        except StaleElementReferenceException:
            pass
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class ConsolePage:
    """The page of the console."""

    def __init__(self, address, token, **size):
        self.address = address
        self.token = token
        self.browser = chromium(**size)

    def close(self):
        self.browser.quit()

    # Finding

    def all(self, selector):
        return [each for each in self.browser.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()]

    def first(self, selector, text=""):
        """Waits for the first visible element that matches and whose text begins so."""
        matching = lambda: [each for each in self.all(selector) if each.text.startswith(text)]
        return until(f"{selector} with {text!r}", lambda: (matching() or [None])[0])

    def gone(self, selector, text=""):
        until(f"no {selector} with {text!r}",
              lambda: not [each for each in self.all(selector) if each.text.startswith(text)])

    def text(self, selector):
        return self.first(selector).text

    def row(self, path):
        """The row of a location of the tree; its ancestors must be open."""
        keys = path.strip("/").split("/")
        script = """
          let list = document.querySelector("[role=tree] [role=group]");
          let row = null;
          for (const key of arguments[0]) {
            const item = [...(list?.children ?? [])].find((each) => each.querySelector(".key")?.textContent === key);
            if (!item) return null;
            row = item.querySelector(".place");
            list = item.querySelector("[role=group]");
          }
          row?.scrollIntoView({ block: "nearest" });
          return row;"""
        return until(f"the row of {path}", lambda: self.browser.execute_script(script, keys))

    def shown(self, path):
        """The text of a value in the tree."""
        return self.row(path).find_element(By.CSS_SELECTOR, ".value").text

    # Acting

    def open(self, part=""):
        self.browser.get(f"{self.address}/console/{part}")

    def sign_in(self, part=""):
        self.open(part)
        self.first("main input").send_keys(self.token, Keys.ENTER)
        self.first("nav [aria-current=page]")

    def view(self, name):
        self.first("nav a", name).click()
        until(f"the view {name}", lambda: self.text("nav [aria-current=page]") == name)

    def press(self, text, within="main"):
        self.first(f"{within} button:not(:disabled)", text).click()

    def confirm(self, action):
        self.press(action, "dialog")
        self.gone("dialog")

    def message(self, text):
        """Waits for a message, and closes it."""
        self.first(".message", text).find_element(By.CSS_SELECTOR, "button").click()
        self.gone(".message", text)

    def type(self, selector, text):
        """Replaces the text of a field as somebody who types does."""
        field = self.first(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.BACKSPACE)
        field.send_keys(text)

    def choose(self, selector, value):
        self.browser.execute_script(
            "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('change', {bubbles: true}))",
            self.first(selector), value)

    def keys(self, *keys):
        self.browser.switch_to.active_element.send_keys(*keys)

    def focused(self):
        return self.browser.execute_script("const e = document.activeElement; return e.innerText || e.ariaLabel || e.tagName")

    # Checking

    def errors(self):
        """The errors and warnings in the log of the browser since the last call."""
        return [each["message"] for each in self.browser.get_log("browser") if each["level"] in ("SEVERE", "WARNING")]

    def unlabelled(self):
        """The controls without an accessible name."""
        return self.browser.execute_script("""
          const name = (e) => e.ariaLabel || e.textContent.trim() || e.title || [...(e.labels ?? [])].map((l) => l.textContent.trim()).join("");
          return [...document.querySelectorAll("button, input, select, textarea, a[href], [role=tree], [role=region], dialog")]
            .filter((e) => e.checkVisibility() && !name(e)).map((e) => e.outerHTML.slice(0, 200));""")

    def faint(self):
        """The texts whose contrast with their background is below 4.5 to 1."""
        return self.browser.execute_script("""
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const parse = (text) => {
            canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
          };
          const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
          const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
          const faint = [];
          for (const e of document.querySelectorAll("body *")) {
            const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
            if (!own || !e.checkVisibility() || e.matches(":disabled, [aria-hidden=true] *, option")) continue;
            const chain = []; for (let p = e; p; p = p.parentElement) chain.unshift(parse(getComputedStyle(p).backgroundColor));
            const back = chain.reduce((below, top) => over(top, below), [255, 255, 255, 1]);
            const [a, b] = [light(over(parse(getComputedStyle(e).color), back)), light(back)].sort((x, y) => y - x);
            if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(`${e.textContent.slice(0, 40)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
          }
          return faint;""")

    def overflow(self):
        """The pixels by which the page is wider than the window."""
        return self.browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
