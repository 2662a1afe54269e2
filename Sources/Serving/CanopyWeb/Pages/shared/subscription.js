/** A subscription that outlives its connections. It delivers whole commits only. It remembers the number of the last
 * one and resumes from there, so that a reconnection neither repeats nor loses one. */
export class Subscription {
  isClosed = false;
  /** @type {number | null} the last commit that was delivered */ #seq = null;
  /** @type {LineEvent[]} the events of a commit, or of the present state, of which more are to come */ #parts = [];
  #initial = 0; // The events of the present state that are to come.
  #isResuming = false;
  #request; #subscriber; #close;

  /** @param {any[]} request @param {Subscriber} subscriber @param {() => void} close on the server */
  constructor(request, subscriber, close) {
    [this.#request, this.#subscriber, this.#close] = [request, subscriber, close];
  }

  /** Returns the request that begins or resumes it on a new connection. */
  nextRequest() {
    this.#isResuming = this.#seq !== null;
    if (!this.#isResuming) return this.#request;
    const rest = this.#request.filter((part) => typeof part !== "object");
    return [...rest, { ...this.#request[rest.length], since: this.#seq }];
  }

  close() { if (!this.isClosed) this.#close(); this.isClosed = true; }

  begin({ seq, initial }) {
    this.#parts = [];
    // The changes of a resumption have numbers of their own; the present state has one.
    this.#initial = this.#isResuming ? 0 : initial;
    if (initial > 0) return;
    if (this.#isResuming) this.#seq = seq;
    else this.#deliver(seq, true);
  }

  /** The connection broke: a part of a commit is sent again as a whole. */
  interrupt() { this.#parts = []; }

  receive(/** @type {LineEvent} */ event) {
    if (this.isClosed) return;
    this.#parts.push(event);
    const isOfState = this.#initial > 0;
    if (isOfState ? --this.#initial > 0 : event.more) return;
    this.#deliver(event.seq, isOfState || this.#parts.some((it) => it.event === "put" && it.path === "/"));
  }

  fail(/** @type {Error} */ error) { if (!this.isClosed) this.#subscriber.end?.(error); this.isClosed = true; }

  #deliver(seq, isReset) {
    const events = this.#parts;
    this.#parts = [];
    this.#seq = seq;
    this.#subscriber.change({ events, isReset, seq });
  }
}
