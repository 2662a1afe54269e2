// Parts of the console's views, in addition to those of both pages.
import { failureOf, sentence as plainSentence } from "/shared/basics.js";
import { byId, clear, confirmed, h, link } from "/shared/elements.js";

/** The sentence of an error, with its code. @param {any} error */
export const sentence = (error) => plainSentence(error) + (error?.code ? ` (${error.code})` : "");

/** Shows a message at the edge of the page. One about a failure stays until it is closed. @param {string} text */
export function say(text, kind = "good") {
  const message = h("div.message", { class: `message ${kind}` }, h("p", text), link("Close", () => message.remove()));
  const region = byId("messages");
  region.append(message);
  if (region.children.length > 3) region.firstElementChild?.remove();
  if (kind === "good") setTimeout(() => message.remove(), 6_000);
}

/** Carries out an action, perhaps after a question, and says how it ended. Returns whether it succeeded.
 * @param {() => unknown} action @param {string} [done] @param {Question | null} [question] */
export async function attempt(action, done, question) {
  if (question && !(await confirmed(question))) return false;
  const failure = await failureOf(action);
  if (failure) say(sentence(failure), "bad");
  else if (done) say(done);
  return !failure;
}

/** A table that scrolls sideways if it has to. @param {string} label @param {string[]} heads */
export const table = (label, heads, body) =>
  h("div.scroll", { role: "region", "aria-label": label, tabindex: 0 }, h("table", { "aria-label": label },
    h("thead", h("tr", heads.map((text) => h("th", { scope: "col" }, text)))), body));
/** Pairs of a name and a value. @param {any[][]} pairs */
export const facts = (pairs, kind = "facts") =>
  h("dl", { class: kind }, pairs.map(([name, value]) => [h("dt", name), h("dd", value)]));
/** A list of rows of a title and a text; a hint stands for none. @param {any[][]} rows */
export const rows = (rows, none = "None.") => rows.length === 0 ? h("p.hint", none)
  : h("ul.rows", rows.map(([title, text]) => h("li", title, text && h("span", text))));

/** Shows a text or an element if it differs, and highlights the change. @param {Element} target */
export function update(target, content) {
  if (target.textContent === (content.textContent ?? content)) return;
  if (target.textContent) flash(target);
  clear(target, content);
}

/** @type {WeakMap<Element, Animation>} one for each, as many changes may come in a second */
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
  const show = async () => {
    for (const mine = ++round; mine === round;) {
      await step();
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
    }
  };
  return { show, hide: () => void (round += 1) };
}
