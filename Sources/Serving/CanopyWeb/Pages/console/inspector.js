// The selected location: its whole value, and the actions on it.
import { gathered, plural } from "/shared/basics.js";
import { button, clear, confirmed, field, form, h, passFocus, plain, submit } from "/shared/elements.js";
import { download } from "./export.js";
import { below, isBranch, isEmpty, isOnWay, short, size } from "./format.js";
import { attempt, flash, say, sentence } from "./parts.js";
import { ValueField } from "./value-field.js";

export class Inspector {
  element = h("section.panel.inspector", { "aria-label": "Selected location" });
  /** @type {any} the place, of the class `Place` */ #place;
  #isBranch = false;
  #etag = ""; // The version of the shown value; empty if none is shown.
  /** @type {Map<string, [ValueField, string]>} fields with unsaved texts by path, and etags */ #unsaved = new Map();
  #line; #open;
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
    const { path } = this.#place;
    if (path === "/") return;
    await attempt(() => this.#line.write("REMOVE", path), `Removed ${path}.`, this.#removal());
  }

  /** Returns the question before the place is removed. */
  #removal() {
    const { path, child } = this.#place;
    const branch = `${plural(child.children ?? 0, "child", "children")} and everything below`;
    const text = `This removes ${isBranch(child) ? branch : "its value"}. It cannot be undone.`;
    return { title: `Remove ${path}?`, text, action: "Remove" };
  }

  #begin(place) {
    const { path, child } = place;
    const hadFocus = this.element.contains(document.activeElement);
    if (this.#field.isEdited && this.#etag) this.#unsaved.set(this.#place.path, [this.#field, this.#etag]);
    const unsaved = this.#unsaved.get(path);
    this.#unsaved.delete(path);
    this.#place = place;
    this.#isBranch = isBranch(child);
    const newField = () => new ValueField("Value", this.#isBranch ? 14 : 6, () => this.#edited());
    [this.#field, this.#etag] = unsaved ?? [newField(), ""];
    this.#note.textContent = unsaved ? "You have changed this here, and not saved it." : "";
    const buttons = h("div.row", this.#save, this.#revert);
    const editor = form("stack", () => this.#write(), this.#field.element, buttons);
    const edit = button("Edit as JSON", async () => {
      await this.#load(true);
      // A branch that is too large leaves the field empty.
      if (!edit.isConnected || !this.#field.area.value) return;
      edit.replaceWith(editor);
      this.focus();
    });
    const report = (text) => (this.#note.textContent = text);
    clear(this.element, h("h2.path", path), this.#facts, this.#isBranch && !unsaved ? edit : editor, this.#note,
      h("div.row", button("Open alone", () => this.#open(path)),
        button("Export", () => attempt(() => download(this.#line, path, report))),
        path !== "/" && button("Remove …", () => this.remove(), { class: "button danger" })),
      (this.#isBranch || child.value === null) && this.#adder(path));
    this.#edited();
    if (!this.#isBranch) this.#load(!unsaved);
    if (hadFocus) this.focus();
  }

  /** Reads the value. `isForced`: whether to discard what was typed. */
  async #load(isForced = false) {
    const field = this.#field;
    try {
      const { etag, data } = await this.#line.read("GET", this.#place.path, { etag: true, export: true });
      if (field !== this.#field || (etag === this.#etag && !isForced)) return;
      if (field.isEdited && !isForced) {
        const now = short(data, 80);
        this.#note.textContent = `The value has changed to ${now}. “Revert” replaces your text by it.`;
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
    const [{ path }, field, etag] = [this.#place, this.#field, this.#etag];
    return attempt(async () => {
      const data = field.read();
      if (isEmpty(data) && !(await confirmed(this.#removal()))) return;
      const reply = await this.#line.write("CAS", path, etag, data);
      if (reply.committed) this.#unsaved.delete(path);
      if (field === this.#field && reply.committed) {
        await this.#load(true);
        passFocus(this.element, field.area);
      }
      if (reply.committed) return say(`Saved ${path}.`);
      if (field !== this.#field) throw new Error(`${path} was not saved: somebody has changed it meanwhile.`);
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
      if (isEmpty(data)) throw new Error(`A child cannot be ${short(data)}`);
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
