/**
 * An event of a subscription, as the server sends it.
 * @typedef {{ event: string, key?: string, prev?: string | null, path?: string, data?: any, seq: number,
 *   more?: boolean }} LineEvent
 *
 * All events of one commit.
 * @typedef {{ events: LineEvent[], isReset: boolean, seq: number }} Change
 *
 * The receiver of the events. With `isReset` the events describe the present state, and all that was known is void.
 * @typedef {{ change: (change: Change) => void, end?: (error: import("./line-error.js").LineError) => void }} Subscriber
 */

/**
 * A subscription that outlives its connections.
 *
 * It delivers whole commits only. It remembers the number of the last one and resumes from there, so that a
 * reconnection neither repeats nor loses one.
 */
export class Subscription {
  isClosed = false;
  /** @type {number | null} the last commit that was delivered */
  #seq = null;
  /** @type {LineEvent[]} the events of a commit, or of the present state, of which more are to come */
  #parts = [];
  /** The events of the present state that are to come. */
  #initial = 0;
  #isResuming = false;
  #request;
  #subscriber;
  #close;

  /**
   * @param {any[]} request
   * @param {Subscriber} subscriber
   * @param {() => void} close ends it on the server
   */
  constructor(request, subscriber, close) {
    this.#request = request;
    this.#subscriber = subscriber;
    this.#close = close;
  }

  /** Returns the request that begins or resumes it on a new connection. */
  nextRequest() {
    this.#isResuming = this.#seq !== null;
    if (!this.#isResuming) return this.#request;
    const last = this.#request.at(-1);
    const hasOptions = typeof last === "object" && last !== null;
    const rest = hasOptions ? this.#request.slice(0, -1) : this.#request;
    return [...rest, { ...(hasOptions ? last : {}), since: this.#seq }];
  }

  close() {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#close();
  }

  /** @param {{ seq: number, initial: number }} reply the reply to the request */
  begin({ seq, initial }) {
    this.#parts = [];
    // The changes of a resumption have numbers of their own; the present state has one.
    this.#initial = this.#isResuming ? 0 : initial;
    if (initial > 0) return;
    if (this.#isResuming) this.#seq = seq;
    else this.#deliver(seq, true);
  }

  /** The connection broke: a part of a commit is sent again as a whole. */
  interrupt() {
    this.#parts = [];
  }

  /** @param {LineEvent} event */
  receive(event) {
    if (this.isClosed) return;
    this.#parts.push(event);
    if (this.#initial > 0) {
      this.#initial -= 1;
      if (this.#initial === 0) this.#deliver(event.seq, true);
    } else if (!event.more) {
      this.#deliver(event.seq, this.#parts.some(isWhole));
    }
  }

  /** @param {import("./line-error.js").LineError} error */
  fail(error) {
    if (this.isClosed) return;
    this.isClosed = true;
    this.#subscriber.end?.(error);
  }

  /**
   * @param {number} seq
   * @param {boolean} isReset
   */
  #deliver(seq, isReset) {
    const events = this.#parts;
    this.#parts = [];
    this.#seq = seq;
    this.#subscriber.change({ events, isReset, seq });
  }
}

/** Whether an event replaces the whole state. */
function isWhole(/** @type {LineEvent} */ event) {
  return event.event === "put" && event.path === "/";
}
