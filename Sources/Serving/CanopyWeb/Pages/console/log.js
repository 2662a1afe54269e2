// The last lines of the log of the server, the newest at the end.
import { clear, field, h, select } from "/shared/elements.js";
import { time } from "./format.js";
import { attempt } from "./parts.js";

const linesMax = 300;

export function logPanel(/** @type {Line} */ line) {
  const level = select(["debug", "info", "notice", "warning", "error"], { onchange: begin });
  level.value = "info";
  const change = () => attempt(() => line.write("LOGLEVEL", lowest.value), `The server logs from ${lowest.value} on.`);
  const lowest = select(["trace", "debug", "info", "notice", "warning", "error", "critical"], { onchange: change });
  const lines = h("ol.log", { tabindex: 0, "aria-label": "Lines of the log" });
  const head = h("div.row", h("h2", "Log"), h("span.space"), field("The server logs from", lowest),
    field("From level", level));
  /** @type {number | undefined} */ let last;

  function begin() { last = undefined; clear(lines); return read(); }

  /** Reads the new lines. It scrolls to the end only if the end is in view. */
  async function read() {
    const asked = level.value;
    if (last === undefined) lowest.value = (await line.read("LOGLEVEL")).level;
    const options = { level: asked, limit: linesMax, ...(last !== undefined && { after: last }) };
    const reply = await line.read("LOG", options);
    if (asked !== level.value) return;
    const isAtEnd = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    // A server that was started again numbers its lines from the start.
    if (last !== undefined && reply.last < last) return begin();
    last = reply.last;
    lines.append(...reply.lines.map(entry));
    while (lines.childElementCount > linesMax) lines.firstElementChild?.remove();
    if (isAtEnd) lines.scrollTop = lines.scrollHeight;
  }

  return { element: h("section.panel", head, lines), read };
}

function entry({ time: at, level, message, metadata = {} }) {
  const details = Object.entries(metadata).map(([key, value]) => ` ${key}=${value}`).join("");
  const text = h("span", message, h("i", details));
  return h("li", { class: `level-${level}` }, h("time", time(at, true)), h("b", level), text);
}
