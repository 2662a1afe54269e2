// The query builder: an order, a range and a limit; live results, and whether an index serves them.
import { plural, sentence } from "/shared/basics.js";
import { button, clear, field, form, h, keyed, link, plain, select, submit } from "/shared/elements.js";
import { LiveList } from "/shared/live-list.js";
import { below, parsed, short } from "./format.js";
import { update } from "./parts.js";

/** @param {Line} line @param {string} path @param {(path: string) => void} open shows a place */
export function queryPanel(line, path, open) {
  const change = { onchange: adapt };
  const order = select({ $key: "key", $value: "value", $priority: "priority", child: "a child …" }, change);
  const child = h("input", plain, { placeholder: "starCount" });
  const childField = field("Child", child);
  const lower = select({ "": "the beginning", startAt: "at", startAfter: "after", equalTo: "equal to" }, change);
  const low = h("input", plain, { "aria-label": "Lower bound" });
  const upper = select({ "": "the end", endAt: "at", endBefore: "before" }, change);
  const high = h("input", plain, { "aria-label": "Upper bound" });
  const side = select({ limitToFirst: "first", limitToLast: "last" });
  const limit = h("input", { type: "number", min: 1, max: 1000, value: 25, "aria-label": "Number of children" });
  const output = h("div.results");
  /** @type {LiveList | undefined} */ let list;

  function adapt() {
    childField.hidden = order.value !== "child";
    low.disabled = lower.value === "";
    upper.disabled = lower.value === "equalTo";
    high.disabled = upper.disabled || upper.value === "";
  }

  /** The options of the query. A bound of an order by key is a text. */
  function options() {
    const value = (typed) => (order.value === "$key" ? typed : parsed(typed));
    return {
      orderBy: order.value === "child" ? child.value.trim() : order.value,
      ...(!low.disabled && { [lower.value]: value(low.value) }),
      ...(!high.disabled && { [upper.value]: value(high.value) }),
      [side.value]: Number(limit.value),
    };
  }

  function stop() { list?.close(); clear(output); }

  async function run() {
    stop();
    const query = options();
    const index = h("p", { role: "status" }, "Asking …");
    const rows = h("ol.rows");
    const show = keyed(rows, (key) => {
      const value = h("span");
      const name = link(key, () => open(below(path, key)));
      return { element: h("li", name, value), update: (data) => update(value, short(data, 300)) };
    });
    const request = h("code", `LISTEN ${path} ${JSON.stringify(query)}`);
    clear(output, h("p", request), index, rows, button("Close the results", stop));
    // LISTEN makes the index that it needs, so the page asks before.
    const text = await line.read("EXPLAIN", null, "READ", path, query).then((reply) => costs(reply.query), sentence);
    if (!output.contains(index)) return;
    index.textContent = text;
    const mine = (list = new LiveList(line, ["LISTEN", path, query], {
      change() {
        show(mine.keys.map((key) => [key, mine.get(key)]));
        if (mine.keys.length === 0) rows.append(h("li.note", "No child matches."));
      },
      end: (error) => (index.textContent = sentence(error)),
    }));
  }

  adapt();
  const element = h("details.panel.query", h("summary", "Query"),
    form("fields", run, field("Order by", order), childField, h("div.pair", field("From", lower), low),
      h("div.pair", field("To", upper), high), h("div.pair", field("Limit", side), limit), submit("Run")),
    h("p.hint", "A bound is a number, true, false, null or a text. To search for a text such as 12, put it in quotes."),
    output);
  return { element, stop };
}

function costs({ order, indexed, declared, children, matches }) {
  const cost = indexed ? `The index ${order} serves this query: the server reads only the answer.`
    : `No index: the server looks at all ${plural(children, "child", "children")}.`;
  const found = matches === null ? "" : ` ${plural(matches, "child matches", "children match")}, of ${children}.`;
  const hint = " The rules do not declare it with .indexOn, so only the administrator may run this query.";
  return cost + found + (declared ? "" : hint);
}
