import { element, icon, setText } from "/shared/dom.js";
import { report } from "./notices.js";
import { router } from "./router.js";
import { line, session } from "./session.js";

const star = "M12 3.600l2.500 5.300 5.800.700-4.300 4 1.100 5.700L12 16.500l-5.100 2.800 1.100-5.700-4.300-4 5.800-.700z";

/** A star with its count. It changes at once, and changes back if the server refuses. */
class StarButton extends HTMLElement {
  /** @type {any} the post as the server has it */
  #post = null;
  #isStarred = false;
  /** @type {boolean | null} the reader's wish, while the server has not confirmed it */
  #wish = null;
  #count = element("span", { class: "count" });
  #button = element("button", { type: "button", class: "star", onclick: () => this.#toggle() }, icon(star), this.#count);

  connectedCallback() {
    if (!this.firstChild) this.append(this.#button);
  }

  set post(/** @type {any} */ post) {
    this.#post = post;
    this.#isStarred = session.user !== null && post.stars?.[session.user.uid] === true;
    this.#show();
  }

  #show() {
    const isStarred = this.#wish ?? this.#isStarred;
    const count = this.#post.starCount + Number(isStarred) - Number(this.#isStarred);
    setText(this.#count, String(count));
    this.#button.setAttribute("aria-pressed", String(isStarred));
    this.#button.setAttribute("aria-label", `Star “${this.#post.title}”, ${count} ${count === 1 ? "star" : "stars"}`);
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
        const { starred, starCount } = await line.write("STAR", this.#post.id);
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

customElements.define("star-button", StarButton);
