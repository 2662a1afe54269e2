// The last lines of the log of the server, the newest at the end.

import { element as h } from "/shared/dom.js";
import { field, select } from "./controls.js";
import { time } from "./format.js";

const linesMax = 300;

export function logPanel(/** @type {import("../shared/line.js").Line} */ line) {
  const level = select({ debug: "debug", info: "info", notice: "notice", warning: "warning", error: "error" }, { onchange: begin });
  level.value = "info";
  const lines = h("ol", { class: "log", tabindex: 0, "aria-label": "Lines of the log" });
  const element = h("section", { class: "panel" }, h("div", { class: "row" }, h("h2", {}, "Log"), h("span", { class: "space" }), field("From level", level)), lines);
  /** @type {number|undefined} */
  let last;

  function begin() {
    last = undefined;
    lines.replaceChildren();
    read();
  }

  /** Reads the new lines. It scrolls to the end only if the end is in view. */
  async function read() {
    const asked = level.value;
    const reply = await line.read("LOG", { level: asked, limit: linesMax, ...(last === undefined ? {} : { after: last }) });
    if (asked !== level.value) return;
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    // A server that was started again numbers its lines anew.
    if (last !== undefined && reply.last < last) return begin();
    last = reply.last;
    lines.append(...reply.lines.map(entry));
    while (lines.childElementCount > linesMax) lines.firstElementChild?.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  function entry(/** @type {{time: number, level: string, message: string, metadata: Record<string, string>}} */ { time: at, level: name, message, metadata = {} }) {
    const details = Object.entries(metadata).map(([key, value]) => ` ${key}=${value}`).join("");
    return h("li", { class: `level-${name}` }, h("time", {}, time(at, true)), h("b", {}, name), h("span", {}, message, h("i", {}, details)));
  }

  return { element, read };
}
