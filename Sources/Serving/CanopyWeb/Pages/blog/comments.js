import { element, setText } from "/shared/dom.js";
import { dropDrafts, keepDraft } from "./drafts.js";
import { form } from "./form.js";
import { ListView } from "./list-view.js";
import { confirmed, report } from "./notices.js";
import { byline } from "./people.js";
import { line, session } from "./session.js";
import { empty } from "./states.js";

/** The comments on a post, newest first, and the field for another. */
export class Comments {
  #heading = element("h2", {}, "Comments");
  #list;

  /**
   * @param {string} id of the post
   * @param {string} author of the post, who may delete every comment
   */
  constructor(id, author) {
    this.#list = new ListView({
      request: ["COMMENTS", id], nouns: ["comment", "comments"], isBefore: ([a], [b]) => a > b,
      item: (key, data) => comment(id, author, key, data),
      follow: () => null,
      empty: () => empty("No comments yet.", "", ""),
    });
    const write = session.user ? composer(id)
      : element("p", { class: "invitation" }, element("a", { href: "/signin" }, "Sign in"), " to comment.");
    this.content = element("section", { class: "discussion", "aria-label": "Comments" }, this.#heading, write, this.#list.content);
  }

  set count(/** @type {number} */ count) {
    setText(this.#heading, count === 1 ? "1 comment" : `${count} comments`);
  }

  show() {
    this.#list.show();
  }

  close() {
    this.#list.close();
  }
}

/**
 * @param {string} id
 * @param {string} author
 * @param {string} key
 * @param {any} data
 */
function comment(id, author, key, data) {
  const by = element("div", { class: "by" });
  const text = element("p", { class: "text", dir: "auto" });
  const remove = async () => {
    if (!(await confirmed("Delete this comment?", "Delete"))) return;
    await line.write("UNCOMMENT", id, key).catch(report);
  };
  const update = (/** @type {any} */ data) => {
    if (by.querySelector("bdi")?.textContent !== data.author) by.replaceChildren(byline(data));
    setText(text, data.text);
  };
  update(data);
  const mayDelete = session.is(data.uid) || session.is(author);
  const button = mayDelete && element(
    "button", { class: "link", type: "button", onclick: remove, "aria-label": `Delete the comment by ${data.author}` }, "Delete");
  return { element: element("li", { class: "comment" }, element("div", { class: "line" }, by, button), text), update };
}

function composer(/** @type {string} */ id) {
  const draft = `comment.${id}`;
  const text = element("textarea", { id: "comment", name: "comment", rows: 2, maxlength: 10_000, required: true, dir: "auto" });
  keepDraft(text, draft);
  return form([["Your comment", text]], "Comment", async () => {
    await line.write("COMMENT", id, text.value);
    dropDrafts(draft);
    text.value = "";
  });
}
