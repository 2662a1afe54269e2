// The views that write and change a post, and the drafts of all texts.
import { keep } from "/shared/basics.js";
import { button, field, form, h, submit } from "/shared/elements.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { failed, forMembers, page, skeletons } from "./states.js";

const hint = "An empty line begins a new paragraph. What you type is kept in this browser until you publish it.";

/** Fills fields with their drafts, and keeps these at each change. Returns a function that drops them. Two readers
 * who share a browser do not see each other's. @param {string} name @param {...any} fields */
export function keepDrafts(name, ...fields) {
  const place = (field) => `canopy.draft.${session.user?.uid ?? ""}.${name}.${field.id}`;
  for (const field of fields) {
    field.value = localStorage.getItem(place(field)) ?? field.value;
    field.addEventListener("input", () => keep(localStorage, place(field), field.value));
  }
  return () => fields.forEach((field) => localStorage.removeItem(place(field)));
}

export const write = forMembers("Write a post", () => page("Write a post",
  postForm("write", { title: "", body: "" }, "Publish", async (title, body) => {
    const { id } = await line.write("POST", title, body);
    return `/post/${id}`;
  })));

export const edit = forMembers("Edit the post", (_, id) => {
  const place = h("div", skeletons(1));
  const path = `/post/${encodeURIComponent(id)}`;
  const save = (title, body) => line.write("EDIT", id, title, body).then(() => path);
  const show = (post) => place.replaceChildren(postForm(`edit.${id}`, post, "Save", save, path));
  line.read("SHOW", id).then(show, (error) => place.replaceChildren(failed(error)));
  return page("Edit the post", place);
});

/** @param {string} draft @param {{ title: string, body: string }} post @param {string} action
 * @param {(title: string, body: string) => Promise<string>} send returns the path to go to
 * @param {string} [origin] the path to go to without sending */
function postForm(draft, post, action, send, origin) {
  const plain = { required: true, dir: "auto", autocomplete: "off" };
  const title = h("input", { id: "title", name: "title", maxlength: 200 }, plain);
  const body = h("textarea", { id: "body", name: "body", rows: 12 }, plain);
  [title.value, body.value] = [post.title, post.body];
  const dropDrafts = keepDrafts(draft, title, body);
  const leave = (path) => {
    dropDrafts();
    router.go(path, { replace: true });
  };
  return form("", async () => leave(await send(title.value, body.value)),
    field("Title", title), field("Text", body, hint),
    h("div.actions", submit(action), origin && button("Discard the changes", () => leave(origin))));
}
