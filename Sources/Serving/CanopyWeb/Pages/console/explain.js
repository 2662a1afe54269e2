// Asks the rules about a request of a user, and shows every evaluated rule with its verdict.

import { clear, element as h } from "/shared/dom.js";
import { button, field, form, select } from "./controls.js";
import { sentence } from "./dialog.js";
import { parsed } from "./format.js";

/** `goTo` shows a line of the rules. */
export function explainPanel(/** @type {import("../shared/line.js").Line} */ line, /** @type {(row: number) => void} */ goTo) {
  const plain = { spellcheck: "false", autocapitalize: "off", autocomplete: "off" };
  const who = h("input", { ...plain, placeholder: "@name, uid or JSON; empty: nobody" });
  const operation = select({ READ: "reads", SET: "sets", UPDATE: "updates", REMOVE: "removes" }, { onchange: adapt });
  const path = h("input", { ...plain, value: "/", class: "path" });
  const value = h("textarea", { rows: "2", spellcheck: "false", placeholder: "JSON" });
  const valueField = field("Value", value);
  const output = h("div", { role: "status" });

  function adapt() {
    valueField.hidden = !["SET", "UPDATE"].includes(operation.value);
  }

  async function ask() {
    clear(output, h("p", { class: "hint" }, "Asking …"));
    try {
      const subject = who.value.trim();
      const caller = subject === "" || subject === "null" ? null : subject.startsWith("{") ? JSON.parse(subject) : subject;
      const data = valueField.hidden ? [] : [parsed(value.value)];
      const reply = await line.read("EXPLAIN", caller, operation.value, path.value.trim() || "/", ...data);
      clear(output, h("p", { class: reply.allowed ? "verdict allowed" : "verdict denied" }, reply.allowed ? "Allowed" : `Denied: ${reply.reason}`),
        h("ol", { class: "steps" }, ...reply.steps.map(step)));
    } catch (error) {
      clear(output, h("p", { class: "notice error" }, sentence(error)));
    }
  }

  function step(/** @type {any} */ { rule, line: row, at, outcome, parts }) {
    return h("li", {}, h("p", {}, h("b", { class: outcome === "true" ? "yes" : "no" }, outcome), " ", h("code", {}, rule), ` at ${at} `,
      button(`line ${row}`, () => goTo(row), { class: "link" })),
    h("dl", {}, ...parts.flatMap((/** @type {[string, string]} */ [text, shown]) => [h("dt", {}, text), h("dd", {}, shown)])));
  }

  adapt();
  return h("section", { class: "panel explain" }, h("h2", {}, "Explain a request"),
    h("p", { class: "hint" }, "The rules in force decide, without carrying the request out."),
    form("fields", ask, field("Who", who), field("Request", operation), field("Path", path), valueField,
      h("button", { type: "submit", class: "button" }, "Explain")), output);
}
