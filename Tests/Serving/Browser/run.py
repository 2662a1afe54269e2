"""Shows and uses the web pages of a server as people do, in headless Chromium, and prints a line for each check.

Scripts/browser-test runs this file with the built program, the demo data and a folder for screenshots. The first
difference of a check ends that check; the exit status is 1 if there was any. A check that could not measure is no
success: its line and the last line say so, and with --strict it counts as a difference.
"""

import argparse
import os
import sys
import time
import traceback

import announcements
import blog_actions
import blog_failures
import blog_live
import blog_page
import blog_views
import blog_writing
import console_data
import console_hostile
import console_login
import console_looks
import console_operations
import event_source
import pictures
from browser import Browser
from load import NotMeasured
from server import Server


class Stage:
    """The server, and two readers with a browser each."""

    def __init__(self, options):
        self.options = options
        self.server = Server(options.canopy, options.seed)
        self.people = self.server.people
        self.first = Browser(self.server.address)
        self.second = Browser(self.server.address)
        self.administrator = self.server.administrator()

    @property
    def browsers(self):
        return self.first, self.second

    def log_in(self):
        """Logs both readers in, unless they are."""
        for browser, name in zip(self.browsers, ("OldChalk", "ngoc_lan")):
            browser.open("/")
            if not browser.script("return localStorage['canopy.session']"):
                browser.log_in(self.people[name])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("canopy")
    parser.add_argument("seed")
    parser.add_argument("folder", help="for the screenshots")
    parser.add_argument("--only", default="", help="a part of the name of a file, or of a check's line")
    parser.add_argument("--strict", action="store_true", help="fail if a check could not measure")
    parser.add_argument("--pictures", help="the folder for the pictures of the documentation")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    try:
        # So that other programs of the machine disturb the measurements less.
        os.nice(-10)
    except PermissionError:
        pass
    stage = Stage(options)
    results = {"ok": 0, "not measured": 0, "FAILED": 0}
    for module in (blog_views, blog_actions, blog_writing, blog_failures, blog_live,
                   announcements, event_source, blog_page, console_login, console_data,
                   console_operations, console_hostile, console_looks, pictures):
        for name, check in list(vars(module).items()):
            words = name.removeprefix("check_").replace("_", " ")
            if not name.startswith("check_") or options.only not in f"{module.__name__}: {words}":
                continue
            start = time.monotonic()
            try:
                result = carry_out(check, stage)
            except Exception:
                result = "FAILED"
                traceback.print_exc()
                for index, browser in enumerate(stage.browsers):
                    browser.screenshot(os.path.join(options.folder, f"failed-{name}-{index}.png"))
                    browser.errors()
            results[result] += 1
            print(f"{result:7} {module.__name__}: {words} ({time.monotonic() - start:.1f} s)", flush=True)
    for browser in stage.browsers:
        browser.close()
    status = stage.server.stop()
    if status != 0:
        print(f"FAILED  the server ended with exit code {status} after SIGTERM, not 0")
    run = sum(results.values())
    if run == 0:
        print(f"FAILED  no check has {options.only!r} in its line")
    print(f"{run} checks: " + ", ".join(f"{count} {result}" for result, count in results.items()))
    missing = results["FAILED"] + results["not measured"] * options.strict
    sys.exit(1 if run == 0 or missing or status != 0 else 0)


def carry_out(check, stage):
    """Returns the result of a check without a difference."""
    result = "ok"
    try:
        check(stage)
    except NotMeasured as reason:
        result = "not measured"
        print(f"        not measured: {reason}")
    errors = [error for browser in stage.browsers for error in browser.errors(*getattr(check, "logged", ()))]
    assert not errors, f"the browser logged: {errors}"
    return result


main()
