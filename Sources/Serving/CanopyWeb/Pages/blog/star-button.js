import { h, icon, setText } from "/shared/dom.js";
import { report } from "./notices.js";
import { router } from "./router.js";
import { line, session } from "./session.js";

const star = "M12 3.600l2.500 5.300 5.800.700-4.300 4 1.100 5.700L12 16.500l-5.100 2.800 1.100-5.700"
  + "-4.300-4 5.800-.700z";

/** A star with its count. It changes at once, and changes back if the server refuses. */
export class StarButton {
  /** @type {any} the post as the server has it */
  #post = null;
  #isStarred = false;
  /** @type {boolean | null} the reader's wish, while the server has not confirmed it */
  #wish = null;
  #count = h("span.count");
  #id;

  /** @param {string} id of the post */
  constructor(id) {
    this.#id = id;
    const attributes = { type: "button", onclick: () => this.#toggle() };
    this.element = h("button.star", attributes, icon(star), this.#count);
  }

  set post(post) {
    this.#post = post;
    this.#isStarred = session.user !== null && post.stars?.[session.user.uid] === true;
    this.#show();
  }

  #show() {
    const isStarred = this.#wish ?? this.#isStarred;
    const count = this.#post.starCount + Number(isStarred) - Number(this.#isStarred);
    setText(this.#count, String(count));
    this.element.ariaPressed = String(isStarred);
    this.element.ariaLabel = `Star “${this.#post.title}”, ${count} ${count === 1 ? "star" : "stars"}`;
  }

  async #toggle() {
    if (!session.user) return router.go("/signin");
    const isWaiting = this.#wish !== null;
    this.#wish = !(this.#wish ?? this.#isStarred);
    this.#show();
    if (isWaiting) return;
    try {
      // STAR toggles. Another page may have starred the post already, so a second one may be needed.
      for (let attempt = 0; attempt < 3 && this.#wish !== this.#isStarred; attempt++) {
        const { starred, starCount } = await line.write("STAR", this.#id);
        this.#post = { ...this.#post, starCount };
        this.#isStarred = starred;
      }
    } catch (error) {
      report(error);
    }
    this.#wish = null;
    this.#show();
  }
}
