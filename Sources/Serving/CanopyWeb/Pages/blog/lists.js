import { plural } from "/shared/basics.js";
import { h, icon, setText } from "/shared/elements.js";
import { ListView } from "./list-view.js";
import { avatar, byline, postOf } from "./people.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { starButton } from "./star-button.js";
import { empty, failed, forMembers, heading, page } from "./states.js";

const bubble = "M5 5h14a1.5 1.5 0 0 1 1.5 1.5v8A1.5 1.5 0 0 1 19 16h-7l-4.5 4v-4H5"
  + "a1.5 1.5 0 0 1-1.5-1.5v-8A1.5 1.5 0 0 1 5 5z";
const excerptMax = 400; // The start of a body that a card shows, in characters: more than its lines hold.

// Keys ascend with time, so the newest comes first.
const isNewer = (a, b) => a[0] > b[0];
const isMoreStarred = ([a, first], [b, second]) =>
  first.starCount === second.starCount ? a > b : first.starCount > second.starCount;

export const recent = () => posts("Recent posts", heading("Recent posts"), ["RECENT"]);
export const top = () => posts("Top posts", heading("Top posts"), ["TOP"]);

/** The reader's posts, newest first or by stars. */
export const mine = forMembers("My posts", ({ uid }, order) => {
  const title = order ? "My top posts" : "My posts";
  return posts(title, [heading(title), tabs("/mine", order)], [order ? "TOP" : "POSTS", uid]);
});

export function person(/** @type {string} */ uid, /** @type {string} */ order) {
  const name = h("bdi");
  const face = h("span", avatar(uid, "…"));
  const show = (username) => {
    if (name.textContent === username || !username) return;
    setText(name, username);
    face.replaceChildren(avatar(uid, username));
    router.rename(view, username);
  };
  const head = [h("div.profile", face, heading(name)), tabs(`/user/${encodeURIComponent(uid)}`, order)];
  const view = posts("Posts", head, [order ? "TOP" : "POSTS", uid], (first) => show(first.author));
  const isMissing = ({ code }) => code === "NOT_FOUND" && show("No such user");
  line.read("PROFILE", uid).then(({ username }) => show(username), isMissing);
  return view;
}

export const missing = () => page("Nothing here", failed("There is no page at this address."));

/** @param {string} title @param {any} head @param {string[]} request @param {(first: any) => void} [onchange] */
function posts(title, head, request, onchange) {
  const list = new ListView({
    request, onchange, item: card, noun: "post",
    isBefore: request[0] === "TOP" ? isMoreStarred : isNewer,
    follow: (key) => ["WATCH", "SHOW", key],
    empty: () => empty("There is no post here yet.", ...request[1] && !session.is(request[1]) ? []
      : session.user ? ["/write", "Write one"] : ["/signup", "Join and write one"]),
  });
  const content = h("section", head, list.content);
  return { title, content, close: () => list.close(), show: () => list.show() };
}

function tabs(path, order) {
  const tab = (href, name, isPresent) => h("a", { href, "aria-current": isPresent && "page" }, name);
  return h("nav.tabs", { "aria-label": "Order" },
    tab(path, "Newest", !order), tab(`${path}/top`, "Most stars", Boolean(order)));
}

function card(/** @type {string} */ id) {
  const href = `/post/${encodeURIComponent(id)}`;
  const [by, title, number] = [h("div"), h("a", { href }), h("span.count")];
  const excerpt = h("p.excerpt", { dir: "auto" });
  const star = starButton(id);
  const comments = h("a.comments", { href }, icon(bubble), number);
  const foot = h("footer", star.element, comments);
  const update = (data) => {
    const post = postOf(data);
    byline(by, post);
    setText(title, post.title);
    setText(excerpt, post.body.slice(0, excerptMax));
    setText(number, String(post.commentCount));
    comments.ariaLabel = plural(post.commentCount, "comment");
    star.update(post);
  };
  return { element: h("li.card", h("article", by, h("h2", { dir: "auto" }, title), excerpt, foot)), update };
}
