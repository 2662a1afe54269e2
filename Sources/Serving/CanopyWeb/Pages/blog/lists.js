import { h, setText } from "/shared/dom.js";
import { ListView } from "./list-view.js";
import { avatar } from "./people.js";
import { postCard } from "./post-card.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { empty, failed, heading, notice, signedOut } from "./states.js";

// The lists of posts. Keys ascend with time, so the newest comes first.
const isNewer = (a, b) => a[0] > b[0];
const isMoreStarred = ([a, first], [b, second]) =>
  first.starCount === second.starCount ? a > b : first.starCount > second.starCount;

/** The newest posts of all. */
export const recent = () => page("Recent posts", heading("Recent posts"), ["RECENT"]);

/** The posts of all with the most stars. */
export const top = () => page("Top posts", heading("Top posts"), ["TOP"]);

/** The reader's posts, newest first or by stars. @param {string} order */
export function mine(order) {
  const { user } = session;
  if (!user) return signedOut("My posts");
  const title = order ? "My top posts" : "My posts";
  return page(title, [heading(title), tabs("/mine", order)], [order ? "TOP" : "POSTS", user.uid]);
}

/** A person and their posts. @param {string} uid @param {string} order */
export function person(uid, order) {
  const name = h("bdi");
  const face = h("span", avatar(uid, "…"));
  const show = (username) => {
    if (name.textContent === username || !username) return;
    setText(name, username);
    face.replaceChildren(avatar(uid, username));
    router.rename(view, username);
  };
  const head = [h("div.profile", face, heading(name)), tabs(`/user/${encodeURIComponent(uid)}`, order)];
  const view = page("Posts", head, [order ? "TOP" : "POSTS", uid], (first) => show(first.author));
  line.read("PROFILE", uid).then(({ username }) => show(username), () => {});
  return view;
}

/** The view of an address without one. */
export const missing = () => notice("Nothing here", failed("There is no page at this address."));

/** @param {string} title @param {any} head @param {string[]} request @param {(first: any) => void} [onchange] */
function page(title, head, request, onchange) {
  const text = "There is no post here yet.";
  const list = new ListView({
    request, onchange, item: postCard, nouns: ["post", "posts"],
    isBefore: request[0] === "TOP" ? isMoreStarred : isNewer,
    follow: (key) => ["WATCH", "SHOW", key],
    empty: () => session.user ? empty(text, "/write", "Write one")
      : empty(text, "/signup", "Join and write one"),
  });
  const content = h("section", head, list.content);
  return { title, content, close: () => list.close(), show: () => list.show() };
}

function tabs(path, order) {
  const tab = (href, name, isPresent) => h("a", { href, "aria-current": isPresent && "page" }, name);
  return h("nav.tabs", { "aria-label": "Order" },
    tab(path, "Newest", !order), tab(`${path}/top`, "Most stars", Boolean(order)));
}
