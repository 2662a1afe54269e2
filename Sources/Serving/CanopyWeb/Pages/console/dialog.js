// Questions before what cannot be undone, and short messages at the edge of the page.

import { element as h } from "/shared/dom.js";
import { button } from "./controls.js";

/** @returns {Promise<boolean>} whether a person agrees to an action; Escape and the first button do not */
export function confirmed(/** @type {{title: string, text: string, action: string}} */ { title, text, action }) {
  return new Promise((resolve) => {
    /** @type {HTMLDialogElement} */
    const dialog = h("dialog", { "aria-labelledby": "question", "aria-describedby": "consequence" },
      h("h2", { id: "question" }, title), h("p", { id: "consequence" }, text),
      h("div", { class: "row end" }, button("Cancel", () => dialog.close(), { autofocus: true }),
        button(action, () => dialog.close("yes"), { class: "button danger" })));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Shows a message; a screen reader reads it. A message about a failure stays until it is closed. */
export function say(/** @type {string} */ text, /** @type {"good"|"bad"} */ kind = "good") {
  const region = /** @type {HTMLElement} */ (document.getElementById("messages"));
  const close = button("Close", () => message.remove(), { class: "link" });
  const message = h("div", { class: `message ${kind}` }, h("p", {}, text), close);
  region.append(message);
  if (region.children.length > 3) region.firstElementChild?.remove();
  if (kind === "good") setTimeout(() => message.remove(), 6_000);
}

/** Carries out an action, and says how it ended. */
export async function attempt(/** @type {() => Promise<unknown>} */ action, /** @type {string=} */ done) {
  try {
    await action();
    if (done) say(done);
  } catch (error) {
    say(sentence(error), "bad");
  }
}

/** The sentence of an error, with its code. */
export function sentence(/** @type {unknown} */ error) {
  const { code, message } = /** @type {{code?: string, message?: string}} */ (error ?? {});
  const text = message ? message[0].toUpperCase() + message.slice(1) : String(error);
  return code ? `${text} (${code})` : text;
}
