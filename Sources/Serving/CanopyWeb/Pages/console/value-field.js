// A field for a value of the tree: a text as it is, or anything as JSON.
import { field, h, select } from "/shared/elements.js";
import { exact, isInexact } from "./format.js";

const lengthMax = 1_000_000; // A longer value may not fit into one request.

export class ValueField {
  constructor(/** @type {string} */ label, /** @type {number} */ rows, oninput = () => {}) {
    this.area = h("textarea", { rows, spellcheck: "false", oninput });
    this.kind = select({ text: "Text", json: "JSON" }, { "aria-label": `Form of: ${label}`, onchange: oninput });
    this.element = h("div.value-field", field(label, this.area), this.kind);
    this.set("");
  }

  /** Shows a value, and returns why it cannot be edited. @param {any} value */
  set(value) {
    // A text area would lose a carriage return, so a text with one is JSON.
    const isText = typeof value === "string" && !value.includes("\r");
    const text = isText ? value : JSON.stringify(value, null, 2);
    const isLarge = text.length > lengthMax;
    this.kind.value = isText ? "text" : "json";
    this.area.value = isLarge ? "" : text;
    this.shown = this.#state;
    this.area.readOnly = this.isFixed = isLarge || isInexact(value);
    if (isLarge) return "This is too large to edit here. Edit a part of it, or export it.";
    return this.isFixed ? "A number in it has more digits than a page can hold. Use the line protocol." : "";
  }

  get #state() { return `${this.kind.value} ${this.area.value}`; }
  get isEdited() { return this.#state !== this.shown && !this.isFixed; }

  /** Returns the value, or fails if it is to be JSON and is not, or is inexact. @returns {any} */
  read() {
    if (this.kind.value === "text") return this.area.value;
    try {
      return exact(JSON.parse(this.area.value));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
      throw new Error(`This is not JSON: ${error.message}. Correct it, or choose Text.`);
    }
  }
}
