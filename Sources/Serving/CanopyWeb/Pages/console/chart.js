// A small chart of the last two minutes: one or two lines, the present values as text.

import { clear, element as h } from "/shared/dom.js";

const samples = 120;
const [width, height] = [240, 48];

function svg(/** @type {string} */ tag, /** @type {Record<string, string|number>} */ attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** `<live-chart>`: create it with `chart`, then push a sample at a time. */
export class LiveChart extends HTMLElement {
  /** @type {(number|null)[][]} the samples of each line, the newest last */
  #lines = [];
  /** @type {(value: number) => string} */
  #text = String;
  /** @type {string[]} */
  #names = [];
  #values = h("dl");
  #peak = h("small");
  #drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" });

  /** `names`: of the lines; one without a name needs none. */
  prepare(/** @type {string} */ title, /** @type {string[]} */ names, /** @type {(value: number) => string} */ text) {
    this.#names = names;
    this.#text = text;
    this.#lines = names.map(() => []);
    this.append(h("h2", {}, title), this.#values, this.#drawing, this.#peak);
    this.#draw();
    return this;
  }

  /** `values`: one for each line; null where there is none. */
  push(/** @type {(number|null)[]} */ values) {
    this.#lines.forEach((line, index) => {
      line.push(Number.isFinite(values[index]) ? values[index] : null);
      if (line.length > samples) line.shift();
    });
    this.#draw();
  }

  #draw() {
    const peak = Math.max(0, ...this.#lines.flat().map((value) => value ?? 0));
    const paths = this.#lines.map((line, index) => {
      let [d, isDown] = ["", false];
      line.forEach((value, place) => {
        const x = width - (line.length - 1 - place) * (width / (samples - 1));
        const y = height - 1 - (peak > 0 ? (value ?? 0) / peak : 0) * (height - 3);
        if (value !== null) d += `${isDown ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
        isDown = value !== null;
      });
      return svg("path", { d, class: `line series-${index}` });
    });
    const base = svg("path", { d: `M0 ${height - 1}H${width}`, class: "base" });
    this.#drawing.replaceChildren(base, ...paths);
    clear(this.#values, ...this.#names.flatMap((name, index) => {
      const value = this.#lines[index].at(-1) ?? null;
      return [h("div", {}, h("dt", { class: `series-${index}` }, name), h("dd", {}, value === null ? "–" : this.#text(value)))];
    }));
    clear(this.#peak, `highest in 2 min: ${this.#text(peak)}`);
  }
}

customElements.define("live-chart", LiveChart);

/** Creates a chart with lines of these names; a single line needs none. */
export function chart(/** @type {string} */ title, /** @type {string[]} */ names, /** @type {(value: number) => string} */ text) {
  return new LiveChart().prepare(title, names, text);
}
