// Rates and quantiles from the replies of METRICS in the last seconds.

/** @typedef {{labels: Record<string, string>, value: number, counts: number[], sum: number}} Series */

const repliesMax = 11;

/** The replies of the last ten seconds. A rate is that of the last second; a mean or quantile is that of all of them. */
export class MetricsWindow {
  /** @type {any[]} */
  #replies = [];

  take(/** @type {any} */ reply) {
    // The counters of a server that was started again begin anew.
    const last = this.#replies.at(-1);
    if (last && total(last, "canopy_commits_total") > total(reply, "canopy_commits_total")) this.#replies = [];
    this.#replies = [...this.#replies, reply].slice(-repliesMax);
  }

  /** Returns a number at this moment: the sum of the series with a label. */
  sum(/** @type {string} */ name, /** @type {[string, string]=} */ label) {
    return total(this.#replies.at(-1), name, label);
  }

  /** Returns the growth of a counter in a second; null if it is not known yet. */
  rate(/** @type {string} */ name, /** @type {[string, string]=} */ label) {
    const [before, after] = this.#replies.slice(-2);
    if (!after || after.time <= before.time) return null;
    return (total(after, name, label) - total(before, name, label)) / (after.time - before.time) * 1_000;
  }

  /** Returns the mean of new values; null without any. */
  mean(/** @type {string} */ name) {
    const { number, sum } = this.#grown(name);
    return number > 0 ? sum / number : null;
  }

  /** Returns the bound below which this part of new values is; null without any. */
  quantile(/** @type {string} */ name, /** @type {number} */ part) {
    const { counts, bounds, number } = this.#grown(name);
    let rest = number * part;
    const index = counts.findIndex((count) => (rest -= count) <= 0);
    return number > 0 ? bounds[Math.min(index, bounds.length - 1)] : null;
  }

  /** Returns the growth of a histogram, over all its series. */
  #grown(/** @type {string} */ name) {
    const [first, last] = [this.#replies[0], this.#replies.at(-1)].map((reply) => reply?.metrics[name]);
    const sums = (/** @type {(series: Series) => number} */ part) =>
      [last, first].map((metric) => (metric?.series ?? []).map(part).reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0));
    const growth = (/** @type {(series: Series) => number} */ part) => sums(part).reduce((after, before) => after - before);
    const bounds = /** @type {number[]} */ (last?.bounds ?? []);
    const counts = [...bounds, Infinity].map((_, index) => growth((series) => series.counts[index]));
    return { bounds, counts, sum: growth((series) => series.sum), number: counts.reduce((a, b) => a + b, 0) };
  }
}

/** @returns {number} the sum of the series with a label */
function total(/** @type {any} */ reply, /** @type {string} */ name, /** @type {[string, string]} */ [label, value] = ["", ""]) {
  const series = /** @type {Series[]} */ (reply?.metrics[name]?.series ?? []);
  return series.filter(({ labels }) => !label || labels[label] === value).reduce((sum, each) => sum + each.value, 0);
}
