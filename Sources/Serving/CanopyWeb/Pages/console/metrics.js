// Rates and quantiles from the replies of METRICS in the last seconds.

const repliesMax = 11;
const valueOf = ({ value }) => value;

/** The sum over the series of a metric, perhaps only those with a value of a label. */
function total(reply, of, name, label, value) {
  const series = reply?.metrics[name]?.series ?? [];
  const chosen = label ? series.filter(({ labels }) => labels[label] === value) : series;
  return chosen.reduce((sum, each) => sum + of(each), 0);
}

/** The replies of the last ten seconds. A rate is that of the last second, all else that of all. */
export class MetricsWindow {
  /** @type {any[]} */
  #replies = [];

  take(reply) {
    const [before, after] = [this.#replies.at(-1), reply]
      .map((it) => total(it, valueOf, "canopy_commits_total"));
    // The counters of a server that was started again begin anew.
    this.#replies = [...(after < before ? [] : this.#replies), reply].slice(-repliesMax);
  }

  /** Returns a number at this moment. */
  sum(name, label, value) {
    return total(this.#replies.at(-1), valueOf, name, label, value);
  }

  /** Returns the growth of a counter in a second; null if it is not known yet. */
  rate(name, label, value) {
    const [before, after] = this.#replies.slice(-2);
    if (!after || after.time <= before.time) return null;
    const [old, now] = [before, after].map((it) => total(it, valueOf, name, label, value));
    return ((now - old) / (after.time - before.time)) * 1_000;
  }

  /** Returns the mean of the new values; null without any. */
  mean(name) {
    const number = this.#counts(name).reduce((a, b) => a + b, 0);
    return number > 0 ? this.#growth(({ sum }) => sum, name) / number : null;
  }

  /** Returns the bound below which a part of the new values is; null without any. */
  quantile(name, part) {
    const counts = this.#counts(name);
    const number = counts.reduce((a, b) => a + b, 0);
    let rest = number * part;
    const index = counts.findIndex((count) => (rest -= count) <= 0);
    const { bounds } = this.#replies.at(-1)?.metrics[name] ?? {};
    return number > 0 ? bounds[Math.min(index, counts.length - 2)] : null;
  }

  /** Returns the numbers of new values below each bound, and above all of them. */
  #counts(name) {
    const bounds = [...(this.#replies.at(-1)?.metrics[name]?.bounds ?? []), Infinity];
    return bounds.map((_, index) => this.#growth(({ counts }) => counts[index], name));
  }

  #growth(of, name) {
    return total(this.#replies.at(-1), of, name) - total(this.#replies[0], of, name);
  }
}
