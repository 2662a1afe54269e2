// The Watch view: figures of the server as live charts, and the last lines of its log.
import { h } from "/shared/dom.js";
import { chart } from "./chart.js";
import { count, duration, size } from "./format.js";
import { logPanel } from "./log.js";
import { sentence } from "./messages.js";
import { MetricsWindow } from "./metrics.js";
import { every } from "./parts.js";

const pollMilliseconds = 1_000;

/** @param {Line} line */
export function watchView(line) {
  const metrics = new MetricsWindow();
  const each = (value) => `${count(value)}/s`;
  const rate = (name, label, value) => () => metrics.rate(name, label, value);
  const sum = (name, label, value) => () => metrics.sum(name, label, value);
  const quantiles = (name) => [0.5, 0.99].map((part) => () => metrics.quantile(name, part));
  const requests = (protocol) => rate("canopy_requests_total", "protocol", protocol);
  const connections = (port) => sum("canopy_connections", "port", port);
  /** @type {[string, string[], (value: number) => string, (() => number | null)[]][]} */
  const figures = [
    ["Requests", ["line", "realtime", "HTTP"], each,
      [requests("line"), requests("realtime"), rate("canopy_http_requests_total")]],
    ["Latency", ["median", "p99"], duration, quantiles("canopy_request_seconds")],
    ["Refused requests", [""], each, [rate("canopy_errors_total")]],
    ["Connections", ["line", "HTTP"], count, [connections("line"), connections("http")]],
    ["Subscriptions", ["all", "different"], count, [sum("canopy_listeners"), sum("canopy_views")]],
    ["Commits", [""], each, [rate("canopy_commits_total")]],
    ["Commits in a batch", ["mean", "p99"], count,
      [() => metrics.mean("canopy_batch_commits"), quantiles("canopy_batch_commits")[1]]],
    ["Append to the journal", ["median", "p99"], duration, quantiles("canopy_append_seconds")],
    ["Checkpoints", [""], duration, [() => metrics.mean("canopy_checkpoint_seconds")]],
    ["Memory", ["process", "for clients"], size,
      [sum("process_resident_memory_bytes"), sum("canopy_connection_bytes")]],
  ];
  const charts = figures.map(([title, names, text]) => chart(title, names, text));
  const state = h("p.notice.error", { role: "status", hidden: true });
  const log = logPanel(line);
  const panels = h("div.charts", charts.map((it) => it.element));

  async function poll() {
    if (document.hidden || line.state !== "online") return;
    try {
      metrics.take(await line.read("METRICS"));
      charts.forEach((it, index) => it.push(figures[index][3].map((value) => value())));
      await log.read();
      state.hidden = true;
    } catch (error) {
      state.hidden = false;
      state.textContent = sentence(error);
    }
  }

  return { element: h("div.view.watch", state, panels, log.element), ...every(pollMilliseconds, poll) };
}
