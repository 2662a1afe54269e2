// The Watch view: figures of the server as live charts, and the last lines of its log.
import { count, failureOf } from "/shared/basics.js";
import { h, setNotice } from "/shared/elements.js";
import { chart } from "./chart.js";
import { duration, size } from "./format.js";
import { logPanel } from "./log.js";
import { metricsWindow } from "./metrics.js";
import { every, sentence } from "./parts.js";

export function watchView(/** @type {Line} */ line) {
  const { take, sum, rate, mean, quantile } = metricsWindow();
  const perSecond = (value) => `${count(value)}/s`;
  /** The rates of the line protocol and of the realtime protocol, whose metrics have the same names. */
  const rates = (name) => ({ line: rate(name, "protocol", "line"), realtime: rate(name, "protocol", "realtime") });
  const quantiles = (name) => ({ median: quantile(0.5, name), p99: quantile(0.99, name) });
  /** @type {[string, (value: number) => string, Record<string, () => number | null>][]} */
  const figures = [
    ["Requests", perSecond, { ...rates("canopy_requests_total"), HTTP: rate("canopy_http_requests_total") }],
    ["Latency", duration, quantiles("canopy_request_seconds")],
    ["Latency of HTTP", duration, quantiles("canopy_http_request_seconds")],
    ["Refused requests", perSecond, {
      ...rates("canopy_errors_total"), HTTP: rate("canopy_http_requests_total", "status", "[45].."),
    }],
    ["Connections", count, {
      line: sum("canopy_connections", "port", "line"), HTTP: sum("canopy_connections", "port", "http"),
    }],
    ["Subscriptions", count, { all: sum("canopy_listeners"), different: sum("canopy_views") }],
    ["Commits", perSecond, { "": rate("canopy_commits_total") }],
    ["Commits in a batch", count, { mean: mean("canopy_batch_commits"), p99: quantile(0.99, "canopy_batch_commits") }],
    ["Append to the journal", duration, quantiles("canopy_append_seconds")],
    ["Checkpoints", duration, { "": mean("canopy_checkpoint_seconds") }],
    ["Memory", size, { process: sum("process_resident_memory_bytes"), "for clients": sum("canopy_connection_bytes") }],
  ];
  const charts = figures.map(([title, text, lines]) => chart(title, text, lines));
  const state = h("p.notice.error", { role: "status", hidden: true });
  const log = logPanel(line);

  async function poll() {
    if (document.hidden || line.state !== "online") return;
    const failure = await failureOf(async () => {
      take(await line.read("METRICS"));
      for (const { draw } of charts) draw();
      await log.read();
    });
    setNotice(state, failure && sentence(failure));
  }

  const element = h("div.view.watch", state, h("div.charts", charts.map((it) => it.element)), log.element);
  return { element, ...every(1_000, poll) };
}
