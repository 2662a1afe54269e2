// The Data view: a location, the tree below it, the selected place and queries.
import { decoded } from "/shared/basics.js";
import { button, clear, form, h, link, plain, submit } from "/shared/elements.js";
import { above, below, normalPath } from "./format.js";
import { Inspector } from "./inspector.js";
import { sentence } from "./parts.js";
import { queryPanel } from "./query.js";
import { Tree } from "./tree.js";

export function dataView(/** @type {Line} */ line) {
  const open = (path) => (location.hash = `#/data${encodeURI(path).replaceAll("#", "%23")}`);
  const input = h("input.path", { "aria-label": "Location" }, plain);
  const up = button("Up", () => open(above(path)), { title: "The location above" });
  const live = h("span.live", { role: "status" });
  const [holder, queries] = [h("div.panel.tree-holder"), h("div")];
  const inspector = new Inspector(line, open);
  const go = submit("Go", "button quiet");
  const bar = form("bar", () => open(normalPath(input.value)), up, input, go, live);
  const element = h("div.view.data", bar, queries, h("div.columns", holder, inspector.element));
  /** @type {Tree | undefined} */ let tree;
  /** @type {ReturnType<queryPanel> | undefined} */ let query;
  let path = "";
  /** @type {Subscription | undefined} */ let subscription;
  let round = 0;

  /** Follows the changes from now on. Without a present state that costs the same for every size of the data. */
  async function follow() {
    const mine = ++round;
    const place = path;
    subscription?.close();
    try {
      const { seq } = await line.read("NAMESPACES");
      if (mine !== round) return;
      const change = ({ events }) => {
        for (const { event, path: at = "/", data } of events) {
          const changed = normalPath(place + at);
          const keys = event === "patch" ? Object.keys(data) : null;
          for (const it of keys?.map((key) => below(changed, key)) ?? [changed]) tree?.touch(it);
        }
      };
      subscription = line.subscribe(["LISTEN", place, { events: "sync", since: seq }], { change, end: stopped });
      live.textContent = "Live";
      tree?.touch(place);
    } catch (error) {
      stopped(error);
    }
  }

  function stopped(error) { clear(live, `Not live: ${sentence(error)} `, link("Follow again", follow)); }

  function begin(next) {
    path = next;
    input.value = path;
    up.disabled = path === "/";
    tree?.close();
    tree = new Tree(line, path, inspector);
    query?.stop();
    query = queryPanel(line, path, open);
    clear(holder, tree.element);
    clear(queries, query.element);
    tree.select(tree.root);
    tree.load(tree.root);
  }

  /** Shows the path in the address. */
  function show(/** @type {string} */ rest) {
    const next = normalPath(decoded(rest));
    if (next !== path) begin(next);
    follow();
  }

  function hide() { round += 1; subscription?.close(); }

  return { element, show, hide };
}
