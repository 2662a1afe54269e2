// The Clients view: open connections with their subscriptions and on-disconnect writes.
import { plural } from "/shared/basics.js";
import { button, h } from "/shared/elements.js";
import { Directory } from "./directory.js";
import { duration, size, time } from "./format.js";
import { attempt, every, facts, rows } from "./parts.js";

const protocols = { "line-websocket": "line, WebSocket", http: "HTTP", stream: "event stream" };
const heads = ["Connection", "Open for", "Address", "User", "Memory", "Waiting", "Subscriptions", "Armed writes"];
const name = (user) => (!user ? "–" : user.administrator ? "administrator" : user.username || user.uid);

export function clientsView(/** @type {Line} */ line) {
  const directory = new Directory({ noun: "connection", heads, read, describe, detail });
  const element = h("div.view.clients", directory.element);

  async function read(after) {
    const { clients, more, unanswered } = await line.read("CLIENTS", { limit: 100, ...(after && { after }) });
    const note = unanswered ? `${plural(unanswered, "event loop")} did not answer` : "";
    return { entries: clients, after: more && clients.at(-1)?.id, note };
  }

  function describe({ id, protocol, self, since, address, user, bytes, requests, subscriptions, armed }) {
    const age = duration(Math.max(0, (Date.now() - since) / 1_000));
    const note = ` ${protocols[protocol] ?? protocol}${self ? " (this page)" : ""}`;
    const cells = [age, address, name(user), size(bytes), ...[requests, subscriptions, armed].map(String)];
    // The age differs at each reading, which is no change to highlight.
    return { key: id, name: `${id}`, note, cells, calm: 0 };
  }

  async function detail(id) {
    const client = await line.read("CLIENT", id);
    const { protocol, address, user, since, namespace, self, listens, onDisconnect } = client;
    const question = {
      title: `End connection ${id}?`, action: "End it",
      text: "It is closed, and its on-disconnect writes are made. The client may connect again.",
    };
    const end = () => attempt(() => line.write("ENDCLIENT", id), `Connection ${id} has ended.`, question)
      .then((isDone) => isDone && directory.load());
    const parts = [
      facts([
        ["Protocol", protocols[protocol] ?? protocol], ["Address", address], ["User", name(user)],
        ["Since (UTC)", time(since)], ["Namespace", namespace],
      ]),
      h("h3", "Subscriptions"),
      rows(listens.map(({ sub, path, query, events }) =>
        [h("code", `${sub} ${path ?? "/.info"}`), `${events} ${JSON.stringify(query)}`])),
      h("h3", "On-disconnect writes"), rows(onDisconnect.map((path) => [h("code", path)])),
      h("div.row", self ? h("p.hint", "This is your own connection.")
        : button("End this connection …", end, { class: "button danger" })),
    ];
    const state = JSON.stringify([id, name(user), namespace, listens, onDisconnect]);
    return { entry: client, title: `Connection ${id}`, parts, state };
  }

  return { element, ...every(2_000, () => directory.refresh()) };
}
