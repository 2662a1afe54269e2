import { gathered } from "./basics.js";

/** The children of a subscription, in the order of the server. */
export class LiveList {
  /** @type {string[]} */ keys = [];
  isLoaded = false;
  #data = new Map();
  #left = new Map();
  #isReset = false;
  #subscription; #listener;
  #flush = gathered(100, () => {
    const detail = { left: this.#left, isReset: this.#isReset };
    [this.#left, this.#isReset] = [new Map(), false];
    this.report(detail);
  }, atFrame);

  /** @param {Line} line @param {any[]} request a WATCH of a list, or a LISTEN @param {ListListener} listener */
  constructor(line, request, listener) {
    this.#listener = listener;
    this.#subscription = line.subscribe(request, { change: (change) => this.#apply(change), end: listener.end });
  }

  /** @param {string} key @returns {any} */
  get(key) { return this.#data.get(key); }
  close() { this.#subscription.close(); }

  /** Called with the changes of a frame. @param {any} detail */
  report(detail) { this.#listener.change(detail); }

  #apply({ events, isReset }) {
    if (isReset) this.#clear();
    // The documented order: first all that leave their places, then all that come, each after its predecessor.
    const leaving = new Set(events.filter((it) => it.event !== "child_changed").map((it) => it.key));
    if (!isReset) this.keys = this.keys.filter((key) => !leaving.has(key));
    for (const { event, key, prev, path, data } of events) {
      if (event === "put" && path === "/") {
        for (const [key, child] of Object.entries(data ?? {})) if (key[0] !== ".") this.#put(key, child);
      } else if (event === "child_removed") {
        this.#data.delete(key);
        this.#left.set(key, data);
      } else if (event === "child_changed") this.#data.set(key, data);
      else if (key !== undefined) this.#put(key, data, prev ?? null);
    }
    this.isLoaded = true;
    this.#flush();
  }

  #clear() {
    for (const [key, data] of this.#data) this.#left.set(key, data);
    this.#data.clear();
    this.keys = [];
    this.#isReset = true;
  }

  /** Most children are added at the end or the beginning. */
  #put(key, data, prev = this.keys.at(-1) ?? null) {
    const isLast = this.keys.at(-1) === prev;
    const index = prev === null ? 0 : isLast ? this.keys.length : this.keys.indexOf(prev) + 1;
    this.keys.splice(index, 0, key);
    this.#data.set(key, data);
    this.#left.delete(key);
  }
}

/** Calls at the next frame. A hidden page has no frames, so it gets a timer. */
const atFrame = (call, milliseconds) =>
  document.hidden ? setTimeout(call, milliseconds) : requestAnimationFrame(call);
