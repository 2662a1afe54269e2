import { Line } from "/shared/line.js";

const place = "canopy.session";

/**
 * The reader: who is logged in, and the token that logs in again after a reload.
 *
 * The kept name is shown before the server has confirmed it, so that the page does not change when it does. The event
 * `change` says that another person, or none, is logged in.
 */
class Session extends EventTarget {
  /** @type {{ uid: string, username: string, token: string } | null} */
  user = read();

  constructor() {
    super();
    line.addEventListener("identity", () => {
      const { identity } = line;
      if (identity?.uid) this.#keep({ token: this.user?.token, ...identity });
      else if (line.state === "online") this.#keep(null);
    });
    line.addEventListener("refused", () => this.#keep(null));
    // Another page of the same browser logged in or out.
    addEventListener("storage", (event) => {
      if (event.key !== place || read()?.token === this.user?.token) return;
      this.user = read();
      line.close();
      line.open();
      this.dispatchEvent(new Event("change"));
    });
  }

  /** @returns {boolean} whether `uid` is the reader */
  is(/** @type {string} */ uid) {
    return this.user?.uid === uid;
  }

  logIn(/** @type {string} */ email, /** @type {string} */ password) {
    return line.logIn("LOGIN", email, password);
  }

  signUp(/** @type {string} */ email, /** @type {string} */ password, /** @type {string} */ username) {
    return line.logIn("SIGNUP", email, password, username);
  }

  async logOut() {
    await line.logOut();
    this.#keep(null);
  }

  async rename(/** @type {string} */ username) {
    await line.write("RENAME", username);
    await line.confirm();
  }

  #keep(/** @type {any} */ identity) {
    const before = JSON.stringify(this.user);
    this.user = identity && { uid: identity.uid, username: identity.username, token: identity.token };
    if (JSON.stringify(this.user) === before) return;
    if (this.user) localStorage.setItem(place, JSON.stringify(this.user));
    else localStorage.removeItem(place);
    this.dispatchEvent(new Event("change"));
  }
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(place) ?? "null");
  } catch {
    return null;
  }
}

export const line = new Line({ token: () => read()?.token ?? null });
export const session = new Session();
