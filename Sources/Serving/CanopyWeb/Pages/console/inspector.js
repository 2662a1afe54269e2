// The selected location: its whole value, and the actions on it.
import { gathered, plural } from "/shared/basics.js";
import { button, clear, field, form, h, plain, submit } from "/shared/elements.js";
import { download } from "./export.js";
import { below, isBranch, isOnWay, short, size } from "./format.js";
import { attempt, flash, say, sentence } from "./parts.js";
import { ValueField } from "./value-field.js";

export class Inspector {
  element = h("section.panel.inspector", { "aria-label": "Selected location" });
  /** @type {any} the place, of the class `Place` */ #place;
  #isBranch = false;
  #etag = ""; // The version of the shown value; empty if none is shown.
  #line;
  #open;
  #facts = h("p.hint");
  #note = h("p.hint", { role: "status" });
  #save = submit("Save");
  #revert = button("Revert", () => this.#load(true));
  #field = new ValueField("Value", 6);
  #refresh = gathered(500, () => this.#etag && this.#load());

  /** @param {Line} line @param {(path: string) => void} open shows a place alone */
  constructor(line, open) { [this.#line, this.#open] = [line, open]; }

  show(/** @type {Place} */ place) {
    if (this.#place !== place || this.#isBranch !== isBranch(place.child)) this.#begin(place);
    const { value, children, bytes, priority } = place.child;
    const kinds = { number: "Number", boolean: "True or false", object: "Nothing is stored here" };
    const length = bytes ? size(bytes) : plural([...String(value)].length, "character");
    const kind = children !== undefined ? `Branch with ${plural(children, "child", "children")}`
      : kinds[typeof value] ?? `Text of ${length}`;
    this.#facts.textContent = kind + (priority === undefined ? "" : ` · priority ${short(priority)}`);
  }

  /** Reads the value again if a change at a path concerns it. @param {string} path */
  touch(path) { if (this.#place && isOnWay(path, this.#place.path)) this.#refresh(); }

  focus() {
    const { element, area } = this.#field;
    (element.isConnected ? area : this.element.querySelector("button"))?.focus();
  }

  async remove() {
    const { path, child } = this.#place;
    if (path === "/") return;
    const branch = `${plural(child.children ?? 0, "child", "children")} and everything below`;
    const text = `This removes ${isBranch(child) ? branch : "its value"}. It cannot be undone.`;
    const question = { title: `Remove ${path}?`, text, action: "Remove" };
    await attempt(() => this.#line.write("REMOVE", path), `Removed ${path}.`, question);
  }

  #begin(place) {
    const { path, child } = place;
    this.#place = place;
    this.#isBranch = isBranch(child);
    this.#etag = "";
    this.#note.textContent = "";
    this.#field = new ValueField("Value", this.#isBranch ? 14 : 6, () => this.#edited());
    const buttons = h("div.row", this.#save, this.#revert);
    const editor = form("stack", () => this.#write(), this.#field.element, buttons);
    const edit = button("Edit as JSON", () => {
      edit.replaceWith(editor);
      this.#load(true).then(() => this.focus());
    });
    const report = (text) => (this.#note.textContent = text);
    clear(this.element, h("h2.path", path), this.#facts, this.#isBranch ? edit : editor, this.#note,
      h("div.row", button("Open alone", () => this.#open(path)),
        button("Export", () => attempt(() => download(this.#line, path, report))),
        path !== "/" && button("Remove …", () => this.remove(), { class: "button danger" })),
      (this.#isBranch || child.value === null) && this.#adder(path));
    this.#edited();
    if (!this.#isBranch) this.#load(true);
  }

  /** Reads the value. `isForced`: whether to discard what was typed. */
  async #load(isForced = false) {
    const field = this.#field;
    try {
      const { etag, data } = await this.#line.read("GET", this.#place.path, { etag: true, export: true });
      if (field !== this.#field || (etag === this.#etag && !isForced)) return;
      if (field.isEdited && !isForced) {
        const now = short(data, 80);
        this.#note.textContent = `Changed meanwhile: it is now ${now}. Save refuses once; Revert shows it.`;
        return;
      }
      if (this.#etag && !isForced) flash(field.area);
      this.#etag = etag;
      this.#note.textContent = field.set(data);
      this.#edited();
    } catch (error) {
      if (field === this.#field) this.#note.textContent = sentence(error);
    }
  }

  #edited() { this.#save.disabled = this.#revert.disabled = !(this.#field.isEdited && this.#etag); }

  /** Writes the value if it is still the one that was read. */
  #write() {
    const { path } = this.#place;
    return attempt(async () => {
      const reply = await this.#line.write("CAS", path, this.#etag, this.#field.read());
      if (reply.committed) return this.#load(true).then(() => say(`Saved ${path}.`));
      this.#etag = reply.etag;
      const now = short(reply.data, 80);
      this.#note.textContent = `Not saved: somebody has set it to ${now} meanwhile. Save again to replace that.`;
    });
  }

  /** A form for a new child. A key that is in use is refused. */
  #adder(path) {
    const key = h("input", plain, { placeholder: "a new push id" });
    const value = new ValueField("Value of the child", 3);
    const add = () => attempt(async () => {
      const name = key.value.trim();
      const data = value.read();
      const reply = name ? await this.#line.write("CAS", below(path, name), "null_etag", data)
        : await this.#line.write("PUSH", path, data);
      if (reply.committed === false) throw new Error(`There is a child ${name} already. Select it to edit it.`);
      say(`Added ${below(path, name || reply.key)}.`);
      key.value = "";
      value.set("");
    });
    return h("details", h("summary", "Add a child"),
      form("stack", add, field("Key", key), value.element, h("div.row", submit("Add"))));
  }
}
