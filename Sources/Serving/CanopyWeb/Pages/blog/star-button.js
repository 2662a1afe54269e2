import { plural } from "/shared/basics.js";
import { h, icon, setText } from "/shared/elements.js";
import { report } from "./notices.js";
import * as router from "./router.js";
import { line, session } from "./session.js";

const star = "M12 3.6l2.5 5.3 5.8.7-4.3 4 1.1 5.7L12 16.5l-5.1 2.8 1.1-5.7-4.3-4 5.8-.7z";

/** The star of a post with its count. It changes at once, and back if the server refuses. @param {string} id */
export function starButton(id) {
  /** @type {any} the post as the server has it */ let post = null;
  let isStarred = false;
  /** @type {boolean | null} the reader's choice, while the server has not confirmed it */ let choice = null;
  const number = h("span.count");
  const element = h("button.star", { type: "button", onclick: toggle }, icon(star), number);

  function update(data) {
    post = data;
    isStarred = session.user !== null && post.stars?.[session.user.uid] === true;
    show();
  }

  function show() {
    const isShown = choice ?? isStarred;
    const count = post.starCount + Number(isShown) - Number(isStarred);
    setText(number, String(count));
    element.ariaPressed = String(isShown);
    element.ariaLabel = `Star “${post.title}”, ${plural(count, "star")}`;
  }

  async function toggle() {
    if (!session.user) return router.go("/signin");
    const isWaiting = choice !== null;
    choice = !(choice ?? isStarred);
    show();
    if (isWaiting) return;
    try {
      // STAR toggles. Another page may have starred the post already, so a second one may be needed.
      for (let attempt = 0; attempt < 3 && choice !== isStarred; attempt++) {
        const { starred, starCount } = await line.write("STAR", id);
        post = { ...post, starCount };
        isStarred = starred;
      }
    } catch (error) {
      report(error);
    }
    choice = null;
    show();
  }

  return { element, update };
}
