import { element } from "/shared/dom.js";
import { Comments } from "./comments.js";
import { confirmed, report } from "./notices.js";
import { byline } from "./people.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { empty, failed, heading, skeletons } from "./states.js";
import "./star-button.js";

/** A post with its comments. */
export function post(/** @type {string} */ id) {
  const title = heading();
  title.dir = "auto";
  const by = element("div", { class: "by" });
  const body = element("div", { class: "body", dir: "auto" });
  const star = /** @type {any} */ (element(/** @type {any} */ ("star-button")));
  const tools = element(
    "div", { class: "tools" },
    element("a", { class: "button quiet", href: `/post/${encodeURIComponent(id)}/edit` }, "Edit"),
    element("button", { class: "button quiet", type: "button", onclick: () => remove(id) }, "Delete"));
  const article = element(
    "article", { class: "post" }, title, by, body, element("footer", {}, star, tools));
  const content = element("section", {}, ...skeletons(1));
  /** @type {Comments | null} */
  let comments = null;

  const view = { title: "Post", content, close, show: () => comments?.show() };
  const subscription = line.subscribe(["WATCH", "SHOW", id], { change: ({ events }) => show(events.at(-1)?.data), end });
  return view;

  function show(/** @type {any} */ data) {
    if (!data) return gone();
    if (title.textContent !== data.title) {
      title.textContent = data.title;
      view.title = data.title;
      if (content.isConnected) document.title = `${data.title} · Canopy`;
    }
    if (by.querySelector("bdi")?.textContent !== data.author) by.replaceChildren(byline(data));
    if (body.dataset.text !== data.body) showBody(data.body);
    star.post = { id, ...data };
    tools.hidden = !session.is(data.uid);
    if (!comments) {
      comments = new Comments(id, data.uid);
      content.replaceChildren(article, comments.content);
    }
    comments.count = data.commentCount ?? 0;
  }

  function showBody(/** @type {string} */ text) {
    body.dataset.text = text;
    body.replaceChildren(...text.split(/\n{2,}/).map((part) => element("p", {}, part)));
  }

  function gone() {
    close();
    content.replaceChildren(heading("Gone"), empty("This post was deleted.", "/", "To the recent posts"));
  }

  function end(/** @type {any} */ error) {
    comments?.close();
    content.replaceChildren(heading(error.code === "NOT_FOUND" ? "No such post" : "No post"), failed(error, undefined));
  }

  function close() {
    subscription.close();
    comments?.close();
  }
}

async function remove(/** @type {string} */ id) {
  if (!(await confirmed("Delete this post and its comments?", "Delete"))) return;
  try {
    await line.write("DELETE", id);
    router.go("/", { replace: true });
  } catch (error) {
    report(error);
  }
}
