// The Clients view: open connections with their subscriptions and on-disconnect writes.

import { clear, element as h } from "/shared/dom.js";
import { button, facts, table, update } from "./controls.js";
import { attempt, confirmed, sentence } from "./dialog.js";
import { duration, plural, size, time } from "./format.js";

const page = 100;
const refreshMilliseconds = 2_000;
const names = /** @type {Record<string, string>} */ ({ line: "line", "line-websocket": "line, WebSocket", realtime: "realtime", http: "HTTP", stream: "event stream" });

export function clientsView(/** @type {import("../shared/line.js").Line} */ line) {
  const body = h("tbody", {});
  const foot = h("div", { class: "foot" });
  const detail = h("section", { class: "panel", "aria-label": "Selected connection" }, h("p", { class: "hint" }, "Select a connection."));
  const heads = ["Connection", "Open for", "Address", "User", "Memory", "Waiting", "Subscriptions", "Armed writes"];
  const element = h("div", { class: "view clients" }, h("div", { class: "columns wide" },
    h("div", { class: "panel" }, table("Connections", heads, body), foot), detail));
  /** @type {Map<number, HTMLTableRowElement>} */
  const rows = new Map();
  let timer = 0;
  let round = 0;
  let limit = page;
  let selected = 0;

  async function poll() {
    const mine = ++round;
    clearTimeout(timer);
    try {
      /** @type {any[]} */
      const clients = [];
      let reply;
      do {
        reply = await line.read("CLIENTS", { limit: page, ...(clients.length ? { after: clients.at(-1).id } : {}) });
        clients.push(...reply.clients);
      } while (reply.more && reply.clients.length && clients.length < limit);
      if (mine !== round) return;
      draw(clients, reply);
      if (selected) await show(selected, true);
    } catch (error) {
      if (mine === round) foot.textContent = sentence(error);
    }
    if (mine === round) timer = setTimeout(poll, refreshMilliseconds);
  }

  function draw(/** @type {any[]} */ clients, /** @type {{more: boolean, unanswered: number}} */ { more, unanswered }) {
    const open = new Set(clients.map(({ id }) => id));
    for (const [id, row] of rows) if (!open.has(id)) { row.remove(); rows.delete(id); }
    for (const client of clients) {
      const row = rows.get(client.id) ?? newRow(client);
      const texts = [client.address, user(client), size(client.bytes), client.requests, client.subscriptions, client.armed];
      texts.forEach((text, index) => update(row.cells[index + 2], `${text}`));
      row.cells[1].textContent = duration(Math.max(0, (Date.now() - client.since) / 1_000));
      row.setAttribute("aria-selected", String(client.id === selected));
    }
    const text = plural(clients.length, "connection") + (unanswered ? `; ${plural(unanswered, "event loop")} did not answer` : "");
    if (foot.dataset.text === text + more) return;
    foot.dataset.text = text + more;
    clear(foot, `${text} `, more && button("Show more", () => { limit += page; poll(); }));
  }

  function newRow(/** @type {any} */ { id, protocol, self }) {
    const name = button(`${id}`, () => show(id), { class: "link" });
    const row = h("tr", {}, h("th", { scope: "row" }, name, ` ${names[protocol] ?? protocol}${self ? " (this page)" : ""}`),
      ...heads.slice(1).map(() => h("td", {})));
    rows.set(id, row);
    body.append(row);
    return row;
  }

  const user = (/** @type {any} */ { user: who }) => !who ? "–" : who.administrator ? "administrator" : who.username || who.uid;

  /** `isQuiet`: whether the focus stays. */
  async function show(/** @type {number} */ id, /** @type {boolean=} */ isQuiet) {
    selected = id;
    for (const [each, row] of rows) row.setAttribute("aria-selected", String(each === id));
    try {
      const client = await line.read("CLIENT", id);
      const shown = JSON.stringify([id, user(client), client.namespace, client.listens, client.onDisconnect]);
      if (selected !== id) return;
      if (detail.dataset.shown !== shown) drawDetail(client);
      detail.dataset.shown = shown;
      if (!isQuiet) detail.querySelector("h2")?.focus();
    } catch (error) {
      if (selected !== id) return;
      selected = 0;
      detail.dataset.shown = "";
      clear(detail, h("p", { class: "hint" }, sentence(error)));
    }
  }

  function drawDetail(/** @type {any} */ client) {
    const { id, protocol, address, since, namespace, self, listens, onDisconnect } = client;
    const held = detail.contains(document.activeElement) ? document.activeElement?.tagName : null;
    const end = async () => {
      const text = "It is closed, and its on-disconnect writes are made. The client may connect again.";
      if (!await confirmed({ title: `End connection ${id}?`, text, action: "End it" })) return;
      await attempt(() => line.write("ENDCLIENT", id), `Connection ${id} has ended.`);
      poll();
    };
    clear(detail, h("h2", { tabindex: -1 }, `Connection ${id}`), facts([["Protocol", names[protocol] ?? protocol], ["Address", address],
      ["User", user(client)], ["Since (UTC)", time(since)], ["Namespace", namespace]]),
    h("h3", {}, "Subscriptions"), listens.length ? h("ul", { class: "rows" }, ...listens.map((/** @type {any} */ { sub, path, query, events }) =>
      h("li", {}, h("code", {}, `${sub} ${path ?? "/.info"}`), h("span", {}, `${events} ${JSON.stringify(query)}`)))) : h("p", { class: "hint" }, "None."),
    h("h3", {}, "On-disconnect writes"), onDisconnect.length ? h("ul", { class: "rows" }, ...onDisconnect.map((/** @type {string} */ path) =>
      h("li", {}, h("code", {}, path)))) : h("p", { class: "hint" }, "None."),
    h("div", { class: "row" }, self ? h("p", { class: "hint" }, "This is your own connection.")
      : button("End this connection …", end, { class: "button danger" })));
    if (held) /** @type {HTMLElement|null} */ (detail.querySelector(held === "BUTTON" ? "button" : "h2"))?.focus();
  }

  return {
    element,
    show: poll,
    hide() {
      round += 1;
      clearTimeout(timer);
    },
  };
}
