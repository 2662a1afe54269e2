// Asks the rules about a request of a user, and shows every evaluated rule with its verdict.
import { button, field, form, select, submit } from "/shared/controls.js";
import { clear, h } from "/shared/dom.js";
import { parsed } from "./format.js";

const requests = { READ: "reads", SET: "sets", UPDATE: "updates", REMOVE: "removes" };

/** `goTo` shows a line of the rules. @param {Line} line @param {(row: number) => void} goTo */
export function explainPanel(line, goTo) {
  const plain = { spellcheck: "false", autocapitalize: "off", autocomplete: "off" };
  const who = h("input", { ...plain, placeholder: "@name, uid or JSON; empty: nobody" });
  const operation = select(requests, { onchange: adapt });
  const path = h("input.path", { ...plain, value: "/" });
  const value = h("textarea", { rows: 2, spellcheck: "false", placeholder: "JSON" });
  const valueField = field("Value", value);
  const output = h("div", { role: "status" });

  function adapt() {
    valueField.hidden = !["SET", "UPDATE"].includes(operation.value);
  }

  async function ask() {
    clear(output);
    const subject = who.value.trim();
    const caller = subject.startsWith("{") ? JSON.parse(subject) : subject;
    const data = valueField.hidden ? [] : [parsed(value.value)];
    const { allowed, reason, steps } = await line.read("EXPLAIN",
      caller === "" || caller === "null" ? null : caller,
      operation.value, path.value.trim() || "/", ...data);
    const verdict = h("p.verdict", { class: `verdict ${allowed ? "allowed" : "denied"}` },
      allowed ? "Allowed" : `Denied: ${reason}`);
    clear(output, verdict, h("ol.steps", steps.map(step)));
  }

  function step({ rule, line: row, at, outcome, parts }) {
    const mark = h("b", { class: outcome === "true" ? "yes" : "no" }, outcome);
    const link = button(`line ${row}`, () => goTo(row), { class: "link" });
    return h("li", h("p", mark, " ", h("code", rule), ` at ${at} `, link),
      h("dl", parts.map(([text, shown]) => [h("dt", text), h("dd", shown)]).flat()));
  }

  adapt();
  return h("section.panel.explain", h("h2", "Explain a request"),
    h("p.hint", "The rules in force decide, without carrying the request out."),
    form("fields", ask, field("Who", who), field("Request", operation), field("Path", path),
      valueField, submit("Explain")), output);
}
