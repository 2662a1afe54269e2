import { LiveList } from "/shared/live-list.js";
import { line } from "./session.js";

const [windowSize, pageSize] = [20, 20];
/** The entries of the tail that are kept while the reader is at the beginning, and at most. */
const [tailKept, tailMax] = [20, 400];

/** The entries of a list of the blog, newest or most starred first: a live window at the beginning, and behind it the
 * tail, which is fetched page by page with `before`. A change is also reported when a page was fetched: `isOlder`. */
export class PagedList extends LiveList {
  hasMore = true; // Whether there may be more entries behind the last.
  hasGap = false; // Whether entries between the window and the tail were dropped, because they were too many.
  /** @type {Map<string, any>} the entries behind the window, in order */ #tail = new Map();
  #options;

  constructor(/** @type {ListOptions} */ options, /** @type {ListListener} */ listener) {
    super(line, ["WATCH", ...options.request, { limit: windowSize }], listener);
    this.#options = options;
  }

  /** The keys in the order in which they are shown. `keys` has only those of the window. */
  get allKeys() { return [...this.keys.toReversed(), ...this.#tail.keys()]; }
  get(/** @type {string} */ key) { return super.get(key) ?? this.#tail.get(key); }

  /** Whether the server sends the changes of an entry by itself. @param {string} key */
  isLive(key) { return super.get(key) !== undefined; }

  /** Replaces an entry of the tail, or removes it. @param {string} key @param {any} data */
  update(key, data) {
    if (!this.#tail.has(key)) return;
    if (data) this.#tail.set(key, data);
    else this.#tail.delete(key);
    super.report({});
  }

  async more() {
    const before = this.allKeys.at(-1);
    const [list, ...parts] = this.#options.request;
    const page = await line.read(list, ...parts, { limit: pageSize, ...(before && { before }) });
    // Entries that do not fit into one reply are behind a cursor, which has no author.
    const entries = page.filter((entry) => entry.uid !== undefined);
    this.hasMore = entries.length < page.length || entries.length === pageSize;
    for (const entry of entries) if (!this.get(entry.id)) this.#tail.set(entry.id, entry);
    super.report({ isOlder: true });
  }

  /** Forgets the end of the tail, or all of a tail behind a gap. It can be fetched again. */
  trim() {
    const keys = [...this.#tail.keys()].slice(this.hasGap ? 0 : tailKept);
    this.hasGap = false;
    for (const key of keys) this.#tail.delete(key);
    if (keys.length > 0) this.hasMore = true;
  }

  /** Moves the entries that others pushed out of the window to the tail. All others that leave it were deleted. */
  report({ left, isReset }) {
    const { keys } = this;
    const { isBefore } = this.#options;
    for (const key of keys) this.#tail.delete(key);
    const isFull = keys.length === windowSize;
    if (isReset && this.#tail.size === 0) this.hasMore = isFull;
    /** @type {[string, any]} */ const last = [keys[0], super.get(keys[0])];
    const fallen = [...left].filter((entry) => isFull && isBefore(last, entry));
    fallen.sort((a, b) => (isBefore(a, b) ? -1 : 1));
    this.hasGap ||= fallen.length > 0 && this.#tail.size > tailMax;
    if (fallen.length > 0 && !this.hasGap) {
      this.hasMore ||= this.#tail.size === 0;
      this.#tail = new Map([...fallen, ...this.#tail]);
    }
    super.report({ isReset });
  }
}
