import { button, confirmed, h, setText } from "/shared/elements.js";
import { discussion } from "./comments.js";
import { report } from "./notices.js";
import { byline, postOf } from "./people.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { starButton } from "./star-button.js";
import { empty, failed, heading, skeletons } from "./states.js";

/** A post with its comments. @param {string} id */
export function post(id) {
  const [title, by] = [heading({ dir: "auto" }), h("div")];
  const body = h("div.body", { dir: "auto" });
  const star = starButton(id);
  const tools = h("div.tools",
    h("a.button.quiet", { href: `/post/${encodeURIComponent(id)}/edit` }, "Edit"),
    button("Delete", () => remove(id, content)));
  const article = h("article.post", title, by, body, h("footer", star.element, tools));
  const content = h("section", skeletons(1));
  /** @type {ReturnType<discussion> | undefined} */ let comments;
  const close = () => { subscription.close(); comments?.list.close(); };
  const end = (title, state) => {
    close();
    content.replaceChildren(heading(title), state);
    router.rename(view, title);
  };

  function show(data) {
    if (!data) return end("Gone", empty("This post was deleted.", "/", "To the recent posts"));
    const post = postOf(data);
    setText(title, post.title);
    router.rename(view, post.title);
    byline(by, post);
    if (body.dataset.text !== post.body) {
      body.dataset.text = post.body;
      body.replaceChildren(...post.body.split(/\n{2,}/).map((part) => h("p", part)));
    }
    star.update(post);
    tools.hidden = !session.is(post.uid);
    if (!comments) {
      comments = discussion(id, post.uid);
      content.replaceChildren(article, comments.element);
    }
    comments.update(post.commentCount);
  }

  const view = { title: "Post", content, close, show: () => comments?.list.show() };
  const subscription = line.subscribe(["WATCH", "SHOW", id], {
    change: ({ events }) => show(events.at(-1)?.data),
    end(error) {
      // An address that a person has typed may have an id that is invalid.
      if (["NOT_FOUND", "BAD_REQUEST"].includes(error.code)) end("No such post", failed("There is no such post."));
      else end("No post", failed(error));
    },
  });
  return view;
}

async function remove(id, content) {
  const question = { title: "Delete this post and its comments?", action: "Delete", keep: "Keep it" };
  if (await confirmed(question)) await line.write("DELETE", id).then(() => router.leave(content, "/"), report);
}
