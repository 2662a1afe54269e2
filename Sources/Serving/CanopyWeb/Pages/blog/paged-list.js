import { LiveList } from "/shared/live-list.js";
import { line } from "./session.js";

const windowSize = 20;
const pageSize = 20;
/** The entries of the tail that are kept while the reader is at the beginning, and at most. */
const tailKept = 20;
const tailMax = 400;

/**
 * The entries of a list of the blog, newest or most starred first: a live window at the beginning, and behind it the
 * tail, which is fetched page by page with `before`.
 *
 * Events: `change` with the keys of a LiveList, and whether they are of a page that was fetched; and `end`.
 */
export class PagedList extends EventTarget {
  /** Whether there may be more entries behind the last. */
  hasMore = true;
  /** Whether entries between the window and the tail were dropped, because they were too many. */
  isTorn = false;
  /** @type {Map<string, any>} the entries behind the window, in order */
  #tail = new Map();
  #window;
  #request;
  #isBefore;

  /**
   * @param {string[]} request the list, such as `["POSTS", uid]`
   * @param {(a: [string, any], b: [string, any]) => boolean} isBefore the order of two entries with their keys
   */
  constructor(request, isBefore) {
    super();
    this.#request = request;
    this.#isBefore = isBefore;
    this.#window = new LiveList(line, ["WATCH", ...request, { limit: windowSize }]);
    this.#window.addEventListener("change", (event) => this.#changed(/** @type {CustomEvent} */ (event).detail));
    this.#window.addEventListener("end", (event) => {
      this.dispatchEvent(new CustomEvent("end", { detail: /** @type {CustomEvent} */ (event).detail }));
    });
  }

  get isLoaded() {
    return this.#window.isLoaded;
  }

  /** The keys in the order in which they are shown. */
  get keys() {
    return [...this.#window.keys.toReversed(), ...this.#tail.keys()];
  }

  /** @param {string} key */
  get(key) {
    return this.#window.get(key) ?? this.#tail.get(key);
  }

  /** Whether the server sends the changes of an entry by itself. */
  isLive(/** @type {string} */ key) {
    return this.#window.get(key) !== undefined;
  }

  /** Replaces an entry of the tail, or removes it. */
  update(/** @type {string} */ key, /** @type {any} */ data) {
    if (!this.#tail.has(key)) return;
    if (data) this.#tail.set(key, data);
    else this.#tail.delete(key);
    this.#report({ [data ? "changed" : "removed"]: [key] });
  }

  /** Fetches the next page. */
  async more() {
    const before = this.keys.at(-1);
    const [list, ...parts] = this.#request;
    const page = await line.read(list, ...parts, { limit: pageSize, ...(before && { before }) });
    // Entries that do not fit into one reply are behind a cursor, which has no author.
    const entries = page.filter((/** @type {any} */ entry) => entry.uid !== undefined);
    this.hasMore = entries.length < page.length || entries.length === pageSize;
    const added = [];
    for (const entry of entries) {
      if (this.get(entry.id)) continue;
      this.#tail.set(entry.id, entry);
      added.push(entry.id);
    }
    this.#report({ added, isOlder: true });
  }

  /** Forgets the end of the tail, or all of a tail that is torn off. It can be fetched again. */
  trim() {
    const keys = [...this.#tail.keys()].slice(this.isTorn ? 0 : tailKept);
    this.isTorn = false;
    for (const key of keys) this.#tail.delete(key);
    if (keys.length > 0) this.hasMore = true;
  }

  close() {
    this.#window.close();
  }

  #changed(/** @type {any} */ change) {
    const { keys } = this.#window;
    for (const key of keys) this.#tail.delete(key);
    const [last] = keys;
    const isFull = keys.length === windowSize;
    if (change.isReset && this.#tail.size === 0) this.hasMore = isFull;
    const fallen = [...change.removed].filter(([key, data]) => {
      // Other entries pushed it out of the window. Everything else that leaves the window was deleted.
      return isFull && this.#isBefore([last, this.#window.get(last)], [key, data]);
    });
    fallen.sort((a, b) => (this.#isBefore(a, b) ? -1 : 1));
    this.isTorn ||= fallen.length > 0 && this.#tail.size > tailMax;
    if (fallen.length > 0 && !this.isTorn) {
      this.hasMore ||= this.#tail.size === 0;
      this.#tail = new Map([...fallen, ...this.#tail]);
    }
    const removed = [...change.removed.keys()].filter((key) => !this.#tail.has(key));
    this.#report({ ...change, added: [...change.added], removed });
  }

  #report({ added = [], changed = [], removed = [], isReset = false, isOlder = false } = {}) {
    const detail = { added, changed, removed, isReset, isOlder };
    this.dispatchEvent(new CustomEvent("change", { detail }));
  }
}
