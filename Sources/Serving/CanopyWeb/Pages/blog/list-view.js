import { clear, element } from "/shared/dom.js";
import { failed, finished, skeletons } from "./states.js";
import { announce } from "./notices.js";
import { line } from "./session.js";
import { PagedList } from "./paged-list.js";

/** The distance from its beginning, in pixels, up to which a list counts as being read from there. */
const topMax = 120;
/** The most new entries that slide in together, and the pause in which more of them gather. */
const slidesMax = 3;
const gatherMilliseconds = 500;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * The element of an entry, which can show another version of it.
 * @typedef {{ element: HTMLElement, update: (data: any) => void }} Item
 *
 * @typedef {object} Options
 * @property {string[]} request the list, such as `["POSTS", uid]`
 * @property {(a: [string, any], b: [string, any]) => boolean} isBefore the order of two entries with their keys
 * @property {(key: string, data: any) => Item} item
 * @property {() => Element} empty stands for a list without entries
 * @property {[string, string]} nouns such as "post" and "posts"
 * @property {(key: string) => any[] | null} follow the request that watches one entry behind the live window
 * @property {(first: any) => void} [onchange] called with the first entry after each change
 */

/**
 * A list that changes while it is read.
 *
 * Counts change in place. New entries slide in if the reader is at the beginning; otherwise they wait behind a button,
 * so that the text under the reader's eyes does not move.
 */
export class ListView {
  #options;
  #list;
  /** @type {Map<string, Item>} */
  #items = new Map();
  /** @type {Map<string, import("/shared/subscription.js").Subscription>} */
  #followed = new Map();
  /** @type {Set<HTMLElement>} */
  #visible = new Set();
  #state = "loading";
  /** @type {ReturnType<typeof setTimeout> | undefined} the time at which gathered entries are shown */
  #gathering;
  #ol = element("ol", { class: "list" });
  #foot = element("div", { class: "list-foot" }, ...skeletons(3));
  #fresh = element("button", { class: "button fresh", type: "button", hidden: true, onclick: () => this.#showFresh() });
  #seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      this.#visible[isIntersecting ? "add" : "delete"](/** @type {HTMLElement} */ (target));
      this.#follow(/** @type {HTMLElement} */ (target));
    }
  });
  #begin = new IntersectionObserver(([entry]) => entry.isIntersecting && this.show());
  #end = new IntersectionObserver(([entry]) => entry.isIntersecting && this.#more(), { rootMargin: "800px" });

  /** @param {Options} options */
  constructor(options) {
    this.#options = options;
    const begin = element("div", {});
    this.#begin.observe(begin);
    this.content = element("div", { class: "list-view" }, this.#fresh, begin, this.#ol, this.#foot);
    this.#list = new PagedList(options.request, options.isBefore);
    this.#list.addEventListener("change", (event) => this.#change(/** @type {CustomEvent} */ (event).detail));
    this.#list.addEventListener("end", (event) => {
      this.#become("ended", failed(/** @type {CustomEvent} */ (event).detail));
    });
  }

  close() {
    this.#list.close();
    clearTimeout(this.#gathering);
    this.#seen.disconnect();
    this.#begin.disconnect();
    this.#end.disconnect();
    for (const subscription of this.#followed.values()) subscription.close();
  }

  /** The view, or the beginning of the list, is on the screen again. */
  show() {
    if (this.#list.isLoaded) this.#change({});
  }

  #change({ added = [], changed = [], removed = [], isReset = false, isOlder = false }) {
    for (const key of changed) this.#items.get(key)?.update(this.#list.get(key));
    const isFirst = this.#items.size === 0;
    if (isFirst || (this.content.isConnected && this.content.getBoundingClientRect().top > -topMax)) {
      if (!isOlder) this.#list.trim();
      if (isFirst || isReset || isOlder || added.length <= slidesMax) {
        if (!this.#gathering || isReset) this.#arrange(!isFirst && !isReset && !isOlder);
      } else this.#gathering ??= setTimeout(() => this.#gathered(), gatherMilliseconds);
      const [key] = added;
      if (!isFirst && !isOlder && added.length === 1) announce(`New ${this.#options.nouns[0]} by ${this.#list.get(key)?.author}`);
    } else {
      for (const key of removed) this.#items.get(key)?.element.classList.add("gone");
      this.#hold();
    }
    this.#showEnd();
    for (const element of this.#visible) this.#follow(element);
    const [first] = this.#list.keys;
    if (first) this.#options.onchange?.(this.#list.get(first));
  }

  /** Shows the entries of a flood, which would keep the page busy if each frame showed all that are new. */
  #gathered() {
    this.#gathering = undefined;
    this.show();
  }

  /** Shows the entries as the list has them. */
  #arrange(/** @type {boolean} */ isAnimated) {
    const keys = this.#list.keys;
    const places = isAnimated && !calm.matches ? this.#places() : null;
    const present = new Set(keys);
    for (const [key, { element }] of this.#items) {
      if (present.has(key)) continue;
      this.#seen.unobserve(element);
      this.#visible.delete(element);
      this.#follow(element);
      element.remove();
      this.#items.delete(key);
    }
    let next = this.#ol.firstElementChild;
    for (const key of keys) {
      const { element } = this.#item(key);
      if (element === next) next = next.nextElementSibling;
      else move(element, this.#ol, next);
    }
    this.#fresh.hidden = true;
    if (places) this.#slide(places);
  }

  /** Appends the entries behind the last one that is shown, and counts those before it. */
  #hold() {
    const keys = this.#list.keys;
    const last = keys.findLastIndex((key) => this.#items.has(key));
    const count = keys.slice(0, last + 1).filter((key) => !this.#items.has(key)).length;
    for (const key of keys.slice(last + 1)) this.#ol.append(this.#item(key).element);
    this.#fresh.hidden = count === 0;
    const [one, many] = this.#options.nouns;
    this.#fresh.textContent = this.#list.isTorn ? `Many new ${many}` : count === 1 ? `1 new ${one}` : `${count} new ${many}`;
  }

  #showFresh() {
    this.#list.trim();
    this.#arrange(false);
    this.content.scrollIntoView();
    this.#ol.querySelector("a")?.focus({ preventScroll: true });
  }

  #item(/** @type {string} */ key) {
    let item = this.#items.get(key);
    if (item) return item;
    item = this.#options.item(key, this.#list.get(key));
    item.element.dataset.key = key;
    this.#items.set(key, item);
    this.#seen.observe(item.element);
    return item;
  }

  // Movement

  /** Returns the places of the entries on the screen. */
  #places() {
    /** @type {Map<Element, number>} */
    const places = new Map();
    for (const element of this.#ol.children) {
      const { top } = element.getBoundingClientRect();
      if (top > innerHeight) break;
      places.set(element, top);
    }
    return places;
  }

  /** Has the entries glide from their old places to the new ones. */
  #slide(/** @type {Map<Element, number>} */ places) {
    for (const element of this.#ol.children) {
      const { top } = element.getBoundingClientRect();
      if (top > innerHeight) break;
      const before = places.get(element);
      const frames = before === undefined ? { opacity: [0, 1], transform: ["translateY(-1rem)", "none"] }
        : { transform: [`translateY(${before - top}px)`, "none"] };
      if (before !== top) element.animate(frames, { duration: 260, easing: "cubic-bezier(.2,.7,.2,1)" });
    }
  }

  // Entries behind the live window

  /** Watches an entry that the list itself does not, while it is on the screen. */
  #follow(/** @type {HTMLElement} */ target) {
    const key = target.dataset.key ?? "";
    const request = this.#visible.has(target) && !this.#list.isLive(key) && this.#options.follow(key);
    const subscription = this.#followed.get(key);
    if (!request) {
      subscription?.close();
      this.#followed.delete(key);
    } else if (!subscription) {
      const change = (/** @type {any} */ { events }) => this.#list.update(key, events.at(-1)?.data);
      this.#followed.set(key, line.subscribe(request, { change, end: () => this.#list.update(key, null) }));
    }
  }

  // The end of the list

  async #more() {
    if (this.#state !== "idle") return;
    this.#become("fetching", ...skeletons(1));
    try {
      await this.#list.more();
      this.#state = "idle";
      this.#showEnd();
    } catch (error) {
      this.#become("failed", failed(error, () => {
        this.#state = "idle";
        this.#more();
      }));
    }
  }

  #showEnd() {
    if (this.#state === "loading") this.#state = "idle";
    if (this.#state !== "idle") return;
    this.#end.disconnect();
    if (this.#list.hasMore) {
      this.#become("idle", ...skeletons(1));
      // An observer reports the first state, too: a page that is shorter than the screen fetches the next.
      this.#end.observe(this.#foot);
    } else this.#become("idle", this.#items.size === 0 ? this.#options.empty() : finished(this.#options.nouns[1]));
  }

  #become(/** @type {string} */ state, /** @type {Node[]} */ ...foot) {
    this.#state = state;
    clear(this.#foot, ...foot);
  }
}

/** Moves an element, if the browser can without taking the focus from it. */
function move(/** @type {Element} */ element, /** @type {any} */ parent, /** @type {Element | null} */ next) {
  if (element.isConnected && parent.moveBefore) parent.moveBefore(element, next);
  else parent.insertBefore(element, next);
}
