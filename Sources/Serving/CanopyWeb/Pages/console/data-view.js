// The Data view: a location, the tree below it, the selected place and queries.

import { clear, element as h } from "/shared/dom.js";
import { button, form } from "./controls.js";
import { sentence } from "./dialog.js";
import { above, below, normalPath } from "./format.js";
import { Inspector } from "./inspector.js";
import { queryPanel } from "./query.js";
import { Tree } from "./tree.js";

export function dataView(/** @type {import("../shared/line.js").Line} */ line) {
  const open = (/** @type {string} */ path) => { location.hash = `#/data${encodeURI(path)}`; };
  const input = h("input", { class: "path", "aria-label": "Location", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const up = button("Up", () => open(above(path)), { title: "The location above" });
  const live = h("span", { class: "live", role: "status" });
  const holder = h("div", { class: "panel tree-holder" });
  const queries = h("div", {});
  const inspector = new Inspector(line, open);
  const element = h("div", { class: "view data" },
    form("bar", () => open(normalPath(input.value)), up, input, h("button", { type: "submit", class: "button quiet" }, "Go"), live),
    queries, h("div", { class: "columns" }, holder, inspector.element));
  /** @type {Tree|undefined} */
  let tree;
  /** @type {ReturnType<queryPanel>|undefined} */
  let query;
  let path = "";
  /** @type {import("../shared/subscription.js").Subscription|undefined} */
  let subscription;
  let round = 0;

  function touch(/** @type {string} */ changed) {
    tree?.touch(changed);
    inspector.touch(changed);
  }

  /** Follows the changes from now on. Without a present state a subscription costs the same for every size of the data. */
  async function follow() {
    const mine = ++round;
    subscription?.close();
    try {
      const { metrics } = await line.read("METRICS");
      if (mine !== round) return;
      const since = metrics.canopy_sequence.series[0].value;
      const place = path;
      subscription = line.subscribe(["LISTEN", place, { events: "sync", since }], {
        change({ events }) {
          for (const { event, path: at = "/", data } of events) {
            const changed = normalPath(place + at);
            if (event !== "patch") touch(changed);
            else for (const key of Object.keys(data)) touch(below(changed, key));
          }
        },
        end: stopped,
      });
      live.textContent = "Live";
      touch(place);
    } catch (error) {
      stopped(error);
    }
  }

  function stopped(/** @type {unknown} */ error) {
    clear(live, `Not live: ${sentence(error)} `, button("Follow again", follow, { class: "link" }));
  }

  function begin(/** @type {string} */ next) {
    path = next;
    tree?.close();
    const mine = tree = new Tree(line, path);
    input.value = path;
    up.disabled = path === "/";
    for (const type of ["select", "load"]) tree.addEventListener(type, () => inspector.show(mine.selected));
    tree.addEventListener("edit", () => inspector.focus());
    tree.addEventListener("remove", () => inspector.remove());
    clear(holder, tree.element);
    query?.stop();
    query = queryPanel(line, path, open);
    clear(queries, query.element);
    mine.select(mine.root);
    mine.load(mine.root);
  }

  return {
    element,
    show(/** @type {string} */ rest) {
      const next = normalPath(decoded(rest));
      if (next !== path) begin(next);
      follow();
    },
    hide() {
      round += 1;
      subscription?.close();
    },
  };
}

/** The path in an address. A person may have typed one that is not encoded. */
function decoded(/** @type {string} */ text) {
  try {
    return decodeURI(text);
  } catch {
    return text;
  }
}
