// The query builder: an order, a range and a limit; live results, and whether an index serves them.

import { clear, element as h } from "/shared/dom.js";
import { LiveList } from "/shared/live-list.js";
import { button, field, form, select, update } from "./controls.js";
import { sentence } from "./dialog.js";
import { below, parsed, plural, short } from "./format.js";

export function queryPanel(/** @type {import("../shared/line.js").Line} */ line, /** @type {string} */ path, /** @type {(path: string) => void} */ open) {
  const order = select({ $key: "key", $value: "value", $priority: "priority", child: "a child …" });
  const child = h("input", { placeholder: "starCount", spellcheck: "false", autocapitalize: "off" });
  const lower = select({ "": "the beginning", startAt: "at", startAfter: "after", equalTo: "equal to" });
  const low = h("input", { spellcheck: "false", "aria-label": "Lower bound" });
  const upper = select({ "": "the end", endAt: "at", endBefore: "before" });
  const high = h("input", { spellcheck: "false", "aria-label": "Upper bound" });
  const side = select({ limitToFirst: "first", limitToLast: "last" });
  const limit = h("input", { type: "number", min: "1", max: "1000", value: "25", "aria-label": "Number of children" });
  const childField = field("Child", child);
  const output = h("div", { class: "results" });
  /** @type {LiveList|undefined} */
  let list;

  function adapt() {
    childField.hidden = order.value !== "child";
    low.disabled = lower.value === "";
    upper.disabled = lower.value === "equalTo";
    high.disabled = upper.disabled || upper.value === "";
  }

  /** The options of the query. A bound of an order by key is a text. */
  function options() {
    const value = (/** @type {string} */ typed) => (order.value === "$key" ? typed : parsed(typed));
    return {
      orderBy: order.value === "child" ? child.value.trim() : order.value,
      ...(low.disabled ? {} : { [lower.value]: value(low.value) }),
      ...(high.disabled ? {} : { [upper.value]: value(high.value) }),
      [side.value]: Number(limit.value),
    };
  }

  function stop() {
    list?.close();
    list = undefined;
    clear(output);
  }

  async function run() {
    stop();
    const query = options();
    const index = h("p", { role: "status" }, "Asking …");
    const rows = h("ol", { class: "rows" });
    clear(output, h("p", {}, h("code", {}, `LISTEN ${path} ${JSON.stringify(query)}`)), index, rows, button("Close the results", stop));
    const mine = list = new LiveList(line, ["LISTEN", path, query]);
    mine.addEventListener("end", (event) => { index.textContent = sentence(/** @type {CustomEvent} */ (event).detail); });
    /** @type {Map<string, HTMLElement>} */
    const shown = new Map();
    mine.addEventListener("change", () => {
      for (const key of shown.keys()) if (mine.get(key) === undefined) shown.delete(key);
      const items = mine.keys.map((key) => {
        const item = shown.get(key) ?? h("li", {}, button(key, () => open(below(path, key)), { class: "link" }), h("span", {}));
        update(/** @type {Element} */ (item.lastElementChild), short(mine.get(key), 300));
        shown.set(key, item);
        return item;
      });
      // Rows that stay in their order keep the focus.
      if (items.length && items.length === rows.childElementCount && items.every((item, index) => item === rows.children[index])) return;
      clear(rows, ...(items.length ? items : [h("li", { class: "note" }, "No child matches.")]));
    });
    try {
      const { query: facts } = await line.read("EXPLAIN", null, "READ", path, query);
      if (mine === list) index.textContent = explained(facts);
    } catch (error) {
      if (mine === list) index.textContent = sentence(error);
    }
  }

  for (const control of [order, lower, upper]) control.addEventListener("change", adapt);
  adapt();
  const element = h("details", { class: "panel query" }, h("summary", {}, "Query"),
    form("fields", run, field("Order by", order), childField, field("From", lower), low, field("To", upper), high,
      field("Limit", side), limit, h("button", { type: "submit", class: "button" }, "Run")),
    h("p", { class: "hint" }, "A bound is a number, true, false, null, or else a text; put the text of a number in quotes."), output);
  return { element, stop };
}

function explained(/** @type {{order: string, indexed: boolean, declared: boolean, children: number, matches: number|null}} */ { order, indexed, declared, children, matches }) {
  const cost = indexed ? `The index ${order} serves this query: the server reads only the answer.`
    : `No index: the server looks at all ${plural(children, "child", "children")}.`;
  const found = matches === null ? "" : ` ${plural(matches, "child matches", "children match")}, of ${children}.`;
  return cost + found + (declared ? "" : ` The rules do not declare it with .indexOn, so others than the administrator are refused.`);
}
