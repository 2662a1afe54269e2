"""What changes by itself is said to screen readers, and highlighted for those who see."""

from blog_live import second_posts
from console_page import Console

# Notes the animations that begin, each with the element's key or class.
ANIMATIONS = """
window.animated = [];
const animate = Element.prototype.animate;
Element.prototype.animate = function (frames, options) {
  animated.push(this.dataset.key ?? this.className);
  return animate.call(this, frames, options);
};"""


def check_a_new_post_slides_in_and_is_said(stage):
    stage.log_in()
    browser = stage.first
    browser.prefer("light")
    browser.open("/")
    browser.find(".card")
    region = browser.script("return document.querySelector('#notices p[role=status]')")
    assert region.text == "" and spoken(browser, region) == "polite", "the region is there before its text"
    browser.script(ANIMATIONS)
    post = second_posts(stage, "Said aloud", "…")
    browser.card(post)
    browser.until("what screen readers say", lambda: browser.script(
        "return arguments[0].textContent", region) == "New post by ngoc_lan")
    assert post in browser.script("return animated"), "it appears without a movement"
    # Who prefers less motion gets the post without it.
    browser.prefer("light", "reduce")
    browser.script("animated.length = 0")
    other = second_posts(stage, "Said again", "…")
    browser.card(other)
    assert browser.script("return animated") == []
    browser.prefer("light")
    for it in (post, other):
        stage.server.person("ngoc_lan").ask("DELETE", it)
    # Problems interrupt.
    browser.script("document.querySelector('.toast.error').hidden = false")
    assert spoken(browser, browser.find(".toast.error")) == "assertive"


def check_a_changed_value_of_the_tree_is_highlighted(stage):
    stage.administrator.ask("SET", "/operator", {"still": 1, "moving": 1})
    console = Console(stage, "data")
    browser = stage.first
    console.row("/operator").click()
    console.waits_for_value("/operator/moving", "1")
    rows = {key: console.row(f"/operator/{key}") for key in ("still", "moving")}
    browser.until("the end of earlier highlights", lambda: not any(map(animations(browser), rows.values())))
    stage.administrator.ask("SET", "/operator/moving", 2)
    browser.until("the highlight", lambda: animations(browser)(rows["moving"]) == 1)
    assert console.value("/operator/moving") == "2" and animations(browser)(rows["still"]) == 0
    browser.until("the end of the highlight", lambda: animations(browser)(rows["moving"]) == 0)
    stage.administrator.ask("SET", "/operator/new", 1)
    browser.until("the highlight of a new child", lambda: animations(browser)(console.row("/operator/new")) == 1)
    stage.administrator.ask("REMOVE", "/operator")
    console.has_no_key("operator")
    messages = browser.script("return document.getElementById('messages')")
    assert spoken(browser, messages) == "polite"
    assert browser.text("#state[role=status]") == ""


def animations(browser):
    return lambda row: browser.script("return arguments[0].getAnimations().length", row)


def spoken(browser, element):
    """Returns how Chromium has screen readers say a changed text of an element: politely, or as an interruption."""
    browser.command("DOM.enable")
    browser.command("Accessibility.enable")
    browser.script("arguments[0].id ||= 'region-' + Math.random()", element)
    id = element.get_attribute("id")
    result = browser.command("Runtime.evaluate", expression=f"document.getElementById({id!r})")["result"]
    tree = browser.command("Accessibility.getPartialAXTree", objectId=result["objectId"], fetchRelatives=False)
    browser.command("Accessibility.disable")
    return next((it["value"]["value"] for it in tree["nodes"][0].get("properties", []) if it["name"] == "live"), None)
