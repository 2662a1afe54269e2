// A small chart of the last two minutes: a few lines, and the present values as text.
import { clear, h, svg } from "/shared/elements.js";

const samplesMax = 120;
const [width, height] = [240, 48];

/** Creates a chart; `draw` takes a sample of each line, or null. @param {string} title
 * @param {(value: number) => string} text @param {Record<string, () => number | null>} sources */
export function chart(title, text, sources) {
  const lines = Object.entries(sources).map(([name, sample]) => ({
    name, sample, values: /** @type {(number | null)[]} */ ([]),
  }));
  const present = h("dl");
  const highest = h("small", "…");
  const viewBox = `0 0 ${width} ${height}`;
  const drawing = svg("svg", { viewBox, preserveAspectRatio: "none", "aria-hidden": "true" });

  function draw() {
    for (const line of lines) line.values = [...line.values, line.sample()].slice(-samplesMax);
    const peak = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
    clear(drawing, svg("path", { d: `M0 ${height - 1}H${width}`, class: "base" }), lines.map(({ values }, index) =>
      svg("path", { d: path(values, peak), class: `line series-${index}` })));
    clear(present, lines.map(({ name, values }, index) => h("div", h("dt", { class: `series-${index}` }, name),
      h("dd", shown(values.at(-1) ?? null)))));
    highest.textContent = peak > 0 ? `highest in 2 min: ${text(peak)}` : "nothing in 2 min";
  }

  const shown = (value) => value === null ? "–" : text(value);
  return { element: h("section.chart", h("h2", title), present, drawing, highest), draw };
}

/** The path of a line, with a gap for each missing value. */
const path = (values, peak) => values.map((value, place) => {
  if (value === null) return "";
  const x = width - (values.length - 1 - place) * (width / (samplesMax - 1));
  const y = height - 1 - (peak > 0 ? value / peak : 0) * (height - 3);
  const isJoined = place > 0 && values[place - 1] !== null;
  return `${isJoined ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
}).join("");
