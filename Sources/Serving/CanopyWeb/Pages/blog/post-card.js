import { h, icon, setText } from "/shared/dom.js";
import { byline } from "./people.js";
import { StarButton } from "./star-button.js";

const bubble = "M5 5h14a1.500 1.500 0 0 1 1.500 1.500v8A1.500 1.500 0 0 1 19 16h-7l-4.500 4v-4H5"
  + "a1.500 1.500 0 0 1-1.500-1.500v-8A1.500 1.500 0 0 1 5 5z";
/** The start of a body that a card shows, in characters: more than its lines hold. */
const excerptMax = 400;

/** Returns the card of a post in a list. @param {string} id */
export function postCard(id) {
  const href = `/post/${encodeURIComponent(id)}`;
  const title = h("a", { href, dir: "auto" });
  const excerpt = h("p.excerpt", { dir: "auto" });
  const star = new StarButton(id);
  const comments = h("span.count");
  const link = h("a.comments", { href }, icon(bubble), comments);
  const by = h("div.by");
  const update = (post) => {
    byline(by, post);
    setText(title, post.title);
    setText(excerpt, String(post.body).slice(0, excerptMax));
    const count = post.commentCount ?? 0;
    setText(comments, String(count));
    link.setAttribute("aria-label", count === 1 ? "1 comment" : `${count} comments`);
    star.post = post;
  };
  const card = h("li.card", h("article", by, h("h2", title), excerpt, h("footer", star.element, link)));
  return { element: card, update };
}
