// A small chart of the last two minutes: a few lines, and the present values as text.

import { clear, element as h } from "/shared/dom.js";

const samples = 120;
const [width, height] = [240, 48];

function svg(/** @type {string} */ tag, /** @type {Record<string, string>} */ attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Creates a chart with lines of these names; a single line needs none. `push` takes a value for each, or null. */
export function chart(/** @type {string} */ title, /** @type {string[]} */ names, /** @type {(value: number) => string} */ text) {
  /** @type {(number|null)[][]} the samples of each line, the newest last */
  let lines = names.map(() => []);
  const values = h("dl");
  const highest = h("small", {}, "…");
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });

  function push(/** @type {(number|null)[]} */ sample) {
    lines = lines.map((line, index) => [...line, sample[index]].slice(-samples));
    const peak = Math.max(0, ...lines.flat().map((value) => value ?? 0));
    const paths = lines.map((line, index) => svg("path", { d: path(line, peak), class: `line series-${index}` }));
    drawing.replaceChildren(svg("path", { d: `M0 ${height - 1}H${width}`, class: "base" }), ...paths);
    clear(values, ...names.map((name, index) => {
      const value = sample[index];
      return h("div", {}, h("dt", { class: `series-${index}` }, name), h("dd", {}, value === null ? "–" : text(value)));
    }));
    highest.textContent = peak > 0 ? `highest in 2 min: ${text(peak)}` : "nothing in 2 min";
  }

  return { element: h("section", { class: "chart" }, h("h2", {}, title), values, drawing, highest), push };
}

/** The path of a line, with a gap for each missing value. */
function path(/** @type {(number|null)[]} */ line, /** @type {number} */ peak) {
  return line.map((value, place) => {
    if (value === null) return "";
    const x = width - (line.length - 1 - place) * (width / (samples - 1));
    const y = height - 1 - (peak > 0 ? value / peak : 0) * (height - 3);
    return `${place > 0 && line[place - 1] !== null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}
