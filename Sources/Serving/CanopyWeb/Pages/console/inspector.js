// The selected location: its whole value, and the actions on it.

import { clear, element as h } from "/shared/dom.js";
import { button, flash, form } from "./controls.js";
import { attempt, confirmed, say, sentence } from "./dialog.js";
import { download } from "./export.js";
import { isBranch } from "./keys.js";
import { below, isWithin, plural, short, size } from "./format.js";
import { ValueField } from "./value-field.js";

/** Shows one place of the tree. */
export class Inspector {
  constructor(/** @type {import("../shared/line.js").Line} */ line, /** @type {(path: string) => void} */ openAlone) {
    this.line = line;
    this.openAlone = openAlone;
    this.note = h("p", { class: "hint", role: "status" });
    this.element = h("section", { class: "panel inspector", "aria-label": "Selected location" });
    this.etag = "";
    this.timer = 0;
  }

  show(/** @type {import("./tree.js").Place} */ place) {
    if (this.place !== place || this.isBranch !== isBranch(place.child)) this.#begin(place);
    this.#describe();
  }

  /** Reads the value again if a change at a path concerns it. */
  touch(/** @type {string} */ path) {
    const place = this.place;
    if (!place || !(isWithin(path, place.path) || isWithin(place.path, path))) return;
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      if (this.etag) this.#load();
    }, 500);
  }

  focus() {
    (this.field?.element.isConnected ? this.field.area : this.element.querySelector("button"))?.focus();
  }

  #begin(/** @type {import("./tree.js").Place} */ place) {
    const { path, child } = place;
    this.place = place;
    this.isBranch = isBranch(child);
    this.etag = "";
    this.field = new ValueField("Value", isBranch(child) ? 14 : 6, () => this.#edited());
    this.facts = h("p", { class: "hint" });
    this.saveButton = h("button", { type: "submit", class: "button", disabled: true }, "Save");
    this.revertButton = button("Revert", () => this.#load(true), { disabled: true });
    const editor = form("stack", () => this.#save(), this.field.element, h("div", { class: "row" }, this.saveButton, this.revertButton));
    const edit = button("Edit as JSON", () => { edit.replaceWith(editor); this.#load(true).then(() => this.focus()); });
    this.note.textContent = "";
    clear(this.element, h("h2", { class: "path" }, path), this.facts, isBranch(child) ? edit : editor, this.note,
      h("div", { class: "row" }, button("Open alone", () => this.openAlone(path)),
        button("Export", () => attempt(() => download(this.line, path, (text) => { this.note.textContent = text; }))),
        path !== "/" && button("Remove …", () => this.remove(), { class: "button danger" })),
      (isBranch(child) || child.value === null) && this.#adder(path));
    if (!isBranch(child)) this.#load(true);
  }

  #describe() {
    const { value, children, bytes, priority } = /** @type {import("./tree.js").Place} */ (this.place).child;
    const kind = children !== undefined ? `Branch with ${plural(children, "child", "children")}` : value === null ? "Nothing is stored here"
      : typeof value === "string" ? `Text of ${bytes ? size(bytes) : plural([...value].length, "character")}`
        : typeof value === "number" ? "Number" : "True or false";
    if (this.facts) this.facts.textContent = kind + (priority === undefined ? "" : ` · priority ${short(priority)}`);
  }

  /** `isForced`: whether to discard what was typed. */
  async #load(/** @type {boolean=} */ isForced) {
    const { place, field } = this;
    if (!place || !field) return;
    try {
      const reply = await this.line.read("GET", place.path, { etag: true, export: true });
      const { etag, data } = reply;
      if (field !== this.field || (etag === this.etag && !isForced)) return;
      if (field.isEdited && !isForced) {
        this.note.textContent = `Changed meanwhile: it is now ${short(data, 80)}. Save refuses once; Revert shows it.`;
        return;
      }
      if (this.etag && !isForced) flash(field.area);
      this.etag = etag;
      this.note.textContent = field.set(data);
      this.#edited();
    } catch (error) {
      if (field === this.field) this.note.textContent = sentence(error);
    }
  }

  #edited() {
    const isEdited = Boolean(this.field?.isEdited && this.etag);
    if (this.saveButton) this.saveButton.disabled = !isEdited;
    if (this.revertButton) this.revertButton.disabled = !isEdited;
  }

  /** Writes the value if it is still the one that was read. */
  async #save() {
    const { place, field } = this;
    if (!place || !field?.isEdited) return;
    await attempt(async () => {
      const { committed, etag, data } = await this.line.write("CAS", place.path, this.etag, field.read());
      if (committed) return this.#load(true).then(() => say(`Saved ${place.path}.`));
      this.etag = etag;
      this.note.textContent = `Not saved: somebody has set it to ${short(data, 80)} meanwhile. Save again to replace that.`;
    });
  }

  async remove() {
    const { path, child } = /** @type {import("./tree.js").Place} */ (this.place);
    const extent = isBranch(child) ? `${plural(child.children ?? 0, "child", "children")} and everything below` : "its value";
    const question = { title: `Remove ${path}?`, text: `This removes ${extent}. It cannot be undone.`, action: "Remove" };
    if (path !== "/" && await confirmed(question)) await attempt(() => this.line.write("REMOVE", path), `Removed ${path}.`);
  }

  /** A form for a new child. A key that is in use is refused. */
  #adder(/** @type {string} */ path) {
    const key = h("input", { autocomplete: "off", spellcheck: "false", autocapitalize: "off", placeholder: "a new push id" });
    const value = new ValueField("Value of the child", 3);
    const add = () => attempt(async () => {
      const name = key.value.trim();
      const data = value.read();
      const reply = name ? await this.line.write("CAS", below(path, name), "null_etag", data) : await this.line.write("PUSH", path, data);
      if (reply.committed === false) throw new Error(`There is a child ${name} already. Select it to edit it.`);
      say(`Added ${below(path, name || reply.key)}.`);
      key.value = "";
      value.set("");
    });
    return h("details", {}, h("summary", {}, "Add a child"),
      form("stack", add, h("label", { class: "field" }, h("span", {}, "Key"), key), value.element,
        h("div", { class: "row" }, h("button", { type: "submit", class: "button" }, "Add"))));
  }
}
