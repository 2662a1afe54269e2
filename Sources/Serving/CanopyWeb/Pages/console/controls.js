// The controls of the console's views, in addition to the elements of both pages.

import { element as h } from "/shared/dom.js";

/** A button. */
export function button(/** @type {string} */ text, /** @type {(event: Event) => unknown} */ press, /** @type {Record<string, any>} */ attributes = {}) {
  return h("button", { type: "button", class: "button quiet", onclick: press, ...attributes }, text);
}

/** A labelled field. */
export function field(/** @type {string} */ label, /** @type {Element} */ control, /** @type {string=} */ hint) {
  return h("label", { class: "field" }, h("span", {}, label), control, hint && h("small", {}, hint));
}

/** A list of choices: their texts by value. */
export function select(/** @type {Record<string, string>} */ choices, /** @type {Record<string, any>} */ attributes = {}) {
  return h("select", attributes, ...Object.entries(choices).map(([value, text]) => h("option", { value }, text)));
}

/** A form that never leaves the page. */
export function form(/** @type {string} */ name, /** @type {() => unknown} */ submit, /** @type {any[]} */ ...parts) {
  const press = (/** @type {Event} */ event) => { event.preventDefault(); submit(); };
  return h("form", { class: name, onsubmit: press, novalidate: true }, ...parts);
}

/** A table that scrolls sideways if it has to. */
export function table(/** @type {string} */ label, /** @type {string[]} */ heads, /** @type {HTMLElement} */ body) {
  const row = h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)));
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 },
    h("table", { "aria-label": label }, h("thead", {}, row), body));
}

/** The facts about one thing, as pairs. */
export function facts(/** @type {[string, string|Node][]} */ pairs) {
  return h("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** Sets the text of an element if it differs, and highlights the change of an earlier text. */
export function update(/** @type {Element} */ target, /** @type {string} */ text) {
  if (target.textContent === text) return;
  if (target.textContent) flash(target);
  target.textContent = text;
}

/** @type {WeakMap<Element, Animation>} one for each element, as thousands of changes may come in a second */
const highlights = new WeakMap();

/** Highlights an element for a moment, without a fading if the reader wants less motion. Few steps mean little painting. */
export function flash(/** @type {Element} */ target) {
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const highlight = highlights.get(target) ?? target.animate(
    [{ offset: 0, backgroundColor: "color-mix(in srgb, var(--star) 22%, transparent)" }],
    { duration: 1_500, easing: `steps(${isStill ? 1 : 10}, end)` });
  highlights.set(target, highlight);
  highlight.currentTime = 0;
  highlight.play();
}
