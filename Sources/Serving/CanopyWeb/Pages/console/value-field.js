// A field for a value of the tree: a text as it is, or anything as JSON.

import { element as h } from "/shared/dom.js";
import { select } from "./controls.js";
import { isInexact } from "./format.js";

const lengthMax = 2_000_000;

/** `element`, and the value in it. */
export class ValueField {
  /** @param {string} label @param {number} rows @param {() => void} [changed] */
  constructor(label, rows, changed = () => {}) {
    this.area = h("textarea", { rows: String(rows), spellcheck: "false", oninput: changed });
    this.kind = select({ text: "Text", json: "JSON" }, { "aria-label": `Form of: ${label}`, onchange: changed });
    this.element = h("div", { class: "value-field" }, h("label", { class: "field" }, h("span", {}, label), this.area), this.kind);
    this.set("");
  }

  /** Shows a value. A text area would lose a carriage return, so a text with one is JSON. */
  set(/** @type {any} */ value) {
    const isText = typeof value === "string" && !value.includes("\r");
    this.kind.value = isText ? "text" : "json";
    this.area.value = isText ? value : JSON.stringify(value, null, 2);
    this.shown = this.state;
    const isLarge = this.area.value.length > lengthMax;
    if (isLarge) this.area.value = "";
    this.area.readOnly = isLarge || isInexact(value);
    return isLarge ? "This is too large to edit here. Edit a part of it, or export it."
      : this.area.readOnly ? "A number in it has more digits than a page can hold. Change it with the line protocol." : "";
  }

  get state() { return `${this.kind.value} ${this.area.value}`; }
  get isEdited() { return this.state !== this.shown && !this.area.readOnly; }

  /** The value. @returns {any} @throws {Error} if it is to be JSON and is not */
  read() {
    if (this.kind.value === "text") return this.area.value;
    try {
      return JSON.parse(this.area.value);
    } catch (error) {
      throw new Error(`This is not JSON: ${/** @type {Error} */ (error).message}. Correct it, or choose Text.`);
    }
  }
}
