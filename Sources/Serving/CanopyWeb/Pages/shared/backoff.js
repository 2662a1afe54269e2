const first = 250;
const most = 10_000;

/** The delays between attempts to connect: each about twice the one before, with jitter. */
export class Backoff {
  #attempt = 0;

  /** @returns {number} milliseconds until the next attempt */
  next() {
    const bound = Math.min(most, first * 2 ** this.#attempt++);
    // Many pages lose the same server at the same moment, so they must not all come back at the same moment.
    return bound / 2 + (Math.random() * bound) / 2;
  }

  reset() {
    this.#attempt = 0;
  }
}
