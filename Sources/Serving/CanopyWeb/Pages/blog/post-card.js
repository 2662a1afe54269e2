import { element, icon, setText } from "/shared/dom.js";
import { byline } from "./people.js";
import "./star-button.js";

const bubble = "M5 5h14a1.500 1.500 0 0 1 1.500 1.500v8A1.500 1.500 0 0 1 19 16h-7l-4.500 4v-4H5a1.500 1.500 0 0 1-1.500-1.500v-8A1.500 1.500 0 0 1 5 5z";
/** The start of a body that a card shows, in characters: more than its lines hold. */
const excerptMax = 400;

/**
 * Returns the card of a post in a list.
 * @param {string} id
 * @param {any} post
 */
export function postCard(id, post) {
  const href = `/post/${encodeURIComponent(id)}`;
  const title = element("a", { href, dir: "auto" });
  const excerpt = element("p", { class: "excerpt", dir: "auto" });
  const star = /** @type {any} */ (element(/** @type {any} */ ("star-button")));
  const comments = element("span", { class: "count" });
  const link = element("a", { class: "comments", href }, icon(bubble), comments);
  const by = element("div", { class: "by" });
  const update = (/** @type {any} */ post) => {
    setText(title, post.title);
    setText(excerpt, String(post.body).slice(0, excerptMax));
    const count = post.commentCount ?? 0;
    setText(comments, String(count));
    link.setAttribute("aria-label", count === 1 ? "1 comment" : `${count} comments`);
    star.post = { id, ...post };
    if (by.textContent === "" || by.querySelector("bdi")?.textContent !== post.author) by.replaceChildren(byline(post));
  };
  update(post);
  const card = element(
    "li", { class: "card" },
    element("article", {}, by, element("h2", {}, title), excerpt, element("footer", {}, star, link)));
  return { element: card, update };
}
