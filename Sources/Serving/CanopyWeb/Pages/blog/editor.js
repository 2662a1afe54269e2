import { element } from "/shared/dom.js";
import { dropDrafts, keepDraft } from "./drafts.js";
import { form } from "./form.js";
import { signedOut } from "./lists.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { failed, heading, skeletons } from "./states.js";

/** The view that writes a post. */
export function write() {
  if (!session.user) return signedOut("Write a post");
  const { title, body } = fields("write", { title: "", body: "" });
  const content = element("section", {}, heading("Write a post"), form(rows(title, body), "Publish", async () => {
    const { id } = await line.write("POST", title.value, body.value);
    dropDrafts("write.title", "write.body");
    router.go(`/post/${id}`, { replace: true });
  }));
  return { title: "Write a post", content };
}

/** The view that changes a post of the reader. */
export function edit(/** @type {string} */ id) {
  if (!session.user) return signedOut("Edit the post");
  const place = element("div", {}, ...skeletons(1));
  const path = `/post/${encodeURIComponent(id)}`;
  line.read("SHOW", id).then((post) => {
    const { title, body } = fields(`edit.${id}`, post);
    const cancel = () => {
      dropDrafts(`edit.${id}.title`, `edit.${id}.body`);
      router.go(path, { replace: true });
    };
    const result = form(rows(title, body), "Save", async () => {
      await line.write("EDIT", id, title.value, body.value);
      cancel();
    });
    result.lastElementChild?.append(
      element("button", { class: "button quiet", type: "button", onclick: cancel }, "Discard the changes"));
    place.replaceChildren(result);
  }, (error) => place.replaceChildren(failed(error, undefined)));
  return { title: "Edit the post", content: element("section", {}, heading("Edit the post"), place) };
}

function fields(/** @type {string} */ draft, /** @type {{ title: string, body: string }} */ post) {
  const title = element("input", { id: "title", name: "title", maxlength: 200, required: true, dir: "auto", autocomplete: "off" });
  const body = element("textarea", { id: "body", name: "body", rows: 12, required: true, dir: "auto" });
  title.value = post.title;
  body.value = post.body;
  keepDraft(title, `${draft}.title`);
  keepDraft(body, `${draft}.body`);
  return { title, body };
}

/** @returns {[string, HTMLInputElement | HTMLTextAreaElement, string?][]} */
function rows(/** @type {HTMLInputElement} */ title, /** @type {HTMLTextAreaElement} */ body) {
  return [["Title", title], ["Text", body, "An empty line begins a new paragraph. What you type is kept in this browser until you publish it."]];
}
