import { button, field, form, submit } from "/shared/controls.js";
import { h } from "/shared/dom.js";
import { dropDrafts, keepDraft } from "./drafts.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { failed, heading, signedOut, skeletons } from "./states.js";

const hint = "An empty line begins a new paragraph. What you type is kept in this browser until you publish it.";

/** The view that writes a post. */
export function write() {
  if (!session.user) return signedOut("Write a post");
  const editor = postForm("write", { title: "", body: "" }, "Publish", async (title, body) => {
    const { id } = await line.write("POST", title, body);
    return `/post/${id}`;
  });
  return { title: "Write a post", content: h("section", heading("Write a post"), editor) };
}

/** The view that changes a post of the reader. @param {string} id */
export function edit(id) {
  if (!session.user) return signedOut("Edit the post");
  const place = h("div", skeletons(1));
  const path = `/post/${encodeURIComponent(id)}`;
  const save = async (title, body) => {
    await line.write("EDIT", id, title, body);
    return path;
  };
  line.read("SHOW", id).then(
    (post) => place.replaceChildren(postForm(`edit.${id}`, post, "Save", save, path)),
    (error) => place.replaceChildren(failed(error)));
  return { title: "Edit the post", content: h("section", heading("Edit the post"), place) };
}

/**
 * @param {string} draft
 * @param {{ title: string, body: string }} post
 * @param {string} action
 * @param {(title: string, body: string) => Promise<string>} send returns the path to go to
 * @param {string} [origin] the path to go to without sending
 */
function postForm(draft, post, action, send, origin) {
  const plain = { required: true, dir: "auto" };
  const attributes = { id: "title", name: "title", maxlength: 200, autocomplete: "off", ...plain };
  const title = h("input", attributes);
  const body = h("textarea", { id: "body", name: "body", rows: 12, ...plain });
  title.value = post.title;
  body.value = post.body;
  keepDraft(title, `${draft}.title`);
  keepDraft(body, `${draft}.body`);
  const leave = (path) => {
    dropDrafts(`${draft}.title`, `${draft}.body`);
    router.go(path, { replace: true });
  };
  return form("", async () => leave(await send(title.value, body.value)),
    field("Title", title), field("Text", body, hint),
    h("div.actions", submit(action), origin && button("Discard the changes", () => leave(origin))));
}
