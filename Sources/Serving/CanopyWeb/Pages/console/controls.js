// The controls of the console's views, in addition to the elements of both pages.

import { element as h } from "../shared/dom.js";

/** A button. */
export function button(/** @type {string} */ text, /** @type {(event: Event) => unknown} */ press, /** @type {Record<string, any>} */ attributes = {}) {
  return h("button", { type: "button", class: "button quiet", onclick: press, ...attributes }, text);
}

/** A labelled field. */
export function field(/** @type {string} */ label, /** @type {Element} */ control, /** @type {string=} */ hint) {
  return h("label", { class: "field" }, h("span", {}, label), control, hint && h("small", {}, hint));
}

/**
 * A list of choices.
 * @param {Record<string, string>} choices the texts by value
 * @param {Record<string, any>} [attributes]
 */
export function select(choices, attributes = {}) {
  return h("select", attributes, ...Object.entries(choices).map(([value, text]) => h("option", { value }, text)));
}

/** A form that never leaves the page. */
export function form(/** @type {string} */ name, /** @type {() => unknown} */ submit, /** @type {any[]} */ ...parts) {
  const press = (/** @type {Event} */ event) => { event.preventDefault(); submit(); };
  return h("form", { class: name, onsubmit: press, novalidate: true }, ...parts);
}

/**
 * A table that scrolls sideways if it has to.
 * @param {string} label
 * @param {string[]} heads
 * @param {HTMLElement} body
 */
export function table(label, heads, body) {
  const row = h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)));
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 },
    h("table", { "aria-label": label }, h("thead", {}, row), body));
}

/** The facts about one thing, as pairs. */
export function facts(/** @type {[string, string|Node][]} */ pairs) {
  return h("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/**
 * Sets the text of an element if it differs, and highlights the element then.
 * @param {HTMLElement} target
 * @param {string} text
 */
export function update(target, text) {
  if (target.textContent === text) return;
  target.textContent = text;
  flash(target);
}

/** Highlights an element for a moment, without a fading if the reader wants less motion. */
export function flash(/** @type {Element} */ target) {
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.animate([{ offset: 0, backgroundColor: "var(--accent-soft)" }], { duration: 1_500, easing: isStill ? "steps(1, end)" : "ease-in" });
}
