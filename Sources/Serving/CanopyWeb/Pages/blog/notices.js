import { element, setText } from "/shared/dom.js";
import { line } from "./session.js";

const milliseconds = 7_000;
/** A break that is shorter than this is not worth a word. */
const patienceMilliseconds = 1_500;

const spoken = element("p", { class: "visually-hidden", role: "status" });
const problem = element("p", { class: "toast error", role: "alert", hidden: true });
const offline = element(
  "p", { class: "toast", role: "status", hidden: true },
  element("span", { class: "pulse" }), "Offline. The page catches up when the server is back.");
/** @type {ReturnType<typeof setTimeout> | undefined} */
let problemTimer, offlineTimer;

/** Shows the notices of the page, which lie above the content and never move it. */
export function startNotices() {
  document.getElementById("notices")?.append(spoken, element("div", { class: "toasts" }, problem, offline));
  const check = () => {
    clearTimeout(offlineTimer);
    if (line.state === "online") offline.hidden = true;
    else offlineTimer = setTimeout(() => (offline.hidden = false), patienceMilliseconds);
  };
  line.addEventListener("state", check);
  check();
}

/** Has screen readers say a text. */
export function announce(/** @type {string} */ text) {
  setText(spoken, text);
}

/** Shows why something failed. */
export function report(/** @type {any} */ error) {
  problem.textContent = sentence(error);
  problem.hidden = false;
  clearTimeout(problemTimer);
  problemTimer = setTimeout(() => (problem.hidden = true), milliseconds);
}

/** Returns the sentence of an error as the page writes sentences. */
export function sentence(/** @type {any} */ error) {
  const text = String(error?.message ?? error);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/**
 * Asks before something that cannot be undone.
 * @returns {Promise<boolean>}
 */
export function confirmed(/** @type {string} */ question, /** @type {string} */ action) {
  return new Promise((resolve) => {
    const answer = (/** @type {boolean} */ isYes) => () => {
      dialog.close();
      dialog.remove();
      resolve(isYes);
    };
    const dialog = element(
      "dialog", { "aria-labelledby": "question", oncancel: answer(false) },
      element("p", { id: "question" }, question),
      element(
        "div", { class: "actions" },
        element("button", { class: "button quiet", type: "button", onclick: answer(false) }, "Keep it"),
        element("button", { class: "button danger", type: "button", onclick: answer(true) }, action)));
    document.body.append(dialog);
    dialog.showModal();
  });
}
