import { confirmed, field, form, submit } from "/shared/controls.js";
import { h, setText } from "/shared/dom.js";
import { dropDrafts, keepDraft } from "./drafts.js";
import { ListView } from "./list-view.js";
import { report } from "./notices.js";
import { byline } from "./people.js";
import { line, session } from "./session.js";
import { empty } from "./states.js";

/** The comments on a post, newest first, and the field for another. */
export class Comments {
  #heading = h("h2", "Comments");

  /** @param {string} id of the post @param {string} author of the post, who may delete every comment */
  constructor(id, author) {
    this.list = new ListView({
      request: ["COMMENTS", id], nouns: ["comment", "comments"], isBefore: ([a], [b]) => a > b,
      item: (key, data) => comment(id, author, key, data),
      empty: () => empty("No comments yet."),
    });
    const write = session.user ? composer(id)
      : h("p.invitation", h("a", { href: "/signin" }, "Sign in"), " to comment.");
    const attributes = { "aria-label": "Comments" };
    this.content = h("section.discussion", attributes, this.#heading, write, this.list.content);
  }

  set count(count) {
    setText(this.#heading, count === 1 ? "1 comment" : `${count} comments`);
  }
}

function comment(id, author, key, { uid, author: name }) {
  const by = h("div.by");
  const text = h("p.text", { dir: "auto" });
  const onclick = async () => {
    const isSure = await confirmed({ title: "Delete this comment?", action: "Delete", keep: "Keep it" });
    if (isSure) await line.write("UNCOMMENT", id, key).catch(report);
  };
  const attributes = { type: "button", onclick, "aria-label": `Delete the comment by ${name}` };
  const mayDelete = session.is(uid) || session.is(author);
  const update = (data) => {
    byline(by, data);
    setText(text, data.text);
  };
  const head = h("div.line", by, mayDelete && h("button.link", attributes, "Delete"));
  return { element: h("li.comment", head, text), update };
}

function composer(id) {
  const draft = `comment.${id}`;
  const text = h("textarea", {
    id: "comment", name: "comment", rows: 2, maxlength: 10_000, required: true, dir: "auto",
  });
  keepDraft(text, draft);
  const send = async () => {
    await line.write("COMMENT", id, text.value);
    dropDrafts(draft);
    text.value = "";
  };
  return form("", send, field("Your comment", text), h("div.actions", submit("Comment")));
}
