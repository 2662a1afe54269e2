// Rates and quantiles from the replies of METRICS in the last seconds.

const repliesMax = 11;
const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

/** The sum over the series of a metric, perhaps only those whose value of a label matches a pattern. */
function total(reply, name, label = "", pattern = "", of = (it) => it.value) {
  const series = reply?.metrics[name]?.series ?? [];
  const values = new RegExp(`^${pattern}$`);
  return sumOf(series.filter(({ labels }) => !label || values.test(labels[label])).map(of));
}

/** The replies of the last ten seconds, and functions of them, which return null if a value is not known. A rate is
 * that of the last second. Means and quantiles are those of all ten. */
export function metricsWindow() {
  /** @type {any[]} */ let replies = [];
  const growth = (name, of) => total(replies.at(-1), name, "", "", of) - total(replies[0], name, "", "", of);
  const boundsOf = (name) => replies.at(-1)?.metrics[name]?.bounds ?? [];
  /** The numbers of new values below each bound, and above all of them. */
  const countsOf = (name) => [...boundsOf(name), Infinity].map((_, index) => growth(name, (it) => it.counts[index]));

  function take(reply) {
    const [before, after] = [replies.at(-1), reply].map((it) => total(it, "canopy_commits_total"));
    // The counters of a server that was started again begin at zero.
    replies = [...(after < before ? [] : replies), reply].slice(-repliesMax);
  }

  const sum = (...series) => () => total(replies.at(-1), ...series);

  const rate = (...series) => () => {
    const [before, after] = replies.slice(-2);
    if (!after || after.time <= before.time) return null;
    return ((total(after, ...series) - total(before, ...series)) / (after.time - before.time)) * 1_000;
  };

  const mean = (name) => () => {
    const number = sumOf(countsOf(name));
    return number > 0 ? growth(name, (it) => it.sum) / number : null;
  };

  /** The bound below which a part of the new values is. */
  const quantile = (part, name) => () => {
    const counts = countsOf(name);
    let rest = sumOf(counts) * part;
    const index = counts.findIndex((count) => (rest -= count) <= 0);
    return sumOf(counts) > 0 ? boundsOf(name)[Math.min(index, counts.length - 2)] : null;
  };

  return { take, sum, rate, mean, quantile };
}
