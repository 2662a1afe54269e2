// A table of entries in pages, with the details of the selected one: the frame of People and Clients.
import { plural } from "/shared/basics.js";
import { button, clear, h, keyed, link, setText } from "/shared/elements.js";
import { sentence, table, update } from "./parts.js";

export class Directory {
  /** @type {any} the key of the selected entry */ selected;
  #entries = /** @type {any[]} */ ([]);
  /** @type {any} the cursor of the next page */ #after;
  #round = 0;
  /** @type {any} the state of the details that are shown */ #shown;
  #body = h("tbody");
  #foot = h("div.foot", { role: "status" });
  #rows = keyed(this.#body, (key, entry) => this.#row(key, entry));

  constructor(/** @type {DirectoryOptions} */ options) {
    this.options = options;
    const { noun, heads } = options;
    const hint = h("p.hint", `Select ${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}.`);
    this.detail = h("section.panel", { "aria-label": `Selected ${noun}` }, hint);
    const panel = h("div.panel", table(`${noun}s`, heads, this.#body), this.#foot);
    this.element = h("div.columns", panel, this.detail);
  }

  restart() { this.#entries = []; return this.load(); }

  /** Reads the entries and the details again. */
  async refresh() {
    await this.load();
    if (this.selected) await this.select(this.selected, true);
  }

  /** Reads as many entries as are shown again, or a page more. */
  async load(isMore = false) {
    const mine = ++this.#round;
    const entries = isMore ? [...this.#entries] : [];
    const number = this.#entries.length + Number(isMore);
    let [after, note] = [isMore ? this.#after : undefined, ""];
    try {
      do {
        const page = await this.options.read(after);
        entries.push(...page.entries);
        [after, note] = [page.after, page.note];
      } while (after && entries.length < number);
      if (mine !== this.#round) return;
      [this.#entries, this.#after] = [entries, after];
      this.#show();
      const more = after && button("Show more", () => this.load(true));
      this.#note(`${note || plural(entries.length, this.options.noun)} `, more);
    } catch (error) {
      if (mine === this.#round) this.#note(`${sentence(error)} `, link("Try again", () => this.load(isMore)));
    }
  }

  #show() { this.#rows(this.#entries.map((entry) => [this.options.describe(entry).key, entry])); }

  /** Shows a note, perhaps with a button. An unchanged one is not replaced, so that its button keeps the focus. */
  #note(text, action) {
    if (this.#foot.textContent !== text + (action?.textContent ?? "")) clear(this.#foot, text, action);
  }

  #row(key, entry) {
    const { note, cells } = this.options.describe(entry);
    const name = link("", () => this.select(key));
    const row = h("tr", h("th", { scope: "row" }, name, note), cells.map(() => h("td")));
    const show = (entry) => {
      const { name: text, cells, calm } = this.options.describe(entry);
      setText(name, text);
      cells.forEach((cell, index) => (index === calm ? setText : update)(row.cells[index + 1], cell));
      row.ariaSelected = String(key === this.selected);
    };
    return { element: row, update: show };
  }

  /** Shows the details of an entry. `isQuiet`: whether the focus stays. */
  async select(key, isQuiet = false) {
    this.selected = key;
    this.#show();
    const { detail } = this;
    try {
      const { entry, title, parts, state } = await this.options.detail(key);
      if (this.selected !== key) return;
      this.#entries = this.#entries.map((it) => (this.options.describe(it).key === key ? entry : it));
      this.#show();
      // Unchanged details are not drawn again, so that a text in them can be selected.
      if (isQuiet && state === this.#shown) return;
      const held = detail.contains(document.activeElement) && document.activeElement?.tagName;
      this.#shown = state;
      const heading = h("h2", { tabindex: -1 }, title);
      clear(detail, heading, parts);
      const target = (isQuiet && held === "BUTTON" && detail.querySelector("button")) || heading;
      if (held || !isQuiet) target.focus();
    } catch (error) {
      if (this.selected !== key) return;
      this.selected = undefined;
      clear(detail, h("p.hint", error.code === "NOT_FOUND" ? "It does not exist any longer." : sentence(error)));
    }
  }
}
