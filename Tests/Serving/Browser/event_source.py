"""The example of the article about HTTP in a browser, on a page of another origin."""

import http.server
import json
import re
import threading

from browser import Browser

ARTICLE = "../../../Sources/Documentation.docc/HTTP.md"
PAGE = b"""<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,"><title>Listener</title>
<script>window.logged = []; console.log = (...parts) => logged.push(parts);</script>
<script src="/example.js"></script>"""


def check_the_example_of_the_article_listens_from_a_page_of_another_origin(stage):
    with open(__file__.rpartition("/")[0] + "/" + ARTICLE, encoding="utf-8") as file:
        example, = re.findall(r"```js\n(.*?)```", file.read(), re.DOTALL)
    assert example.count("http://127.0.0.1:9000/") == 1
    example = example.replace("http://127.0.0.1:9000", stage.server.address)
    page = Page()
    browser = Browser(page.address)
    try:
        page.show(browser, example)
        action, path, posts = received(browser, 1)[0]
        keys = sorted(posts)
        newest = [post["id"] for post in stage.administrator.ask("RECENT", {"limit": 10})]
        assert (action, path) == ("set", "/") and keys == sorted(newest)
        titles = {key: f"Another title for {key}" for key in keys[-2:]}
        stage.administrator.ask("SET", f"/posts/{keys[-1]}/title", "Ligne “é”\r\ndata: x")
        action, path, post = received(browser, 2)[1]
        assert (action, path, post["title"]) == ("set", f"/{keys[-1]}", "Ligne “é”\r\ndata: x")
        stage.administrator.ask("UPDATE", "/posts", {f"{key}/title": title for key, title in titles.items()})
        action, path, changed = received(browser, 3)[2]
        assert (action, path) == ("update", "/") and {key: it["title"] for key, it in changed.items()} == titles
        stage.administrator.ask("UPDATE", "/posts", {f"{key}/title": posts[key]["title"] for key in titles})

        # With a session token in the address the stream is that of a person, and ends with the session.
        person = {"email": "listener@example.org", "password": "seven lamps in a row"}
        login = stage.server.connect().ask("SIGNUP", person["email"], person["password"], "listener")
        page.show(browser, re.sub(r'(EventSource\("[^"]+)', rf'\1&auth={login["token"]}', example))
        received(browser, 1)
        assert browser.script("return stream.readyState") == 1
        stage.administrator.ask("ENDSESSIONS", "@listener")
        browser.until("the end of the stream", lambda: browser.script("return stream.readyState") == 2)
        assert len(received(browser, 1)) == 1
        assert not browser.errors()
    finally:
        browser.close()
        page.close()


def received(browser, count):
    """Waits until the example has written some events to the console of the browser, and returns all."""
    browser.until(f"{count} events", lambda: browser.script("return logged.length") >= count)
    return json.loads(browser.script("return JSON.stringify(logged)"))


class Page:
    """A page with a script, on a server of its own."""

    def __init__(self):
        page = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                is_script = self.path == "/example.js"
                self.send_response(200)
                self.send_header("Content-Type", "text/javascript; charset=utf-8" if is_script else "text/html")
                self.end_headers()
                self.wfile.write(page.script.encode() if is_script else PAGE)

            def log_message(self, *parts):
                pass

        self.script = ""
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = "http://127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def show(self, browser, script):
        self.script = script
        browser.open("/")

    def close(self):
        self.server.shutdown()
        self.server.server_close()
