// The Data view: a location, the tree below it, the selected place and queries.
import { button, form, submit } from "/shared/controls.js";
import { clear, h } from "/shared/dom.js";
import { above, below, normalPath } from "./format.js";
import { Inspector } from "./inspector.js";
import { sentence } from "./messages.js";
import { queryPanel } from "./query.js";
import { Tree } from "./tree.js";

/** @param {Line} line */
export function dataView(line) {
  const open = (path) => (location.hash = `#/data${encodeURI(path).replaceAll("#", "%23")}`);
  const plain = { spellcheck: "false", autocapitalize: "off", autocomplete: "off" };
  const input = h("input.path", { "aria-label": "Location", ...plain });
  const up = button("Up", () => open(above(path)), { title: "The location above" });
  const live = h("span.live", { role: "status" });
  const holder = h("div.panel.tree-holder");
  const queries = h("div");
  const inspector = new Inspector(line, open);
  const go = submit("Go", { class: "button quiet" });
  const bar = form("bar", () => open(normalPath(input.value)), up, input, go, live);
  const element = h("div.view.data", bar, queries, h("div.columns", holder, inspector.element));
  /** @type {Tree | undefined} */
  let tree;
  /** @type {ReturnType<queryPanel> | undefined} */
  let query;
  let path = "";
  /** @type {Subscription | undefined} */
  let subscription;
  let round = 0;

  function touch(changed) {
    tree?.touch(changed);
    inspector.touch(changed);
  }

  /** Follows the changes from now on. Without a present state that costs the same for every size of the data. */
  async function follow() {
    const mine = ++round;
    const place = path;
    subscription?.close();
    try {
      const { seq } = await line.read("NAMESPACES");
      if (mine !== round) return;
      subscription = line.subscribe(["LISTEN", place, { events: "sync", since: seq }], {
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

  function stopped(error) {
    const again = button("Follow again", follow, { class: "link" });
    clear(live, `Not live: ${sentence(error)} `, again);
  }

  function begin(next) {
    path = next;
    tree?.close();
    const mine = (tree = new Tree(line, path));
    input.value = path;
    up.disabled = path === "/";
    for (const type of ["select", "load"]) {
      tree.addEventListener(type, () => inspector.show(mine.selected));
    }
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
    /** @param {string} rest the path in the address */
    show(rest) {
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
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
