/**
 * A view of the page.
 * @typedef {{ title: string, content: Element, close?: () => void, show?: () => void }} View
 *
 * `show` is called each time the view is on the screen, `close` when it is forgotten.
 */

/** The views behind and ahead of the present one that stay as they are. */
const keptMax = 6;

/** Shows the view of the address, and keeps the views of the history, so that the back button returns to the place. */
class Router {
  /** @type {[RegExp, (...parts: string[]) => View][]} */
  #routes = [];
  /** @type {Map<string, { path: string, view: View, scroll: number }>} by the key of the entry in the history */
  #kept = new Map();
  #key = "";
  /** The path of the last view, to which the reader returns after logging in. */
  origin = "/";
  /** @type {() => void} */
  onchange = () => {};

  /**
   * @param {Record<string, (...parts: string[]) => View>} routes by path; `:` stands for one part, and the last is for all others
   */
  start(routes) {
    this.#routes = Object.entries(routes).map(([path, view]) => [
      new RegExp(`^${path.replaceAll(":", "([^/]+)")}/?$`), view,
    ]);
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.#show(true));
    document.addEventListener("click", (event) => this.#follow(event));
    this.#show(false);
  }

  /** Goes to a path of the page. */
  go(/** @type {string} */ path, { replace = false } = {}) {
    if (replace) history.replaceState(null, "", path);
    else history.pushState(null, "", path);
    this.#show(true);
  }

  /** Builds the present view again, and forgets the others. */
  renew() {
    for (const key of this.#kept.keys()) this.#forget(key);
    this.#show(false);
  }

  #follow(/** @type {MouseEvent} */ event) {
    const link = /** @type {Element} */ (event.target).closest?.("a");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.origin !== location.origin) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    this.go(link.pathname);
  }

  #leave() {
    const present = this.#kept.get(this.#key);
    if (present) present.scroll = scrollY;
  }

  #show(/** @type {boolean} */ isMove) {
    this.#leave();
    const path = location.pathname;
    if (!path.startsWith("/sign")) this.origin = path;
    this.#key = history.state?.key ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
    history.replaceState({ key: this.#key }, "");
    let entry = this.#kept.get(this.#key);
    if (entry?.path !== path) {
      if (entry) this.#forget(this.#key);
      entry = { path, view: this.#view(path), scroll: 0 };
    }
    this.#kept.delete(this.#key);
    this.#kept.set(this.#key, entry);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > keptMax) this.#forget(oldest);

    const main = /** @type {HTMLElement} */ (document.getElementById("main"));
    main.replaceChildren(entry.view.content);
    document.title = entry.view.title === "Canopy" ? "Canopy" : `${entry.view.title} · Canopy`;
    scrollTo(0, entry.scroll);
    // A screen reader begins at the heading of the new view.
    if (isMove) (main.querySelector("h1") ?? main).focus({ preventScroll: true });
    entry.view.show?.();
    this.onchange();
  }

  #forget(/** @type {string} */ key) {
    this.#kept.get(key)?.view.close?.();
    this.#kept.delete(key);
  }

  /** @returns {View} */
  #view(/** @type {string} */ path) {
    for (const [pattern, view] of this.#routes) {
      const match = pattern.exec(path);
      if (match) return view(...match.slice(1).map(decoded));
    }
    throw new Error("the last route takes every path");
  }
}

/** An address that a person has changed may be malformed; then there is nothing at it. */
function decoded(/** @type {string} */ part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const router = new Router();
