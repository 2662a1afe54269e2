import { plural } from "/shared/basics.js";
import { arrange, button, h } from "/shared/elements.js";
import { announce } from "./notices.js";
import { PagedList } from "./paged-list.js";
import { line } from "./session.js";
import { failed, skeletons } from "./states.js";

/** The distance from its beginning, in pixels, up to which a list counts as being read from there. */
const topMax = 120;
/** The most new entries that slide in together, and the pause in which more of them gather. */
const [slidesMax, gatherMilliseconds] = [3, 500];
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** A list that changes while it is read. Counts change in place. New entries slide in if the reader is at the
 * beginning; otherwise they wait behind a button, so that the text under the reader's eyes does not move. */
export class ListView {
  #options; #list;
  /** @type {Map<string, Item>} the entries that are shown */ #items = new Map();
  /** @type {Map<string, Subscription>} those of entries behind the live window */ #followed = new Map();
  /** @type {Set<Element>} */ #visible = new Set();
  #state = "loading";
  /** @type {Timer} the time at which gathered entries are shown */ #gathering;
  #ol = h("ol.list");
  #foot = h("div.list-foot", skeletons(3));
  #fresh = button("", () => this.#showFresh(), { class: "button fresh", hidden: true });
  #seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      this.#visible[isIntersecting ? "add" : "delete"](target);
      this.#follow(target);
    }
  });
  #begin = new IntersectionObserver(([entry]) => entry.isIntersecting && this.show());
  #end = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#more(), { rootMargin: "800px" });

  constructor(/** @type {ListOptions} */ options) {
    this.#options = options;
    const begin = h("div");
    this.#begin.observe(begin);
    this.content = h("div.list-view", this.#fresh, begin, this.#ol, this.#foot);
    this.#list = new PagedList(options, {
      change: (change) => this.#change(change), end: (error) => this.#become("ended", failed(error)),
    });
  }

  close() {
    clearTimeout(this.#gathering);
    for (const observer of [this.#seen, this.#begin, this.#end]) observer.disconnect();
    for (const subscription of [this.#list, ...this.#followed.values()]) subscription.close();
  }

  /** The view, or the beginning of the list, is on the screen again. */
  show() { if (this.#list.isLoaded) this.#change({ isDue: true }); }

  /** `isDue`: whether entries that have gathered are shown now. */
  #change({ isReset = false, isOlder = false, isDue = false }) {
    const list = this.#list;
    for (const [key, item] of this.#items) {
      const data = list.get(key);
      if (data && data !== item.data) item.update((item.data = data));
      item.element.classList.toggle("gone", !data);
      item.element.inert = !data;
    }
    const added = list.allKeys.filter((key) => !this.#items.has(key));
    const isFirst = this.#items.size === 0;
    const isAtTop = this.content.isConnected && this.content.getBoundingClientRect().top > -topMax;
    if (!isFirst && !isAtTop) this.#hold(list.allKeys);
    else {
      if (!isOlder) list.trim();
      // A flood would keep the page busy if each frame showed all that are new.
      if (isFirst || isReset || isOlder || isDue || (added.length <= slidesMax && !this.#gathering)) {
        this.#arrange(!isFirst && !isReset && !isOlder);
      } else this.#gathering ??= setTimeout(() => this.show(), gatherMilliseconds);
      if (!isFirst && !isOlder && added.length === 1) {
        announce(`New ${this.#options.noun} by ${list.get(added[0])?.author}`);
      }
    }
    this.#showEnd();
    for (const element of this.#visible) this.#follow(element);
    if (list.allKeys.length > 0) this.#options.onchange?.(list.get(list.allKeys[0]));
  }

  #arrange(isAnimated) {
    clearTimeout(this.#gathering);
    this.#gathering = undefined;
    const keys = this.#list.allKeys;
    const places = isAnimated && !calm.matches ? this.#places() : null;
    const present = new Set(keys);
    for (const key of this.#items.keys()) if (!present.has(key)) this.#items.delete(key);
    arrange(this.#ol, keys.map((key) => this.#element(key)));
    this.#fresh.hidden = true;
    if (places) this.#slide(places);
  }

  /** Appends the entries behind the last one that is shown, and counts those before it. */
  #hold(keys) {
    const last = keys.findLastIndex((key) => this.#items.has(key));
    const count = keys.slice(0, last + 1).filter((key) => !this.#items.has(key)).length;
    this.#ol.append(...keys.slice(last + 1).map((key) => this.#element(key)));
    this.#fresh.hidden = count === 0;
    const { noun } = this.#options;
    this.#fresh.textContent = this.#list.hasGap ? `Many new ${noun}s` : plural(count, `new ${noun}`);
  }

  #showFresh() {
    this.#list.trim();
    this.#arrange(false);
    this.content.scrollIntoView();
    this.#ol.querySelector("a")?.focus({ preventScroll: true });
  }

  #element(key) {
    const known = this.#items.get(key);
    if (known) return known.element;
    const data = this.#list.get(key);
    const item = { data, ...this.#options.item(key, data) };
    item.update(data);
    item.element.dataset.key = key;
    this.#items.set(key, item);
    this.#seen.observe(item.element);
    return item.element;
  }

  #places() {
    const top = (element) => element.getBoundingClientRect().top;
    const visible = [...this.#ol.children].filter((element) => top(element) <= innerHeight);
    return new Map(visible.map((element) => [element, top(element)]));
  }

  /** Moves the entries smoothly from their old places to the new ones. */
  #slide(before) {
    for (const [element, top] of this.#places()) {
      const old = before.get(element);
      if (old === top) continue;
      const frames = old === undefined ? { opacity: [0, 1], transform: ["translateY(-1rem)", "none"] }
        : { transform: [`translateY(${old - top}px)`, "none"] };
      element.animate(frames, { duration: 260, easing: "cubic-bezier(.2,.7,.2,1)" });
    }
  }

  /** Watches an entry that the list itself does not, while it is on the screen. */
  #follow(target) {
    const { key } = target.dataset;
    const isNeeded = this.#visible.has(target) && !this.#list.isLive(key);
    const request = isNeeded && this.#options.follow?.(key);
    const subscription = this.#followed.get(key);
    if (request && !subscription) {
      const change = ({ events }) => this.#list.update(key, events.at(-1)?.data);
      this.#followed.set(key, line.subscribe(request, { change, end: () => this.#list.update(key, null) }));
    } else if (!request) {
      subscription?.close();
      this.#followed.delete(key);
    }
  }

  async #more(from = "idle") {
    if (this.#state !== from) return;
    this.#become("fetching", skeletons(1));
    try {
      await this.#list.more();
      this.#state = "idle";
      this.#showEnd();
    } catch (error) {
      this.#become("failed", failed(error, () => this.#more("failed")));
    }
  }

  #showEnd() {
    if (!["loading", "idle"].includes(this.#state)) return;
    this.#end.disconnect();
    const { noun, empty } = this.#options;
    const finished = () => this.#items.size === 0 ? empty() : h("p.finished", `No more ${noun}s`);
    this.#become("idle", this.#list.hasMore ? skeletons(1) : finished());
    // An observer reports the first state, too: a page that is shorter than the screen fetches the next.
    if (this.#list.hasMore) this.#end.observe(this.#foot);
  }

  /** Shows another foot: one that moves would count as a shift of the layout. */
  #become(state, ...parts) {
    const before = this.#foot;
    [this.#state, this.#foot] = [state, h("div.list-foot", parts)];
    before.replaceWith(this.#foot);
  }
}
