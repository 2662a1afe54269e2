import { debounced, sentence } from "/shared/basics.js";
import { byId, h, setNotice, setText } from "/shared/elements.js";
import { line } from "./session.js";

const spoken = h("p.visually-hidden", { role: "status" });
const problem = h("p.toast.error", { role: "alert", hidden: true });
const offline = h("p.toast", { role: "status", hidden: true }, h("span.pulse"),
  "Offline. The page catches up when the server is back.");
const endShown = debounced(7_000, () => (spoken.className = "visually-hidden"));
const endProblem = debounced(7_000, () => setNotice(problem, null));
// A short break is not worth a word.
const checkAgain = debounced(1_500, () => (offline.hidden = line.state === "online"));

/** Shows the notices of the page, which lie above the content and never move it. */
export function startNotices() {
  byId("notices").append(h("div.toasts", spoken, problem, offline));
  line.addEventListener("state", () => {
    offline.hidden ||= line.state === "online";
    checkAgain();
  });
  line.addEventListener("refused", () => report("Your session has ended. Sign in again."));
  checkAgain();
}

/** Makes screen readers read a text aloud, and perhaps shows it for a while. @param {string} text */
export function announce(text, isShown = false) {
  spoken.className = isShown ? "toast" : "visually-hidden";
  setText(spoken, text);
  endShown();
}

/** Shows why something failed. @param {any} error */
export function report(error) { setNotice(problem, sentence(error)); endProblem(); }
