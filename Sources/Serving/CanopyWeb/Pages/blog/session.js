import { Line } from "/shared/line.js";

const place = "canopy.session";

/**
 * The reader: who is logged in, and the token that logs in again after a reload.
 *
 * The kept name is shown before the server has confirmed it, so that the page does not change when it does.
 * The event `change` says that the logged-in person has changed.
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

  /** Whether the reader has a uid. @param {string} uid */
  is(uid) {
    return this.user?.uid === uid;
  }

  async logOut() {
    await line.logOut();
    this.#keep(null);
  }

  /** @param {string} username */
  async rename(username) {
    await line.write("RENAME", username);
    await line.confirm();
  }

  #keep(identity) {
    const before = JSON.stringify(this.user);
    const { uid, username, token } = identity ?? {};
    this.user = identity && { uid, username, token };
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

export const line = new Line(() => (read()?.token ? [["AUTH", read().token]] : []));
export const session = new Session();
