// A small chart of the last two minutes: a few lines, and the present values as text.
import { clear, h, svg } from "/shared/dom.js";

const samples = 120;
const [width, height] = [240, 48];

/**
 * Creates a chart; `push` takes a value for each line, or null.
 * @param {string} title @param {string[]} names of the lines @param {(value: number) => string} text
 */
export function chart(title, names, text) {
  /** @type {(number | null)[][]} the samples of each line, the newest last */
  let lines = names.map(() => []);
  const values = h("dl");
  const highest = h("small", "…");
  const drawing = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true",
  });

  function push(sample) {
    lines = lines.map((line, index) => [...line, sample[index]].slice(-samples));
    const peak = Math.max(0, ...lines.flat().map((value) => value ?? 0));
    const base = svg("path", { d: `M0 ${height - 1}H${width}`, class: "base" });
    clear(drawing, base, lines.map((line, index) =>
      svg("path", { d: path(line, peak), class: `line series-${index}` })));
    clear(values, names.map((name, index) => {
      const value = sample[index];
      const term = h("dt", { class: `series-${index}` }, name);
      return h("div", term, h("dd", value === null ? "–" : text(value)));
    }));
    highest.textContent = peak > 0 ? `highest in 2 min: ${text(peak)}` : "nothing in 2 min";
  }

  return { element: h("section.chart", h("h2", title), values, drawing, highest), push };
}

/** The path of a line, with a gap for each missing value. */
function path(line, peak) {
  return line.map((value, place) => {
    if (value === null) return "";
    const x = width - (line.length - 1 - place) * (width / (samples - 1));
    const y = height - 1 - (peak > 0 ? value / peak : 0) * (height - 3);
    const isJoined = place > 0 && line[place - 1] !== null;
    return `${isJoined ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}
