// Asks the rules about a request of a user, and shows every evaluated rule with its verdict.
import { clear, field, form, h, link, plain, select, submit } from "/shared/elements.js";
import { parsed } from "./format.js";
import { facts } from "./parts.js";

/** `goTo` shows a line of the rules. @param {Line} line @param {(row: number) => void} goTo */
export function explainPanel(line, goTo) {
  const who = h("input", plain, { placeholder: "@name, uid, JSON or empty" });
  const adapt = () => (valueField.hidden = !["SET", "UPDATE"].includes(operation.value));
  const operation = select({ READ: "reads", SET: "sets", UPDATE: "updates", REMOVE: "removes" }, { onchange: adapt });
  const path = h("input.path", plain, { value: "/" });
  const value = h("textarea", { rows: 2, spellcheck: "false", placeholder: "JSON" });
  const valueField = field("Value", value);
  const output = h("div", { role: "status" });

  async function ask() {
    clear(output);
    const subject = who.value.trim();
    const caller = subject.startsWith("{") ? JSON.parse(subject) : subject;
    const data = valueField.hidden ? [] : [parsed(value.value)];
    const { allowed, reason, steps } = await line.read("EXPLAIN",
      caller === "" || caller === "null" ? null : caller, operation.value, path.value.trim() || "/", ...data);
    clear(output, h("p", { class: `verdict ${allowed ? "allowed" : "denied"}` },
      allowed ? "Allowed" : `Denied: ${reason}`), h("ol.steps", steps.map(step)));
  }

  const step = ({ rule, line: row, at, outcome, parts }) => h("li",
    h("p", h("b", { class: outcome === "true" ? "yes" : "no" }, outcome), " ", h("code", rule), ` at ${at} `,
      link(`line ${row}`, () => goTo(row))),
    facts(parts, "parts"));

  adapt();
  return h("section.panel.explain", h("h2", "Explain a request"),
    h("p.hint", "The server checks the request by the rules in force, and does not carry it out."),
    form("fields", ask, field("Who", who), field("Request", operation), field("Path", path), valueField,
      submit("Explain")), output);
}
