// The tree of the Data view: children in pages, live, usable with the keyboard.

import { clear, element as h } from "/shared/dom.js";
import { button, flash } from "./controls.js";
import { sentence } from "./dialog.js";
import { below, count, isWithin } from "./format.js";
import { isBranch, readKeys, summary } from "./keys.js";

/** @typedef {import("./keys.js").Child} Child */

const page = 100;
const refreshMilliseconds = 400;

/** A location with its row, and its children if it is open. */
export class Place {
  /** @type {string} */
  path;
  /** @type {number} */
  level;
  /** @type {Map<string, Place>} the children that are shown, in order */
  children = new Map();
  limit = page;
  isOpen = false;
  isStale = false;
  /** @type {Promise<void>|null} */
  loading = null;

  constructor(/** @type {Place|null} */ parent, /** @type {Child} */ child) {
    this.parent = parent;
    this.child = child;
    this.path = parent ? below(parent.path, child.key) : child.key;
    this.level = parent ? parent.level + 1 : 1;
    this.value = h("span", { class: "value" });
    this.row = h("div", { role: "treeitem", class: "place", tabindex: -1, "aria-level": this.level, "aria-selected": "false" },
      h("span", { class: "twist", "aria-hidden": "true" }), h("span", { class: "key" }, child.key), this.value);
    this.group = h("ul", { role: "group" });
    this.item = h("li", { role: "none" }, this.row, this.group);
    this.item.style.setProperty("--level", String(this.level));
    this.more = h("li", { role: "none", class: "note" });
    this.draw();
  }

  /** Shows the state in the row. */
  draw() {
    const { row, child, value } = this;
    const text = summary(child);
    if (value.textContent !== text) {
      if (value.dataset.kind) flash(row);
      value.textContent = text;
    }
    value.dataset.kind = isBranch(child) ? "branch" : typeof child.value;
    if (isBranch(child)) row.setAttribute("aria-expanded", String(this.isOpen));
    else row.removeAttribute("aria-expanded");
    this.group.hidden = !this.isOpen;
  }

  /** Marks it as selected or not; the selected row is in the order of the Tab key. */
  mark(/** @type {boolean} */ isSelected) {
    this.row.tabIndex = isSelected ? 0 : -1;
    this.row.setAttribute("aria-selected", String(isSelected));
  }

  /** Puts the rows of the children in order, and moves only those that are not in their places. */
  arrange(/** @type {boolean} */ hasMore) {
    const items = [...this.children.values()].map((child) => child.item);
    if (hasMore || !items.length) items.push(this.more);
    const kept = new Set(items);
    for (const item of [...this.group.children]) if (!kept.has(/** @type {any} */ (item))) item.remove();
    items.forEach((item, index) => {
      if (this.group.children[index] !== item) this.group.insertBefore(item, this.group.children[index] ?? null);
    });
  }

  /** @returns {Place[]} it and all that are shown below it */
  all() {
    return [this, ...[...this.children.values()].flatMap((child) => child.all())];
  }
}

/** Events: `select`, of another place; `load`, when places were read again; `edit` and `remove`, by the keyboard. */
export class Tree extends EventTarget {
  #timer = 0;
  /** @type {Set<string>} the paths of changes since the last reading */
  #touched = new Set();
  #isClosed = false;

  constructor(/** @type {import("../shared/line.js").Line} */ line, /** @type {string} */ path) {
    super();
    this.line = line;
    this.root = this.selected = this.#place(null, { key: path, children: 0 });
    this.root.isOpen = true;
    // The first number of children is no change.
    delete this.root.value.dataset.kind;
    this.element = h("ul", { role: "tree", class: "tree", "aria-label": `Data at ${path}`,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#press(event) }, this.root.item);
  }

  /** Stops all work. */
  close() {
    clearTimeout(this.#timer);
    this.#isClosed = true;
  }

  /** Reads the open places again that a change at a path concerns, but not too often. */
  touch(/** @type {string} */ path) {
    this.#touched.add(path);
    this.#timer ||= setTimeout(() => {
      const touched = [...this.#touched];
      this.#touched.clear();
      this.#timer = 0;
      for (const place of this.root.all()) {
        const isTouched = touched.some((each) => isWithin(each, place.path) || isWithin(place.path, each));
        if (isTouched && (place.isOpen || place === this.root)) this.load(place);
      }
    }, refreshMilliseconds);
  }

  select(/** @type {Place} */ place) {
    this.selected.mark(false);
    this.selected = place;
    place.mark(true);
    this.dispatchEvent(new Event("select"));
  }

  /** Reads the children of a place that is open. */
  load(/** @type {Place} */ place) {
    place.isStale = true;
    place.loading ??= this.#read(place).finally(() => { place.loading = null; });
    return place.loading;
  }

  #place(/** @type {Place|null} */ parent, /** @type {Child} */ child) {
    const place = new Place(parent, child);
    place.row.addEventListener("click", (event) => {
      if (event.target === place.row.firstChild && place.isOpen) return this.#fold(place);
      this.select(place);
      place.row.focus();
      this.#unfold(place);
    });
    return place;
  }

  #unfold(/** @type {Place} */ place) {
    if (place.isOpen || !isBranch(place.child)) return;
    place.isOpen = true;
    place.draw();
    this.load(place);
  }

  #fold(/** @type {Place} */ place) {
    place.isOpen = false;
    if (this.selected !== place && isWithin(this.selected.path, place.path)) this.select(place);
    place.children.clear();
    clear(place.group);
    place.limit = page;
    place.draw();
  }

  async #read(/** @type {Place} */ place) {
    if (!place.children.size) {
      clear(place.more, h("span", { role: "status" }, "Loading …"));
      place.arrange(true);
    }
    try {
      while (place.isStale && (place.isOpen || place === this.root) && !this.#isClosed) {
        place.isStale = false;
        const reply = await readKeys(this.line, place.path, place.limit);
        if ((place.isOpen || place === this.root) && !this.#isClosed) this.#take(place, reply);
      }
      this.dispatchEvent(new Event("load"));
    } catch (error) {
      place.isStale = false;
      place.children.clear();
      clear(place.more, sentence(error), button("Try again", () => this.load(place)));
      place.arrange(true);
    }
  }

  /** Makes the children of a place those of a reply. */
  #take(/** @type {Place} */ place, /** @type {Awaited<ReturnType<readKeys>>} */ { self, children, hasMore }) {
    if (place === this.root) {
      place.isOpen = isBranch(self) && (place.isOpen || !isBranch(place.child));
      place.child = self;
      if (!place.isOpen) children = [];
    }
    const before = place.children;
    place.children = new Map(children.map((child) => {
      const known = before.get(child.key);
      const shown = known ?? this.#place(place, child);
      shown.child = child;
      if (!isBranch(child) && shown.isOpen) this.#fold(shown);
      shown.draw();
      if (!known && before.size) flash(shown.row);
      return [child.key, shown];
    }));
    const gone = [...before.values()].find((child) => !place.children.has(child.child.key) && isWithin(this.selected.path, child.path));
    const hadFocus = gone?.item.contains(document.activeElement);
    const hint = hasMore ? button(`Show ${page} more of ${count((self.children ?? 0) - children.length)}`, () => this.#more(place)) : "No children.";
    if (place.more.textContent !== (typeof hint === "string" ? hint : hint.textContent)) clear(place.more, hint);
    place.arrange(hasMore);
    place.draw();
    if (gone) this.select(place);
    if (hadFocus) place.row.focus();
  }

  async #more(/** @type {Place} */ place) {
    const shown = place.children.size;
    place.limit += page;
    await this.load(place);
    [...place.children.values()][shown]?.row.focus();
  }

  #press(/** @type {KeyboardEvent} */ event) {
    const places = this.root.all();
    const index = places.findIndex(({ row }) => row === event.target);
    const place = places[index];
    if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
    const go = (/** @type {Place|null|undefined} */ next) => {
      if (next) this.select(next);
      next?.row.focus();
    };
    const actions = /** @type {Record<string, () => unknown>} */ ({
      ArrowDown: () => go(places[index + 1]),
      ArrowUp: () => go(places[index - 1]),
      ArrowRight: () => (place.isOpen ? go(places[index + 1]) : this.#unfold(place)),
      ArrowLeft: () => (place.isOpen ? this.#fold(place) : go(place.parent)),
      Home: () => go(places[0]),
      End: () => go(places.at(-1)),
      Enter: () => this.dispatchEvent(new Event("edit")),
      Delete: () => this.dispatchEvent(new Event("remove")),
    });
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  }
}
