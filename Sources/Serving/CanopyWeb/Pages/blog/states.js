import { element } from "/shared/dom.js";
import { sentence } from "./notices.js";

/** Returns placeholders of entries that are loading, with the height of real ones. */
export function skeletons(/** @type {number} */ count) {
  return Array.from({ length: count }, () => element(
    "div", { class: "skeleton", role: "img", "aria-label": "Loading" },
    element("span", {}), element("span", {}), element("span", {})));
}

/** Returns the reason why nothing can be shown, and a way on. */
export function failed(/** @type {any} */ error, /** @type {(() => void) | undefined} */ retry) {
  return element(
    "div", { class: "state", role: "alert" }, element("p", {}, sentence(error)),
    retry && element("button", { class: "button quiet", type: "button", onclick: retry }, "Try again"),
    !retry && element("a", { class: "button quiet", href: "/" }, "To the recent posts"));
}

/** Returns the state of a list without entries. */
export function empty(/** @type {string} */ text, /** @type {string} */ href, /** @type {string} */ action) {
  return element(
    "div", { class: "state" }, element("p", {}, text),
    href && element("a", { class: "button", href }, action));
}

/** Returns the end of a list. */
export function finished(/** @type {string} */ nouns) {
  return element("p", { class: "finished" }, `No more ${nouns}`);
}

/** Returns a heading, which takes the focus when its view is shown. */
export function heading(/** @type {string | Node} */ ...parts) {
  return element("h1", { tabindex: -1 }, ...parts);
}
