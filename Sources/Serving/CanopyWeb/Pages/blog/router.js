// Shows the view of the address. It keeps those of the history, so that Back returns to the place.
import { decoded } from "/shared/basics.js";
import { byId } from "/shared/elements.js";

const keptMax = 6; // The views behind and ahead of the present one that stay as they are.
/** @type {[RegExp, (...parts: string[]) => View][]} */ let routes = [];
/** @type {Map<string, { path: string, view: View }>} by key of the history */ const kept = new Map();
let key = "";
let goal = 0; // The place of the present view to which the page scrolls when the view is high enough.
const growth = new ResizeObserver(scrollToGoal);
let report = () => {};

/** @param {Record<string, (...parts: string[]) => View>} views by path; `:` is one part, `.*` all */
export function start(views, onchange) {
  report = onchange;
  routes = Object.entries(views).map(([path, view]) => [new RegExp(`^${path.replaceAll(":", "([^/]+)")}/?$`), view]);
  history.scrollRestoration = "manual";
  addEventListener("scrollend", keepPlace);
  for (const type of ["wheel", "touchstart", "mousedown", "keydown"]) addEventListener(type, () => growth.disconnect());
  addEventListener("popstate", () => show(true));
  document.addEventListener("click", follow);
  show(false);
}

export function go(/** @type {string} */ path, { replace = false } = {}) {
  keepPlace();
  if (replace) history.replaceState({ behind: history.state?.behind }, "", path);
  else history.pushState({ behind: location.pathname }, "", path);
  show(true);
}

/** Leaves the view with an element for a path, if it is still shown. Otherwise it is built again when it is. */
export function leave(/** @type {Element} */ element, /** @type {string} */ path) {
  if (element.isConnected) {
    if (history.state?.behind !== path) return go(path, { replace: true });
    forget(key);
    return history.back();
  }
  for (const [key, { view }] of kept) if (view.content.contains(element)) forget(key);
}

/** Returns from the views that log in to the one before them. */
export function leaveEntrance() {
  if (!isEntrance(location)) return;
  if (history.state?.behind) history.back();
  else go("/", { replace: true });
}

/** Builds the present view again, and forgets the others. */
export function renew() {
  for (const key of kept.keys()) forget(key);
  show(byId("main").contains(document.activeElement));
}

const isEntrance = ({ pathname }) => pathname.startsWith("/sign");

export function rename(/** @type {View} */ view, /** @type {string} */ title) {
  view.title = title;
  if (view.content.isConnected) document.title = `${title} · Canopy`;
}

function follow(event) {
  const link = event.target.closest?.("a");
  const hasKey = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  const isOurs = link?.origin === location.origin && !link.pathname.startsWith("/console");
  if (event.button !== 0 || event.defaultPrevented || hasKey || !isOurs) return;
  event.preventDefault();
  if (link.hash && link.pathname === location.pathname) return byId(link.hash.slice(1))?.focus();
  // One of the views that log in takes the place of another, so that the view before them stays the one behind.
  go(link.pathname, { replace: isEntrance(link) && isEntrance(location) });
}

function show(isMove) {
  const path = location.pathname;
  key = history.state?.key ?? crypto.getRandomValues(new Uint32Array(2)).join("-");
  history.replaceState({ ...history.state, key }, "");
  let entry = kept.get(key);
  if (entry?.path !== path) {
    forget(key);
    entry = { path, view: viewAt(path) };
  }
  kept.delete(key);
  kept.set(key, entry);
  if (kept.size > keptMax) forget([...kept.keys()][0]);

  const main = byId("main");
  main.replaceChildren(entry.view.content);
  rename(entry.view, entry.view.title);
  goal = history.state.scroll ?? 0;
  growth.observe(main);
  scrollToGoal();
  // A screen reader begins at the heading of the new view.
  if (isMove) (main.querySelector("h1") ?? main).focus({ preventScroll: true });
  entry.view.show?.();
  report();
}

/** Remembers the place in the present view, so that Back and a reload return to it. */
function keepPlace() { history.replaceState({ ...history.state, scroll: scrollY }, ""); }

function scrollToGoal() {
  scrollTo(0, goal);
  if (scrollY >= goal - 1) growth.disconnect();
}

function forget(key) { kept.get(key)?.view.close?.(); kept.delete(key); }

/** @returns {View} */
function viewAt(path) {
  const [pattern, view] = routes.find(([pattern]) => pattern.test(path)) ?? routes[0];
  return view(...(pattern.exec(path) ?? []).slice(1).map(decoded));
}
