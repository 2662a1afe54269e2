import { sentence } from "/shared/controls.js";
import { h, setText } from "/shared/dom.js";
import { line } from "./session.js";

const milliseconds = 7_000;
/** A break that is shorter than this is not worth a word. */
const patienceMilliseconds = 1_500;

const spoken = h("p.visually-hidden", { role: "status" });
const problem = h("p.toast.error", { role: "alert", hidden: true });
const offline = h("p.toast", { role: "status", hidden: true }, h("span.pulse"),
  "Offline. The page catches up when the server is back.");
/** @type {Timer} */
let problemTimer, offlineTimer;

/** Shows the notices of the page, which lie above the content and never move it. */
export function startNotices() {
  document.getElementById("notices")?.append(spoken, h("div.toasts", problem, offline));
  const check = () => {
    clearTimeout(offlineTimer);
    if (line.state === "online") offline.hidden = true;
    else offlineTimer = setTimeout(() => (offline.hidden = false), patienceMilliseconds);
  };
  line.addEventListener("state", check);
  check();
}

/** Has screen readers say a text. @param {string} text */
export function announce(text) {
  setText(spoken, text);
}

/** Shows why something failed. @param {any} error */
export function report(error) {
  problem.textContent = sentence(error);
  problem.hidden = false;
  clearTimeout(problemTimer);
  problemTimer = setTimeout(() => (problem.hidden = true), milliseconds);
}
