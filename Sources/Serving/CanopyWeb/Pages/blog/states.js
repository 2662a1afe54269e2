// Views without data, or before it: loading, empty and failed.
import { sentence } from "/shared/basics.js";
import { button, h } from "/shared/elements.js";
import { session } from "./session.js";

/** Returns placeholders of entries that are loading, with the height of real ones. */
export const skeletons = (count) => Array.from({ length: count }, () =>
  h("div.skeleton", { role: "img", "aria-label": "Loading" }, h("span"), h("span"), h("span")));

/** Returns the reason why nothing can be shown, and a way on. @param {any} error */
export const failed = (error, retry) => h("div.state", { role: "alert" }, h("p", sentence(error)),
  retry ? button("Try again", retry) : h("a.button.quiet", { href: "/" }, "To the recent posts"));
/** Returns the state of a list without entries. @param {string} text @param {string} [href] */
export const empty = (text, href, action) => h("div.state", h("p", text), href && h("a.button", { href }, action));
/** Returns a heading, which takes the focus when its view is shown. */
export const heading = (...parts) => h("h1", { tabindex: -1 }, parts);
/** Returns a view with a heading. @param {string} title @param {...any} parts */
export const page = (title, ...parts) => ({ title, content: h("section", heading(title), parts) });

/** Returns a view that needs a login. @param {string} title @param {(user: Reader, ...parts: any[]) => View} build */
export const forMembers = (title, build) => (...parts) => session.user ? build(session.user, ...parts)
  : page(title, empty("Sign in to see this page. Your drafts are kept in this browser.", "/signin", "Sign in"));
