import { plural } from "/shared/basics.js";
import { confirmed, field, form, h, link, passFocus, setText, submit } from "/shared/elements.js";
import { keepDrafts } from "./editor.js";
import { ListView } from "./list-view.js";
import { report } from "./notices.js";
import { byline } from "./people.js";
import { line, session } from "./session.js";
import { empty } from "./states.js";

/** The comments on a post, newest first, and the field for another. Its author may delete every comment. */
export function discussion(/** @type {string} */ id, /** @type {string} */ author) {
  const heading = h("h2", { tabindex: -1 }, "Comments");
  const list = new ListView({
    request: ["COMMENTS", id], noun: "comment", isBefore: ([a], [b]) => a > b,
    item: (key, data) => comment(id, author, key, data, heading),
    follow: (key) => ["LISTEN", `/post-comments/${id}/${key}`, { events: "value" }],
    empty: () => empty("No comments yet."),
  });
  const invitation = h("p.invitation", h("a", { href: "/signin" }, "Sign in"), " to comment.");
  const write = session.user ? composer(id) : invitation;
  const element = h("section.discussion", { "aria-label": "Comments" }, heading, write, list.content);
  return { element, list, update: (count) => setText(heading, plural(count, "comment")) };
}

function comment(id, author, key, { uid, author: name }, heading) {
  const [by, text] = [h("div"), h("p.text", { dir: "auto" })];
  const remove = async () => {
    const isSure = await confirmed({ title: "Delete this comment?", action: "Delete", keep: "Keep it" });
    if (isSure) await line.write("UNCOMMENT", id, key).then(() => passFocus(element, heading), report);
  };
  const mayDelete = session.is(uid) || session.is(author);
  const action = mayDelete && link("Delete", remove, { "aria-label": `Delete the comment by ${name}` });
  const update = (data) => { byline(by, data); setText(text, data.text); };
  const element = h("li.comment", h("div.line", by, action), text);
  return { element, update };
}

function composer(id) {
  const attributes = { id: "comment", name: "comment", rows: 2, maxlength: 10_000, required: true, dir: "auto" };
  const text = h("textarea", attributes);
  const dropDraft = keepDrafts(id, text);
  const send = async () => {
    await line.write("COMMENT", id, text.value);
    dropDraft();
    text.value = "";
  };
  return form("", send, field("Your comment", text), h("div.actions", submit("Comment")));
}
