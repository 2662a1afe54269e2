// Parts of the console's views, in addition to those of both pages.
import { clear, h } from "/shared/dom.js";

/** A table that scrolls sideways if it has to. @param {string} label @param {string[]} heads */
export function table(label, heads, body) {
  const head = h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text))));
  const attributes = { role: "region", "aria-label": label, tabindex: 0 };
  return h("div.scroll", attributes, h("table", { "aria-label": label }, head, body));
}

/** The facts about one thing, as pairs. @param {[string, any][]} pairs */
export function facts(pairs) {
  return h("dl.facts", pairs.map(([name, value]) => [h("dt", name), h("dd", value)]).flat());
}

/** A list of rows of a title and a text; a hint stands for none. @param {any[][]} rows */
export function rows(rows, none) {
  if (rows.length === 0 && none) return h("p.hint", none);
  return h("ul.rows", rows.map(([title, text]) => h("li", title, text && h("span", text))));
}

/** Shows a text or an element if it differs, and highlights the change. @param {Element} target */
export function update(target, content) {
  if (target.textContent === (content.textContent ?? content)) return;
  if (target.textContent) flash(target);
  clear(target, content);
}

/** @type {WeakMap<Element, Animation>} one for each element, as thousands of changes may come in a second */
const highlights = new WeakMap();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const highlighted = [{ offset: 0, backgroundColor: "color-mix(in srgb, var(--star) 16%, transparent)" }];

/** Highlights an element for a moment. Few steps mean little painting. @param {Element} target */
export function flash(target) {
  const easing = `steps(${calm.matches ? 1 : 10}, end)`;
  const highlight = highlights.get(target) ?? target.animate(highlighted, { duration: 1_500, easing });
  highlights.set(target, highlight);
  highlight.currentTime = 0;
  highlight.play();
}

/** Returns `show` and `hide` of a view that does something again and again. */
export function every(milliseconds, step) {
  let round = 0;
  return {
    async show() {
      const mine = ++round;
      while (mine === round) {
        await step();
        await new Promise((resolve) => setTimeout(resolve, milliseconds));
      }
    },
    hide() {
      round += 1;
    },
  };
}
