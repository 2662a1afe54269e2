// Rates and quantiles from the replies of METRICS in the last seconds.

/** @typedef {{labels: Record<string, string>, value: number, counts: number[], sum: number, count: number}} Series */

const replies = 11;

/** The replies of the last ten seconds. A rate is that of the last second; a quantile is that of all of them. */
export class MetricsWindow {
  /** @type {any[]} */
  #replies = [];

  take(/** @type {any} */ reply) {
    // The counters of a server that was started again begin anew.
    const [before, after] = [this.#replies.at(-1), reply].map((each) => total(each, "canopy_commits_total"));
    if (before > after) this.#replies = [];
    this.#replies.push(reply);
    if (this.#replies.length > replies) this.#replies.shift();
  }

  /** A number at this moment. */
  sum(/** @type {string} */ name, /** @type {Record<string, string>=} */ labels) {
    return total(this.#replies.at(-1), name, labels);
  }

  /** The growth of a counter in a second; null if it is not known yet. */
  rate(/** @type {string} */ name, /** @type {Record<string, string>=} */ labels) {
    const [before, after] = this.#replies.slice(-2);
    if (!after || after.time <= before.time) return null;
    return Math.max(0, (total(after, name, labels) - total(before, name, labels)) / (after.time - before.time) * 1000);
  }

  /** The mean of the values in the window; null without values. */
  mean(/** @type {string} */ name) {
    const { counts, sum } = this.#grown(name);
    const number = counts.reduce((a, b) => a + b, 0);
    return number > 0 ? sum / number : null;
  }

  /** The bound below which this part of the values is; null without values. */
  quantile(/** @type {string} */ name, /** @type {number} */ part) {
    const { counts, bounds } = this.#grown(name);
    let rest = counts.reduce((a, b) => a + b, 0) * part;
    if (rest <= 0) return null;
    const index = counts.findIndex((value) => (rest -= value) <= 0);
    return bounds[Math.min(Math.max(index, 0), bounds.length - 1)];
  }

  /** The values of a histogram in the window, over all its series. */
  #grown(/** @type {string} */ name) {
    const [first, last] = [this.#replies[0], this.#replies.at(-1)].map((reply) => reply?.metrics[name]);
    const bounds = /** @type {number[]} */ (last?.bounds ?? []);
    const counts = bounds.concat(0).map(() => 0);
    let sum = 0;
    for (const [metric, sign] of first === last ? [] : /** @type {[any, number][]} */ ([[first, -1], [last, 1]])) {
      for (const series of /** @type {Series[]} */ (metric?.series ?? [])) {
        sum += sign * series.sum;
        series.counts.forEach((value, index) => { counts[index] += sign * value; });
      }
    }
    return { bounds, counts, sum };
  }
}

function total(/** @type {any} */ reply, /** @type {string} */ name, /** @type {Record<string, string>} */ labels = {}) {
  const series = /** @type {Series[]} */ (reply?.metrics[name]?.series ?? []);
  return series.filter((each) => Object.entries(labels).every(([label, value]) => each.labels[label] === value))
    .reduce((sum, each) => sum + each.value, 0);
}
