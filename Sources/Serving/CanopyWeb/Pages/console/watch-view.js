// The Watch view: figures of the server as live charts, and the last lines of its log.

import { clear, element as h } from "/shared/dom.js";
import { chart } from "./chart.js";
import { sentence } from "./dialog.js";
import { count, duration, size } from "./format.js";
import { logPanel } from "./log.js";
import { MetricsWindow } from "./metrics.js";

const pollMilliseconds = 1_000;

export function watchView(/** @type {import("../shared/line.js").Line} */ line) {
  const each = (/** @type {number} */ value) => `${count(value)}/s`;
  /** @type {[ReturnType<chart>, (m: MetricsWindow) => (number|null)[]][]} */
  const charts = [
    [chart("Requests", ["line", "realtime", "HTTP"], each), (m) => [m.rate("canopy_requests_total", ["protocol", "line"]),
      m.rate("canopy_requests_total", ["protocol", "realtime"]), m.rate("canopy_http_requests_total")]],
    [chart("Latency", ["median", "p99"], duration), (m) => [m.quantile("canopy_request_seconds", 0.5), m.quantile("canopy_request_seconds", 0.99)]],
    [chart("Refused requests", [""], each), (m) => [m.rate("canopy_errors_total")]],
    [chart("Connections", ["line", "HTTP"], count), (m) => [m.sum("canopy_connections", ["port", "line"]), m.sum("canopy_connections", ["port", "http"])]],
    [chart("Subscriptions", ["all", "different"], count), (m) => [m.sum("canopy_listeners"), m.sum("canopy_views")]],
    [chart("Commits", [""], each), (m) => [m.rate("canopy_commits_total")]],
    [chart("Commits in a batch", ["mean", "p99"], count), (m) => [m.mean("canopy_batch_commits"), m.quantile("canopy_batch_commits", 0.99)]],
    [chart("Append to the journal", ["median", "p99"], duration), (m) => [m.quantile("canopy_append_seconds", 0.5), m.quantile("canopy_append_seconds", 0.99)]],
    [chart("Checkpoints", [""], duration), (m) => [m.mean("canopy_checkpoint_seconds")]],
    [chart("Memory", ["process", "for clients"], size), (m) => [m.sum("process_resident_memory_bytes"), m.sum("canopy_connection_bytes")]],
  ];
  const state = h("p", { class: "notice error", role: "status", hidden: true });
  const log = logPanel(line);
  const element = h("div", { class: "view watch" }, state, h("div", { class: "charts" }, ...charts.map(([figure]) => figure.element)), log.element);
  const metrics = new MetricsWindow();
  let timer = 0;
  let isShown = false;

  async function poll() {
    if (!isShown) return;
    if (!document.hidden && line.state === "online") {
      try {
        metrics.take(await line.read("METRICS"));
        for (const [figure, values] of charts) figure.push(values(metrics));
        await log.read();
        state.hidden = true;
      } catch (error) {
        state.hidden = false;
        clear(state, sentence(error));
      }
    }
    clearTimeout(timer);
    timer = setTimeout(poll, pollMilliseconds);
  }

  return {
    element,
    show() { isShown = true; poll(); },
    hide() { isShown = false; clearTimeout(timer); },
  };
}
