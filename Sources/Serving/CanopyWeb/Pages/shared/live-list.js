/**
 * The children of a subscription, in the order of the server.
 *
 * Events: `change`, at most one for each frame, with the entries that have `left` since the last one and
 * whether all was read anew; `end` with the error that ended the subscription.
 */
export class LiveList extends EventTarget {
  /** @type {string[]} */
  keys = [];
  /** Whether the present state has come. */
  isLoaded = false;
  #data = new Map();
  #left = new Map();
  #isReset = false;
  #isScheduled = false;
  #subscription;

  /** @param {Line} line @param {any[]} request a WATCH of a list, or a LISTEN with events about children */
  constructor(line, request) {
    super();
    this.#subscription = line.subscribe(request, {
      change: (change) => this.#apply(change),
      end: (error) => this.dispatchEvent(new CustomEvent("end", { detail: error })),
    });
  }

  /** @param {string} key @returns {any} */
  get(key) {
    return this.#data.get(key);
  }

  close() {
    this.#subscription.close();
  }

  #apply({ events, isReset }) {
    if (isReset) this.#clear();
    // The documented order: first all that leave their places, then all that come, each after its
    // predecessor.
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
    if (!this.#isScheduled) requestFrame(() => this.#flush());
    this.#isScheduled = true;
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

  #flush() {
    const detail = { left: this.#left, isReset: this.#isReset };
    this.#left = new Map();
    this.#isReset = this.#isScheduled = false;
    this.report(detail);
  }

  /** @param {any} detail */
  report(detail) {
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }
}

/** Calls at the next frame. A hidden page has no frames, so it gets a timer. */
function requestFrame(call) {
  if (document.hidden) setTimeout(call, 100);
  else requestAnimationFrame(call);
}
