// The tree of the Data view: children in pages, live, usable with the keyboard.

import { clear, element as h } from "../shared/dom.js";
import { button, flash } from "./controls.js";
import { sentence } from "./dialog.js";
import { below, count, isWithin } from "./format.js";
import { preview, readKeys } from "./keys.js";

const page = 100;
const refreshMilliseconds = 400;

/**
 * A location that the tree shows.
 * @typedef {object} Place
 * @property {string} path
 * @property {number} level from 1
 * @property {Place|null} parent
 * @property {import("./keys.js").Child} child
 * @property {HTMLElement} item
 * @property {HTMLElement} row
 * @property {HTMLElement} group
 * @property {Map<string, Place>} children those that are shown, in order
 * @property {number} limit the number of children to show
 * @property {boolean} isOpen
 * @property {boolean} isStale
 * @property {Promise<void>|null} loading
 */

/**
 * Events: `select` with a place as detail; `load` when places were read again; `act` with the name of an action on the selected place ("edit", "remove").
 */
export class Tree extends EventTarget {
  /** @param {import("../shared/line.js").Line} line @param {string} path of the root */
  constructor(line, path) {
    super();
    this.line = line;
    this.element = h("ul", { role: "tree", class: "tree", "aria-label": `Data at ${path}`, onkeydown: (event) => this.#press(event) });
    this.root = this.#place(null, { key: path, isBranch: true, value: null, count: null, isCut: false });
    this.root.path = path;
    this.element.append(this.root.item);
    /** @type {Place} */
    this.selected = this.root;
    this.root.row.tabIndex = 0;
    this.timer = 0;
  }

  /** Stops all work. */
  close() {
    clearTimeout(this.timer);
    this.isClosed = true;
  }

  /** Reads again the open places that a change at a path concerns; a bound on how often keeps many changes cheap. @param {string} path */
  touch(path) {
    for (const place of this.#open(this.root)) {
      if (isWithin(path, place.path) || isWithin(place.path, path)) place.isStale = true;
    }
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      for (const place of this.#open(this.root)) if (place.isStale) this.#load(place);
    }, refreshMilliseconds);
  }

  /** Reads the root and opens it. */
  begin() {
    this.root.isOpen = true;
    return this.#load(this.root);
  }

  /** @param {Place} place */
  async open(place) {
    if (!place.isOpen && place.child.isBranch) {
      place.isOpen = true;
      this.#draw(place);
    }
    if (place.isOpen) await this.#load(place);
  }

  /** @param {Place} place */
  #fold(place) {
    place.isOpen = false;
    if (this.selected !== place && isWithin(this.selected.path, place.path)) this.select(place);
    place.children.clear();
    clear(place.group);
    place.limit = page;
    this.#draw(place);
  }

  /** @param {Place} place */
  select(place) {
    this.selected.row.tabIndex = -1;
    this.selected.row.setAttribute("aria-selected", "false");
    this.selected = place;
    place.row.tabIndex = 0;
    place.row.setAttribute("aria-selected", "true");
    this.dispatchEvent(new CustomEvent("select", { detail: place }));
  }

  /** @param {Place|null} parent @param {import("./keys.js").Child} child @returns {Place} */
  #place(parent, child) {
    const level = parent ? parent.level + 1 : 1;
    const row = h("div", { role: "treeitem", class: "place", tabindex: -1, "aria-level": level, "aria-selected": "false" });
    row.style.setProperty("--level", String(level));
    const group = h("ul", { role: "group", hidden: true });
    const item = h("li", { role: "none" }, row, group);
    const place = { path: parent ? below(parent.path, child.key) : child.key, level, parent, child, item, row, group,
      children: new Map(), limit: page, isOpen: false, isStale: false, loading: null };
    row.append(h("span", { class: "twist", "aria-hidden": "true", onclick: (event) => this.#toggle(event, place) }),
      h("span", { class: "key" }, child.key), h("span", { class: "value" }));
    row.addEventListener("click", () => {
      this.select(place);
      row.focus();
      if (!place.isOpen) this.open(place);
    });
    this.#draw(place);
    return place;
  }

  /** @param {Event} event @param {Place} place */
  #toggle(event, place) {
    event.stopPropagation();
    if (place.isOpen) this.#fold(place);
    else this.open(place);
  }

  /** Shows the state of a place in its row. @param {Place} place */
  #draw(place) {
    const { row, child } = place;
    const value = /** @type {HTMLElement} */ (row.lastElementChild);
    const text = child.isBranch ? (child.count === null ? "" : count(child.count)) : preview(child);
    if (value.textContent !== text) {
      if (value.dataset.kind) flash(row);
      value.textContent = text;
    }
    value.dataset.kind = child.isBranch ? "branch" : typeof child.value;
    if (child.isBranch) row.setAttribute("aria-expanded", String(place.isOpen));
    else row.removeAttribute("aria-expanded");
    place.group.hidden = !place.isOpen;
  }

  /** @param {Place} place @returns {Promise<void>} */
  #load(place) {
    place.isStale = true;
    place.loading ??= this.#loadAll(place).finally(() => { place.loading = null; });
    return place.loading;
  }

  /** @param {Place} place */
  async #loadAll(place) {
    if (!place.children.size) clear(place.group, this.#note(place, "Loading …"));
    try {
      while (place.isStale && (place.isOpen || !place.parent) && !this.isClosed) {
        place.isStale = false;
        const shown = await readKeys(this.line, place.path, place.limit);
        if ((place.isOpen || !place.parent) && !this.isClosed) this.#take(place, shown);
      }
      this.dispatchEvent(new Event("load"));
    } catch (error) {
      place.isStale = false;
      clear(place.group, this.#note(place, sentence(error), button("Try again", () => this.#load(place))));
      place.children.clear();
    }
  }

  /** Makes the children of a place those of a reply. @param {Place} place @param {import("./keys.js").Keys} shown */
  #take(place, { self, children, hasMore }) {
    if (!place.parent) {
      place.isOpen &&= self.isBranch;
      if (self.isBranch && !place.child.isBranch) place.isOpen = true;
      place.child = self;
    } else if (self.isBranch) place.child.count = self.count;
    const before = place.children;
    const isFirst = before.size === 0;
    place.children = new Map(children.map((child) => {
      const known = before.get(child.key);
      if (!known) {
        const added = this.#place(place, child);
        if (!isFirst) flash(added.row);
        return [child.key, added];
      }
      known.child = child;
      if (!child.isBranch && known.isOpen) this.#fold(known);
      this.#draw(known);
      return [child.key, known];
    }));
    const hadFocus = place.group.contains(document.activeElement);
    if ([...before.values()].some((child) => place.children.get(child.child.key) !== child && isWithin(this.selected.path, child.path))) {
      this.select(place);
      if (hadFocus) place.row.focus();
    }
    this.#arrange(place, hasMore);
    this.#draw(place);
  }

  /** Puts the rows in order, and moves only those that are not in their place. @param {Place} place @param {boolean} hasMore */
  #arrange(place, hasMore) {
    const rows = [...place.children.values()].map((child) => child.item);
    const rest = place.child.count === null ? "" : ` of ${count(place.child.count - rows.length)}`;
    if (hasMore) rows.push(this.#note(place, "", button(`Show ${page} more${rest}`, () => this.#more(place))));
    else if (!rows.length && place.child.isBranch) rows.push(this.#note(place, "No children."));
    const kept = new Set(rows);
    for (const row of [...place.group.children]) if (!kept.has(/** @type {any} */ (row))) row.remove();
    rows.forEach((row, index) => {
      if (place.group.children[index] !== row) place.group.insertBefore(row, place.group.children[index] ?? null);
    });
  }

  /** @param {Place} place */
  async #more(place) {
    const last = [...place.children.values()].at(-1);
    place.limit += page;
    await this.#load(place);
    const next = last?.item.nextElementSibling?.querySelector(".place");
    if (next instanceof HTMLElement) next.focus();
  }

  /** @param {Place} place @param {string} text @param {Element} [control] */
  #note(place, text, control) {
    const note = h("li", { role: "none", class: "note" }, text && h("span", { role: "status" }, text), control);
    note.style.setProperty("--level", String(place.level + 1));
    return note;
  }

  /** @param {Place} place @returns {Place[]} */
  #open(place) {
    return place.isOpen || !place.parent ? [place, ...[...place.children.values()].flatMap((child) => this.#open(child))] : [];
  }

  /** @param {KeyboardEvent} event */
  #press(event) {
    if (!(event.target instanceof HTMLElement) || event.target.role !== "treeitem" || event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll("[role=treeitem]")]);
    const index = rows.indexOf(event.target);
    const place = this.#placeOf(rows[index]);
    const go = (/** @type {HTMLElement|undefined} */ row) => {
      if (!row) return;
      this.select(this.#placeOf(row));
      row.focus();
    };
    const keys = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => go(rows[index + 1]),
      ArrowUp: () => go(rows[index - 1]),
      ArrowRight: () => (place.isOpen ? go(rows[index + 1]) : this.open(place)),
      ArrowLeft: () => (place.isOpen ? this.#fold(place) : go(place.parent?.row)),
      Home: () => go(rows[0]),
      End: () => go(rows.at(-1)),
      Enter: () => this.dispatchEvent(new CustomEvent("act", { detail: "edit" })),
      Delete: () => this.dispatchEvent(new CustomEvent("act", { detail: "remove" })),
    });
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  /** @param {HTMLElement} row @returns {Place} */
  #placeOf(row) {
    return this.#all(this.root).find((place) => place.row === row) ?? this.root;
  }

  /** @param {Place} place @returns {Place[]} */
  #all(place) {
    return [place, ...[...place.children.values()].flatMap((child) => this.#all(child))];
  }
}
