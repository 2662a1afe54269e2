/** The views behind and ahead of the present one that stay as they are. */
const keptMax = 6;

/** Shows the view of the address. It keeps those of the history, so that Back returns to the place. */
class Router {
  /** @type {[RegExp, (...parts: string[]) => View][]} */
  #routes = [];
  /** @type {Map<string, { path: string, view: View, scroll: number }>} by the keys of the history */
  #kept = new Map();
  #key = "";
  /** The path of the last view, to which the reader returns after logging in. */
  origin = "/";
  onchange = () => {};

  /** @param {Record<string, (...parts: string[]) => View>} routes by path; `:` is one part, `.*` all */
  start(routes) {
    this.#routes = Object.entries(routes).map(([path, view]) => [
      new RegExp(`^${path.replaceAll(":", "([^/]+)")}/?$`), view,
    ]);
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.#show(true));
    document.addEventListener("click", (event) => this.#follow(event));
    this.#show(false);
  }

  /** Goes to a path of the page. @param {string} path */
  go(path, { replace = false } = {}) {
    history[replace ? "replaceState" : "pushState"](null, "", path);
    this.#show(true);
  }

  /** Builds the present view again, and forgets the others. */
  renew() {
    for (const key of this.#kept.keys()) this.#forget(key);
    this.#show(false);
  }

  /** Gives a view another title. @param {View} view @param {string} title */
  rename(view, title) {
    view.title = title;
    if (view.content.isConnected) document.title = `${title} · Canopy`;
  }

  #follow(event) {
    const link = event.target.closest?.("a");
    const isPlain = event.button === 0 && !event.defaultPrevented
      && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    const isOurs = link?.origin === location.origin && !link.pathname.startsWith("/console");
    if (!isPlain || !isOurs || (link.hash && link.pathname === location.pathname)) return;
    event.preventDefault();
    this.go(link.pathname);
  }

  #show(isMove) {
    const present = this.#kept.get(this.#key);
    if (present) present.scroll = scrollY;
    const path = location.pathname;
    if (!path.startsWith("/sign")) this.origin = path;
    this.#key = history.state?.key ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
    history.replaceState({ key: this.#key }, "");
    let entry = this.#kept.get(this.#key);
    if (entry?.path !== path) {
      this.#forget(this.#key);
      entry = { path, view: this.#view(path), scroll: 0 };
    }
    this.#kept.delete(this.#key);
    this.#kept.set(this.#key, entry);
    if (this.#kept.size > keptMax) this.#forget([...this.#kept.keys()][0]);

    const main = /** @type {HTMLElement} */ (document.getElementById("main"));
    main.replaceChildren(entry.view.content);
    this.rename(entry.view, entry.view.title);
    scrollTo(0, entry.scroll);
    // A screen reader begins at the heading of the new view.
    if (isMove) (main.querySelector("h1") ?? main).focus({ preventScroll: true });
    entry.view.show?.();
    this.onchange();
  }

  #forget(key) {
    this.#kept.get(key)?.view.close?.();
    this.#kept.delete(key);
  }

  /** @returns {View} */
  #view(path) {
    for (const [pattern, view] of this.#routes) {
      const match = pattern.exec(path);
      if (match) return view(...match.slice(1).map(decoded));
    }
    throw new Error("the last route takes every path");
  }
}

/** An address that a person has changed may be malformed; then there is nothing at it. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const router = new Router();
