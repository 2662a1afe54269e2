// Rates and quantiles from the replies of METRICS in the last seconds.

/** @typedef {{labels: Record<string, string>, value: number, counts: number[], sum: number}} Series */

const repliesMax = 11;

/** @returns {Series[]} the series of a metric, perhaps only those with a label */
function series(/** @type {any} */ reply, /** @type {string} */ name, /** @type {[string, string]=} */ label) {
  const all = /** @type {Series[]} */ (reply?.metrics[name]?.series ?? []);
  return label ? all.filter(({ labels }) => labels[label[0]] === label[1]) : all;
}

const sum = (/** @type {number[]} */ values) => values.reduce((a, b) => a + b, 0);

/** The replies of the last ten seconds. A rate is that of the last second; a mean or quantile is that of all of them. */
export class MetricsWindow {
  /** @type {any[]} */
  #replies = [];

  take(/** @type {any} */ reply) {
    // The counters of a server that was started again begin anew.
    if ((this.rate("canopy_commits_total", undefined, this.#replies.at(-1), reply) ?? 0) < 0) this.#replies = [];
    this.#replies = [...this.#replies, reply].slice(-repliesMax);
  }

  /** Returns a number at this moment. */
  sum(/** @type {string} */ name, /** @type {[string, string]=} */ label) {
    return sum(series(this.#replies.at(-1), name, label).map(({ value }) => value));
  }

  /** Returns the growth of a counter in a second; null if it is not known yet. */
  rate(/** @type {string} */ name, /** @type {[string, string]=} */ label, before = this.#replies.at(-2), after = this.#replies.at(-1)) {
    if (!before || after.time <= before.time) return null;
    const [old, now] = [before, after].map((reply) => sum(series(reply, name, label).map(({ value }) => value)));
    return (now - old) / (after.time - before.time) * 1_000;
  }

  /** Returns the mean of the new values; null without any. */
  mean(/** @type {string} */ name) {
    const [first, last] = [this.#replies[0], this.#replies.at(-1)].map((reply) => sum(series(reply, name).map((each) => each.sum)));
    const number = sum(this.#counts(name));
    return number > 0 ? (last - first) / number : null;
  }

  /** Returns the bound below which this part of the new values is; null without any. */
  quantile(/** @type {string} */ name, /** @type {number} */ part) {
    const counts = this.#counts(name);
    const number = sum(counts);
    let rest = number * part;
    const index = counts.findIndex((count) => (rest -= count) <= 0);
    return number > 0 ? this.#replies.at(-1).metrics[name].bounds[Math.min(index, counts.length - 2)] : null;
  }

  /** Returns the numbers of new values below each bound, and above all of them. */
  #counts(/** @type {string} */ name) {
    const at = (/** @type {any} */ reply, /** @type {number} */ index) => sum(series(reply, name).map(({ counts }) => counts[index]));
    const [first, last] = [this.#replies[0], this.#replies.at(-1)];
    return [...(last?.metrics[name]?.bounds ?? []), Infinity].map((_, index) => at(last, index) - at(first, index));
  }
}
