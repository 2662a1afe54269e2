"""A headless Chromium that shows the page, with waits, measurements and the console of the browser."""

import contextlib
import json
import time

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

SECONDS = 30
# What the browser logs when the server is killed, and when the server has nothing at the address of a page.
OUTAGE = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_CONNECTION_CLOSED", "WebSocket connection to")
NO_PAGE = ("404 (Not Found)",)

# Runs before the scripts of each page: notes frames, long tasks, layout shifts and the time of the first post.
PROBE = """
window.probe = { frames: [], long: [], shifts: [], messages: 0, bytes: 0, first: null };
new PerformanceObserver((list) => { for (const e of list.getEntries()) probe.long.push(e.duration); })
  .observe({ type: "longtask" });
new PerformanceObserver((list) => {
  for (const e of list.getEntries()) if (!e.hadRecentInput) probe.shifts.push(e.value);
}).observe({ type: "layout-shift" });
(function frame(last) {
  requestAnimationFrame((now) => {
    if (last) probe.frames.push(now - last);
    if (probe.first === null && document.querySelector(".card h2")) probe.first = performance.now();
    frame(now);
  });
})();
const receive = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage").set;
Object.defineProperty(WebSocket.prototype, "onmessage", { set(f) {
  receive.call(this, (event) => { probe.messages += 1; probe.bytes += event.data.length; f(event); });
} });
"""


def logs(*texts):
    """Marks a check that makes the browser log errors with one of these texts."""
    def mark(check):
        check.logged = texts
        return check
    return mark


class Browser:
    def __init__(self, address, width=1280, height=900, scheme="light"):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars",
                         "--force-color-profile=srgb", "--lang=en"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        self.address = address
        self.command("Page.addScriptToEvaluateOnNewDocument", source=PROBE)
        self.resize(width, height)
        self.prefer(scheme)

    def command(self, name, **parameters):
        return self.driver.execute_cdp_cmd(name, parameters)

    def resize(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                     mobile=width < 500)

    def prefer(self, scheme, motion="no-preference"):
        features = [{"name": "prefers-color-scheme", "value": scheme},
                    {"name": "prefers-reduced-motion", "value": motion}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def open(self, path):
        # An address that is shown already would be reloaded, and scrolled to its last place.
        self.script("history.replaceState(null, '')")
        self.driver.get(self.address + path)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def probe(self):
        return self.script("return window.probe")

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector):
        return self.script("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def text(self, selector):
        return next(iter(self.texts(selector)), None)

    def until(self, what, condition, seconds=SECONDS):
        """Waits until a condition holds, and returns its value."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if value := condition():
                    return value
            except StaleElementReferenceException:
                pass
            if time.monotonic() > deadline:
                text = str(self.text("main"))
                shown = text if len(text) <= 900 else f"{text[:600]} […] {text[-300:]}"
                raise AssertionError(f"not within {seconds} s: {what}\n  the page shows: {shown}")
            time.sleep(0.02)

    def find(self, selector, text=None):
        """Waits for an element, perhaps one with a text."""
        def found():
            for element in self.all(selector):
                if element.is_displayed() and (text is None or text in (element.text or "")):
                    return element
        return self.until(f"{selector} {text or ''}", found)

    def click(self, selector, text=None):
        element = self.find(selector, text)
        self.script("arguments[0].scrollIntoView({ block: 'center' })", element)
        element.click()

    def fill(self, selector, text):
        field = self.find(selector)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def log_in(self, person):
        self.open("/signin")
        self.fill("#email", person["email"])
        self.fill("#password", person["password"])
        self.click("form button[type=submit]")
        self.find("a.me")
        self.until("the login", lambda: self.script("return localStorage['canopy.session']") and self.path() != "/signin")

    @contextlib.contextmanager
    def without_login(self):
        """Shows the pages as a visitor sees them. The session of the reader stays valid."""
        kept = self.script("return localStorage['canopy.session']")
        self.script("localStorage.removeItem('canopy.session')")
        yield
        self.script("if (arguments[0]) localStorage['canopy.session'] = arguments[0]", kept)

    def path(self):
        return self.script("return location.pathname")

    def ids(self):
        return self.script("return [...document.querySelectorAll('.card')].map((e) => e.dataset.key)")

    def card(self, post):
        return self.find(f".card[data-key='{post}']")

    def star(self, post):
        """Returns the shown count of a post in a list, and whether the reader's star is set."""
        return self.script("""
            const button = document.querySelector(`.card[data-key='${arguments[0]}'] .star`);
            return button && [Number(button.textContent), button.getAttribute("aria-pressed") === "true"]""", post)

    def errors(self, *expected):
        """Returns the errors that the browser has logged since the last call, but for those with an expected text."""
        return [json.dumps(entry) for entry in self.driver.get_log("browser")
                if entry["level"] in ("SEVERE", "WARNING")
                and not any(text in entry["message"] for text in expected)]

    def screenshot(self, path):
        self.driver.save_screenshot(path)

    def close(self):
        self.driver.quit()
