// The Clients view: open connections with their subscriptions and on-disconnect writes.
import { button, confirmed } from "/shared/controls.js";
import { h } from "/shared/dom.js";
import { Directory } from "./directory.js";
import { duration, plural, size, time } from "./format.js";
import { attempt } from "./messages.js";
import { every, facts, rows } from "./parts.js";

const pageSize = 100;
const refreshMilliseconds = 2_000;
const protocols = {
  line: "line", "line-websocket": "line, WebSocket", realtime: "realtime", http: "HTTP",
  stream: "event stream",
};
const heads = [
  "Connection", "Open for", "Address", "User", "Memory", "Waiting", "Subscriptions", "Armed writes",
];

/** @param {Line} line */
export function clientsView(line) {
  const directory = new Directory({ noun: "connection", heads, read, describe, detail });
  directory.element.classList.add("wide");
  const element = h("div.view.clients", directory.element);

  async function read(after) {
    const options = { limit: pageSize, ...(after && { after }) };
    const { clients, more, unanswered } = await line.read("CLIENTS", options);
    const note = unanswered ? `${plural(unanswered, "event loop")} did not answer` : "";
    return { entries: clients, after: more && clients.at(-1)?.id, note };
  }

  function describe({ id, protocol, self, since, address, user, bytes, requests, subscriptions, armed }) {
    const age = duration(Math.max(0, (Date.now() - since) / 1_000));
    const note = ` ${protocols[protocol] ?? protocol}${self ? " (this page)" : ""}`;
    const numbers = [size(bytes), `${requests}`, `${subscriptions}`, `${armed}`];
    // The age differs at each reading, which is no change to highlight.
    return { key: id, name: `${id}`, note, cells: [age, address, name(user), ...numbers], calm: 0 };
  }

  async function detail(id) {
    const client = await line.read("CLIENT", id);
    const { protocol, address, user, since, namespace, self, listens, onDisconnect } = client;
    const end = async () => {
      const text = "It is closed, and its on-disconnect writes are made. The client may connect again.";
      if (!(await confirmed({ title: `End connection ${id}?`, text, action: "End it" }))) return;
      await attempt(() => line.write("ENDCLIENT", id), `Connection ${id} has ended.`);
      directory.load();
    };
    const parts = [
      facts([
        ["Protocol", protocols[protocol] ?? protocol], ["Address", address], ["User", name(user)],
        ["Since (UTC)", time(since)], ["Namespace", namespace],
      ]),
      h("h3", "Subscriptions"),
      rows(listens.map(({ sub, path, query, events }) => [
        h("code", `${sub} ${path ?? "/.info"}`), `${events} ${JSON.stringify(query)}`,
      ]), "None."),
      h("h3", "On-disconnect writes"), rows(onDisconnect.map((path) => [h("code", path)]), "None."),
      h("div.row", self ? h("p.hint", "This is your own connection.")
        : button("End this connection …", end, { class: "button danger" })),
    ];
    const state = JSON.stringify([id, name(user), namespace, listens, onDisconnect]);
    return { entry: client, title: `Connection ${id}`, parts, state };
  }

  const refresh = async () => {
    await directory.load();
    if (directory.selected) await directory.select(directory.selected, true);
  };
  return { element, ...every(refreshMilliseconds, refresh) };
}

const name = (user) => (!user ? "–" : user.administrator ? "administrator" : user.username || user.uid);
