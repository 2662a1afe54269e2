// Short messages at the edge of the page.
import { button, sentence as plain } from "/shared/controls.js";
import { h } from "/shared/dom.js";

/** Shows a message. One about a failure stays until it is closed. @param {string} text */
export function say(text, kind = "good") {
  const message = h("div.message", h("p", text), button("Close", () => message.remove(), { class: "link" }));
  message.classList.add(kind);
  const region = /** @type {HTMLElement} */ (document.getElementById("messages"));
  region.append(message);
  if (region.children.length > 3) region.firstElementChild?.remove();
  if (kind === "good") setTimeout(() => message.remove(), 6_000);
}

/** Carries out an action, and says how it ended. @param {() => unknown} action */
export async function attempt(action, done) {
  try {
    await action();
    if (done) say(done);
  } catch (error) {
    say(sentence(error), "bad");
  }
}

/** The sentence of an error, with its code. @param {any} error */
export function sentence(error) {
  return plain(error) + (error?.code ? ` (${error.code})` : "");
}
