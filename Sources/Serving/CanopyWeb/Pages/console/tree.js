// The tree of the Data view: children in pages, live, usable with the keyboard.
import { count, gathered } from "/shared/basics.js";
import { arrange, button, clear, h } from "/shared/elements.js";
import { below, isBranch, isOnWay, isWithin, summary } from "./format.js";
import { flash, sentence } from "./parts.js";

const [pageSize, pageMax] = [100, 1_000];

/** A location with its row, and its children if it is open. */
export class Place {
  /** @type {Map<string, Place>} the children that are shown, in order */ children = new Map();
  limit = pageSize;
  isOpen = false;
  isStale = false;
  /** @type {Promise<void> | undefined} */ loading;
  twist = h("span.twist", { "aria-hidden": "true" });
  value = h("span.value");
  group = h("ul", { role: "group" });
  more = h("li.note", { role: "none" });

  constructor(/** @type {Place | null} */ parent, /** @type {Child} */ child) {
    this.parent = parent;
    /** Whether the server has described it. If not, its first description is no change. */
    this.isKnown = parent !== null;
    this.child = child;
    /** @type {string} */ this.path = parent ? below(parent.path, child.key) : child.key;
    /** @type {number} */ this.level = parent ? parent.level + 1 : 1;
    const attributes = { role: "treeitem", tabindex: -1, "aria-level": this.level };
    this.row = h("div.place", attributes, this.twist, h("span.key", child.key), this.value);
    this.item = h("li", { role: "none" }, this.row, this.group);
    this.item.style.setProperty("--level", String(this.level));
  }

  /** Shows the state in the row. Only the selected row is in the order of the Tab key. */
  draw(isSelected, child = this.child) {
    const { row, value } = this;
    this.child = child;
    const text = summary(child);
    if (this.isKnown && value.textContent && value.textContent !== text) flash(row);
    value.textContent = text;
    value.dataset.kind = isBranch(child) ? "branch" : typeof child.value;
    row.ariaExpanded = isBranch(child) ? String(this.isOpen) : null;
    row.ariaSelected = String(isSelected);
    row.tabIndex = isSelected ? 0 : -1;
    this.group.hidden = !this.isOpen;
  }

  /** Shows the children in order, and perhaps the note behind them. */
  arrange(hasMore) {
    const items = [...this.children.values()].map((child) => child.item);
    arrange(this.group, hasMore || items.length === 0 ? [...items, this.more] : items);
  }

  /** Returns it and all that are shown below it. @returns {Place[]} */
  all() { return [this, ...[...this.children.values()].flatMap((child) => child.all())]; }
}

/** A tree beside an inspector, which shows the selected place. */
export class Tree {
  /** @type {Set<string>} the paths of changes since the last reading */ #touched = new Set();
  #isClosed = false;
  #line; #inspector;
  #refresh = gathered(400, () => {
    const touched = [...this.#touched];
    this.#touched.clear();
    for (const place of this.root.all()) {
      if (this.#isNeeded(place) && touched.some((path) => isOnWay(path, place.path))) this.load(place);
    }
  });

  constructor(/** @type {Line} */ line, /** @type {string} */ path, /** @type {Inspector} */ inspector) {
    [this.#line, this.#inspector] = [line, inspector];
    this.root = this.selected = new Place(null, { key: path, children: 0 });
    this.root.isOpen = true;
    const listeners = { onclick: (event) => this.#click(event), onkeydown: (event) => this.#press(event) };
    this.element = h("ul.tree", { role: "tree", "aria-label": `Data at ${path}` }, listeners, this.root.item);
  }

  close() { this.#isClosed = true; }

  /** Reads the open places that a change at a path concerns, but not too often. */
  touch(path) {
    this.#touched.add(path);
    this.#refresh();
    this.#inspector.touch(path);
  }

  select(/** @type {Place} */ place, hasFocus = false) {
    const before = this.selected;
    this.selected = place;
    before.draw(false);
    place.draw(true);
    if (hasFocus) place.row.focus();
    this.#inspector.show(place);
  }

  load(/** @type {Place} */ place) {
    place.isStale = true;
    place.loading ??= this.#read(place).finally(() => (place.loading = undefined));
    return place.loading;
  }

  /** Whether the children of a place are to be shown. */
  #isNeeded(place) { return (place.isOpen || place === this.root) && !this.#isClosed; }

  #unfold(place) {
    if (place.isOpen || !isBranch(place.child)) return;
    place.isOpen = true;
    place.draw(place === this.selected);
    this.load(place);
  }

  #fold(place) {
    if (this.selected !== place && isWithin(this.selected.path, place.path)) this.select(place);
    place.isOpen = false;
    place.children.clear();
    clear(place.group);
    place.limit = pageSize;
    place.draw(place === this.selected);
  }

  async #read(place) {
    if (place.children.size === 0) {
      clear(place.more, h("span", { role: "status" }, "Loading …"));
      place.arrange(true);
    }
    try {
      while (place.isStale && this.#isNeeded(place)) {
        place.isStale = false;
        const reply = await this.#ask(place);
        if (this.#isNeeded(place)) this.#take(place, reply);
      }
      if (!this.#isClosed) this.#inspector.show(this.selected);
    } catch (error) {
      place.isStale = false;
      clear(place.more, sentence(error), button("Try again", () => this.load(place)));
      place.arrange(true);
    }
  }

  async #ask({ path, limit }) {
    const children = [];
    let reply;
    do {
      const after = children.length > 0 ? { after: children.at(-1).key } : {};
      const rest = Math.min(pageMax, limit - children.length);
      reply = await this.#line.read("KEYS", path, { limit: rest, ...after });
      children.push(...reply.children);
    } while (reply.more && reply.children.length > 0 && children.length < limit);
    const { count: number, value = null, bytes, more } = reply;
    const self = number > 0 ? { key: path, children: number } : { key: path, value, bytes };
    return { self, children, hasMore: Boolean(more) };
  }

  #take(place, { self, children, hasMore }) {
    if (place === this.root) {
      place.isOpen = isBranch(self) && (place.isOpen || !isBranch(place.child));
      if (!place.isOpen) children = [];
    }
    const before = place.children;
    place.children = new Map(children.map((child) => {
      const known = before.get(child.key);
      const shown = known ?? new Place(place, child);
      if (!isBranch(child) && shown.isOpen) this.#fold(shown);
      shown.draw(shown === this.selected, child);
      if (!known && before.size > 0) flash(shown.row);
      return [child.key, shown];
    }));
    const gone = [...before.values()].find((child) =>
      !place.children.has(child.child.key) && isWithin(this.selected.path, child.path));
    const hadFocus = [gone?.item, this.#inspector.element].some((it) => it?.contains(document.activeElement));
    const text = `Show ${pageSize} more of ${count((self.children ?? 0) - children.length)}`;
    // A button that stays keeps the focus.
    if (!hasMore) clear(place.more, "No children.");
    else if (place.more.textContent !== text) clear(place.more, button(text, () => this.#more(place)));
    place.arrange(hasMore);
    place.draw(place === this.selected, place === this.root ? self : place.child);
    place.isKnown = true;
    if (gone) this.select(place, hadFocus);
  }

  async #more(place) {
    const shown = place.children.size;
    place.limit += pageSize;
    await this.load(place);
    [...place.children.values()][shown]?.row.focus();
  }

  #of(target) { return this.root.all().find(({ row }) => row.contains(target)); }

  #click({ target }) {
    const place = this.#of(target);
    if (!place) return;
    if (target === place.twist && place.isOpen) return this.#fold(place);
    this.select(place, true);
    this.#unfold(place);
  }

  #press(event) {
    const place = this.#of(event.target);
    if (!place || event.ctrlKey || event.metaKey || event.altKey) return;
    const places = this.root.all();
    const index = places.indexOf(place);
    const go = (next) => next && this.select(next, true);
    const action = {
      ArrowDown: () => go(places[index + 1]), ArrowUp: () => go(places[index - 1]),
      ArrowRight: () => (place.isOpen ? go(places[index + 1]) : this.#unfold(place)),
      ArrowLeft: () => (place.isOpen ? this.#fold(place) : go(place.parent)),
      Home: () => go(places[0]), End: () => go(places.at(-1)),
      Enter: () => this.#inspector.focus(), Delete: () => this.#inspector.remove(),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
