// Shows the view of the address. It keeps those of the history, so that Back returns to the place.
import { decoded } from "/shared/basics.js";
import { byId } from "/shared/elements.js";

const keptMax = 6; // The views behind and ahead of the present one that stay as they are.
/** @type {[RegExp, (...parts: string[]) => View][]} */ let routes = [];
/** @type {Map<string, { path: string, view: View, scroll: number }>} by key of the history */ const kept = new Map();
let key = "";
let report = () => {};
export let origin = "/"; // The path of the last view, to which the reader returns after logging in.

/** @param {Record<string, (...parts: string[]) => View>} views by path; `:` is one part, `.*` all */
export function start(views, onchange) {
  report = onchange;
  routes = Object.entries(views).map(([path, view]) => [new RegExp(`^${path.replaceAll(":", "([^/]+)")}/?$`), view]);
  history.scrollRestoration = "manual";
  addEventListener("popstate", () => show(true));
  document.addEventListener("click", follow);
  show(false);
}

export function go(/** @type {string} */ path, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", path);
  show(true);
}

/** Builds the present view again, and forgets the others. */
export function renew() {
  for (const key of kept.keys()) forget(key);
  show(false);
}

export function rename(/** @type {View} */ view, /** @type {string} */ title) {
  view.title = title;
  if (view.content.isConnected) document.title = `${title} · Canopy`;
}

function follow(event) {
  const link = event.target.closest?.("a");
  const hasKey = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  const isOurs = link?.origin === location.origin && !link.pathname.startsWith("/console");
  if (event.button !== 0 || event.defaultPrevented || hasKey || !isOurs) return;
  if (link.hash && link.pathname === location.pathname) return;
  event.preventDefault();
  go(link.pathname);
}

function show(isMove) {
  const present = kept.get(key);
  if (present) present.scroll = scrollY;
  const path = location.pathname;
  if (!path.startsWith("/sign")) origin = path;
  key = history.state?.key ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
  history.replaceState({ key }, "");
  let entry = kept.get(key);
  if (entry?.path !== path) {
    forget(key);
    entry = { path, view: viewAt(path), scroll: 0 };
  }
  kept.delete(key);
  kept.set(key, entry);
  if (kept.size > keptMax) forget([...kept.keys()][0]);

  const main = byId("main");
  main.replaceChildren(entry.view.content);
  rename(entry.view, entry.view.title);
  scrollTo(0, entry.scroll);
  // A screen reader begins at the heading of the new view.
  if (isMove) (main.querySelector("h1") ?? main).focus({ preventScroll: true });
  entry.view.show?.();
  report();
}

function forget(key) {
  kept.get(key)?.view.close?.();
  kept.delete(key);
}

/** @returns {View} */
function viewAt(path) {
  const [pattern, view] = routes.find(([pattern]) => pattern.test(path)) ?? routes[0];
  return view(...(pattern.exec(path) ?? []).slice(1).map(decoded));
}
