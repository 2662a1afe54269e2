import { element } from "/shared/dom.js";
import { ListView } from "./list-view.js";
import { avatar } from "./people.js";
import { postCard } from "./post-card.js";
import { line, session } from "./session.js";
import { empty, failed, heading } from "./states.js";

// The lists of posts. Keys ascend with time, so the newest comes first.
const isNewer = (/** @type {any} */ [a], /** @type {any} */ [b]) => a > b;
const isMoreStarred = (/** @type {any} */ [a, first], /** @type {any} */ [b, second]) =>
  first.starCount === second.starCount ? a > b : first.starCount > second.starCount;

/** The newest posts of all. */
export function recent() {
  return page("Recent posts", null, null, ["RECENT"]);
}

/** The posts of all with the most stars. */
export function top() {
  return page("Top posts", null, null, ["TOP"]);
}

/** The reader's posts, newest first or by stars. */
export function mine(/** @type {string} */ order) {
  const { user } = session;
  if (!user) return signedOut("My posts");
  const request = order ? ["TOP", user.uid] : ["POSTS", user.uid];
  return page(order ? "My top posts" : "My posts", null, tabs("/mine", order), request);
}

/** A person and their posts. */
export function person(/** @type {string} */ uid, /** @type {string} */ order) {
  const name = element("bdi", {});
  const head = heading(name);
  const face = element("span", {}, avatar(uid, "…"));
  const show = (/** @type {string} */ username) => {
    if (name.textContent === username || !username) return;
    name.textContent = username;
    face.replaceChildren(avatar(uid, username));
    view.title = username;
    if (view.content.isConnected) document.title = `${username} · Canopy`;
  };
  const href = `/user/${encodeURIComponent(uid)}`;
  const request = order ? ["TOP", uid] : ["POSTS", uid];
  const view = page("Posts", element("div", { class: "profile" }, face, head), tabs(href, order), request, (first) => show(first.author));
  line.read("PROFILE", uid).then(({ username }) => show(username), () => {});
  return view;
}

/** The state of a view that needs a login. */
export function signedOut(/** @type {string} */ title) {
  const content = element("section", {}, heading(title), empty("Sign in to see this page.", "/signin", "Sign in"));
  return { title, content };
}

/** The view of an address without one. */
export function missing() {
  const content = element(
    "section", {}, heading("Nothing here"), failed("There is no page at this address.", undefined));
  return { title: "Nothing here", content };
}

/**
 * @param {string} title
 * @param {Element | null} head instead of the title
 * @param {Element | null} orders
 * @param {string[]} request
 * @param {(first: any) => void} [onchange]
 */
function page(title, head, orders, request, onchange) {
  const list = new ListView({
    request, onchange, item: postCard, nouns: ["post", "posts"],
    isBefore: request[0] === "TOP" ? isMoreStarred : isNewer,
    follow: (key) => ["WATCH", "SHOW", key],
    empty: () => session.user
      ? empty("There is no post here yet.", "/write", "Write one")
      : empty("There is no post here yet.", "/signup", "Join and write one"),
  });
  const content = element("section", {}, head ?? heading(title), orders, list.content);
  return { title, content, close: () => list.close(), show: () => list.show() };
}

function tabs(/** @type {string} */ href, /** @type {string | undefined} */ order) {
  const tab = (/** @type {string} */ path, /** @type {string} */ name, /** @type {boolean} */ isPresent) =>
    element("a", { href: path, "aria-current": isPresent ? "page" : null }, name);
  return element(
    "nav", { class: "tabs", "aria-label": "Order" },
    tab(href, "Newest", !order), tab(`${href}/top`, "Most stars", Boolean(order)));
}
