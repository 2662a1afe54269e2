/**
 * The children of a subscription, in the order of the server.
 *
 * Events: `change`, at most one for each frame, with the keys that differ since the last one; `end` with the error
 * that ended the subscription.
 */
export class LiveList extends EventTarget {
  /** @type {string[]} */
  keys = [];
  /** Whether the present state has come. */
  isLoaded = false;
  /** @type {Map<string, any>} */
  #data = new Map();
  #added = new Set();
  #changed = new Set();
  /** @type {Map<string, any>} */
  #removed = new Map();
  #isReset = false;
  #isScheduled = false;
  #subscription;

  /**
   * @param {import("./line.js").Line} line
   * @param {any[]} request a WATCH of a list, or a LISTEN with events about children
   */
  constructor(line, request) {
    super();
    this.#subscription = line.subscribe(request, {
      change: (change) => this.#apply(change),
      end: (error) => this.dispatchEvent(new CustomEvent("end", { detail: error })),
    });
  }

  /** @param {string} key */
  get(key) {
    return this.#data.get(key);
  }

  close() {
    this.#subscription.close();
  }

  /** @param {import("./subscription.js").Change} change */
  #apply({ events, isReset }) {
    const before = isReset ? new Map(this.#data) : null;
    if (isReset) {
      this.keys = [];
      this.#data.clear();
    }
    // The documented order: first all that leave their places, then all that come, each after its predecessor.
    const leaving = new Set(events.filter((e) => e.event !== "child_changed" && e.key !== undefined).map((e) => e.key));
    if (!isReset && leaving.size > 0) this.keys = this.keys.filter((key) => !leaving.has(key));
    for (const { event, key, prev, path, data } of events) {
      if (event === "put" && path === "/") this.#replace(data);
      else if (key === undefined) continue;
      else if (event === "child_removed") this.#data.delete(key);
      else this.#put(key, prev ?? null, data, event !== "child_changed");
    }
    this.#note(events, before);
  }

  /** @param {Record<string, any> | null} data */
  #replace(data) {
    this.keys = Object.keys(data ?? {}).filter((key) => !key.startsWith("."));
    this.#data = new Map(this.keys.map((key) => [key, /** @type {any} */ (data)[key]]));
  }

  /**
   * @param {string} key
   * @param {string | null} prev
   * @param {any} data
   * @param {boolean} isPlaced whether it is to be put after `prev`
   */
  #put(key, prev, data, isPlaced) {
    this.#data.set(key, data);
    if (!isPlaced) return;
    // Most children are added at the end or the beginning.
    const index = prev === null ? 0 : this.keys.at(-1) === prev ? this.keys.length : this.keys.indexOf(prev) + 1;
    this.keys.splice(index, 0, key);
  }

  /**
   * Remembers what the next `change` reports.
   * @param {import("./subscription.js").LineEvent[]} events
   * @param {Map<string, any> | null} before the data before a reset
   */
  #note(events, before) {
    this.isLoaded = true;
    if (before) {
      this.#isReset = true;
      for (const [key, data] of before) if (!this.#data.has(key)) this.#removed.set(key, data);
      for (const key of this.keys) (before.has(key) ? this.#changed : this.#added).add(key);
    } else {
      for (const { event, key = "", data } of events) {
        if (event === "child_removed") {
          this.#added.delete(key);
          this.#changed.delete(key);
          this.#removed.set(key, data);
        } else if (event === "child_added" && !this.#removed.delete(key)) this.#added.add(key);
        else this.#changed.add(key);
      }
    }
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestFrame(() => this.#report());
  }

  #report() {
    const detail = {
      added: this.#added, changed: this.#changed, removed: this.#removed, isReset: this.#isReset,
    };
    this.#added = new Set();
    this.#changed = new Set();
    this.#removed = new Map();
    this.#isReset = false;
    this.#isScheduled = false;
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }
}

/** Calls at the next frame. A hidden page has no frames, so it gets a timer. */
export function requestFrame(/** @type {() => void} */ call) {
  if (document.hidden) setTimeout(call, 100);
  else requestAnimationFrame(call);
}
