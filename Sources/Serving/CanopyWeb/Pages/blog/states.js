import { button, sentence } from "/shared/controls.js";
import { h } from "/shared/dom.js";

/** Returns placeholders of entries that are loading, with the height of real ones. */
export function skeletons(count) {
  const attributes = { role: "img", "aria-label": "Loading" };
  return Array.from({ length: count }, () =>
    h("div.skeleton", attributes, h("span"), h("span"), h("span")));
}

/** Returns the reason why nothing can be shown, and a way on. @param {any} error */
export function failed(error, retry) {
  return h("div.state", { role: "alert" }, h("p", sentence(error)),
    retry ? button("Try again", retry) : h("a.button.quiet", { href: "/" }, "To the recent posts"));
}

/** Returns the state of a list without entries. @param {string} text @param {string} [href] */
export function empty(text, href, action) {
  return h("div.state", h("p", text), href && h("a.button", { href }, action));
}

/** Returns a heading, which takes the focus when its view is shown. */
export function heading(...parts) {
  return h("h1", { tabindex: -1 }, parts);
}

/** Returns a view of a title and a state. @param {string} title @param {Element} state */
export function notice(title, state) {
  return { title, content: h("section", heading(title), state) };
}

/** Returns the state of a view that needs a login. @param {string} title */
export function signedOut(title) {
  return notice(title, empty("Sign in to see this page.", "/signin", "Sign in"));
}
