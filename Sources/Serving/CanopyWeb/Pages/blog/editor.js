// The views that write and change a post, and the drafts of all texts.
import { keep } from "/shared/basics.js";
import { button, clear, confirmed, field, form, h, submit } from "/shared/elements.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { failed, forMembers, page, skeletons } from "./states.js";

const newer = "The post has changed since you opened it, so this was not saved. Save again to replace the new text.";
const unsaved = "This is your draft. It is not saved, and the post may have changed since. Discard it to see the post.";
const question = { title: "Discard the changes?", text: "The draft is deleted.", action: "Discard", keep: "Keep it" };
const hint = "An empty line begins a new paragraph. What you type is kept in this browser until you publish it.";

/** Fills fields with their drafts, and keeps these at each change. Returns a function that drops them, unless another
 * tab has written others. Readers who share a browser have drafts of their own.
 * @param {string} name @param {...any} fields */
export function keepDrafts(name, ...fields) {
  const place = (field) => `canopy.draft.${session.user?.uid ?? ""}.${name}.${field.id}`;
  for (const field of fields) {
    field.value = localStorage.getItem(place(field)) ?? field.value;
    field.addEventListener("input", () => keep(localStorage, place(field), field.value));
  }
  const isOwn = (field) => localStorage.getItem(place(field)) === field.value;
  return () => fields.filter(isOwn).forEach((field) => localStorage.removeItem(place(field)));
}

export const write = forMembers("Write a post", () => page("Write a post",
  postForm("write", { title: "", body: "" }, "Publish", async (title, body) => {
    const { id } = await line.write("POST", title, body);
    return `/post/${id}`;
  })));

export const edit = forMembers("Edit the post", (_, id) => {
  const place = h("div");
  const path = `/post/${encodeURIComponent(id)}`;
  const textsOf = ({ title, body }) => JSON.stringify([title, body]);
  const show = (post) => {
    let known = textsOf(post);
    const save = async (title, body) => {
      // Without a connection it fails, as the edit itself.
      const before = known;
      known = textsOf(await line.write("SHOW", id));
      if (known !== before) throw new Error(newer);
      await line.write("EDIT", id, title, body);
      return path;
    };
    place.replaceChildren(session.is(post.uid) ? postForm(`edit.${id}`, post, "Save", save, path)
      : failed("Only the author of a post can edit it."));
  };
  const load = () => {
    clear(place, skeletons(1));
    const fail = (error) => clear(place, failed(error, error.code !== "NOT_FOUND" && load));
    line.read("SHOW", id).then(show).catch(fail);
  };
  load();
  return page("Edit the post", place);
});

/** @param {string} draft @param {{ title: string, body: string }} post @param {string} action
 * @param {(title: string, body: string) => Promise<string>} send returns the path to go to
 * @param {string} [origin] the path to go to without sending */
function postForm(draft, post, action, send, origin) {
  const plain = { required: true, dir: "auto", autocomplete: "off" };
  const title = h("input", { id: "title", name: "title", maxlength: 200 }, plain);
  const body = h("textarea", { id: "body", name: "body", rows: 12, maxlength: 65_536 }, plain);
  [title.value, body.value] = [post.title, post.body];
  const saved = [title.value, body.value].join();
  const dropDrafts = keepDrafts(draft, title, body);
  const leave = (path) => {
    dropDrafts();
    router.leave(element, path);
  };
  const isDraft = () => [title.value, body.value].join() !== saved;
  const discard = async (path) => (!isDraft() || (await confirmed(question))) && leave(path);
  const element = form("", async () => leave(await send(title.value, body.value)),
    origin && isDraft() && h("p.notice", unsaved), field("Title", title), field("Text", body, hint),
    h("div.actions", submit(action), origin && button("Discard the changes", () => discard(origin))));
  return element;
}
