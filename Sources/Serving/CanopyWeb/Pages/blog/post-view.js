import { button, confirmed } from "/shared/controls.js";
import { h, setText } from "/shared/dom.js";
import { Comments } from "./comments.js";
import { report } from "./notices.js";
import { byline } from "./people.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { StarButton } from "./star-button.js";
import { empty, failed, heading, skeletons } from "./states.js";

/** A post with its comments. @param {string} id */
export function post(id) {
  const title = heading({ dir: "auto" });
  const by = h("div.by");
  const body = h("div.body", { dir: "auto" });
  const star = new StarButton(id);
  const tools = h("div.tools",
    h("a.button.quiet", { href: `/post/${encodeURIComponent(id)}/edit` }, "Edit"),
    button("Delete", () => remove(id)));
  const article = h("article.post", title, by, body, h("footer", star.element, tools));
  const content = h("section", skeletons(1));
  /** @type {Comments | undefined} */
  let comments;
  const subscription = line.subscribe(["WATCH", "SHOW", id], {
    change: ({ events }) => show(events.at(-1)?.data),
    end(error) {
      comments?.list.close();
      const text = error.code === "NOT_FOUND" ? "No such post" : "No post";
      content.replaceChildren(heading(text), failed(error));
    },
  });
  const view = { title: "Post", content, close, show: () => comments?.list.show() };
  return view;

  function show(data) {
    if (!data) {
      close();
      const state = empty("This post was deleted.", "/", "To the recent posts");
      return content.replaceChildren(heading("Gone"), state);
    }
    setText(title, data.title);
    router.rename(view, data.title);
    byline(by, data);
    if (body.dataset.text !== data.body) {
      body.dataset.text = data.body;
      body.replaceChildren(...data.body.split(/\n{2,}/).map((part) => h("p", part)));
    }
    star.post = data;
    tools.hidden = !session.is(data.uid);
    if (!comments) {
      comments = new Comments(id, data.uid);
      content.replaceChildren(article, comments.content);
    }
    comments.count = data.commentCount ?? 0;
  }

  function close() {
    subscription.close();
    comments?.list.close();
  }
}

async function remove(id) {
  const question = { title: "Delete this post and its comments?", action: "Delete", keep: "Keep it" };
  if (!(await confirmed(question))) return;
  try {
    await line.write("DELETE", id);
    router.go("/", { replace: true });
  } catch (error) {
    report(error);
  }
}
