// The frame of the console: the administrator's login, the views and the state of the connection.
import { sentence } from "/shared/basics.js";
import { byId, clear, field, form, h, plain, select, submit } from "/shared/elements.js";
import { Line } from "/shared/line.js";
import { backupsView } from "./backups-view.js";
import { clientsView } from "./clients-view.js";
import { dataView } from "./data-view.js";
import { say } from "./parts.js";
import { peopleView } from "./people-view.js";
import { rulesView } from "./rules-view.js";
import { watchView } from "./watch-view.js";

const kept = { login: "canopy.console.login", namespace: "canopy.console.namespace" };
const makers = {
  data: dataView, rules: rulesView, people: peopleView, watch: watchView, clients: clientsView, backups: backupsView,
};
const [main, nav, state, leave, holder] = ["main", "views", "state", "leave", "namespace"].map(byId);
const inForm = /^#pass=([\w-]+)$/;
/** The token of a link that is good for one use. The address bar and the history forget it at once. */
let pass = inForm.exec(location.hash)?.[1];
if (pass) history.replaceState(null, "", location.pathname);

const title = (name) => name[0].toUpperCase() + name.slice(1);
const namespace = () => sessionStorage.getItem(kept.namespace) ?? "default";
/** The request that logs in. The browser forgets it when the tab is closed. */
const login = () => JSON.parse(sessionStorage.getItem(kept.login) ?? "null");
const keepLogin = (...request) => sessionStorage.setItem(kept.login, JSON.stringify(request));
const line = new Line(() => {
  if (pass) sessionStorage.removeItem(kept.login);
  const request = pass ? ["REDEEM", pass] : login();
  pass = undefined;
  return request ? [request, ["USE", namespace()]] : [];
});

/** @type {Record<string, View>} those that were shown */ let views = {};
/** @type {View | undefined} */ let current;

/** Shows the view that the address names, and creates it the first time. */
function route() {
  if (inForm.test(location.hash)) location.reload();
  if (!line.identity?.administrator) return;
  const [, asked, rest] = /^#\/(\w*)(.*)$/.exec(location.hash) ?? ["", "", ""];
  const name = Object.hasOwn(makers, asked) ? asked : "data";
  const view = (views[name] ??= makers[name](line, namespace()));
  if (view !== current) {
    current?.hide?.();
    clear(main, view.element);
    current = view;
  }
  for (const link of nav.children) link.ariaCurrent = link.id === `view-${name}` ? "page" : null;
  document.title = `${title(name)} – Canopy console`;
  view.show?.(name === asked ? rest : "");
}

/** Takes the present view off the screen, and keeps it with its unsaved texts. */
function leaveView() { current?.hide?.(); current = undefined; clear(main); }

/** Forgets the views, whose data is that of another login or namespace. */
function drop() { leaveView(); views = {}; }

function gate(reason = "") {
  leaveView();
  const token = h("input", plain, { type: "password", required: true });
  const notice = h("p.notice.error", { role: "alert", hidden: !reason }, reason);
  const send = async () => {
    notice.hidden = true;
    token.select();
    const text = token.value.trim();
    const { administrator } = await line.logIn("AUTH", text);
    if (administrator) keepLogin("AUTH", text);
    // The new connection is that of the administrator, in the selected namespace, or is anonymous again.
    line.reopen();
    if (!administrator) throw new Error("This is the token of a user, not that of the administrator");
  };
  const hint = "It is in the file admin-token of the data folder, and stays in this tab.";
  clear(main, form("gate panel", send, h("h2", "Sign in as the administrator"),
    notice, field("Token", token, hint), submit("Sign in")));
  nav.hidden = leave.hidden = holder.hidden = true;
  token.focus();
}

/** Shows the views. A link has given a token for further connections. */
async function enter() {
  const { token } = line.identity;
  if (token) keepLogin("REDEEM", token);
  nav.hidden = leave.hidden = false;
  route();
  const { names } = await line.read("NAMESPACES").catch(() => ({ names: [] }));
  const choice = select(names, { "aria-label": "Namespace", onchange: () => use(choice.value) });
  choice.value = namespace();
  clear(holder, choice);
  holder.hidden = names.length < 2;
}

function use(name) { sessionStorage.setItem(kept.namespace, name); drop(); line.reopen(); }

clear(nav, Object.keys(makers).map((name) => h("a", { id: `view-${name}`, href: `#/${name}` }, title(name))));
line.addEventListener("state", () => {
  const isOnline = line.state === "online";
  document.body.classList.toggle("offline", !isOnline);
  state.textContent = isOnline ? "" : "No connection. Trying again …";
  // The first connection says whether the kept token is good.
  if (!isOnline || current) return;
  if (line.identity?.administrator) enter();
  else if (main.childElementCount === 0) gate();
});
line.addEventListener("refused", ({ detail }) => {
  if (detail.code === "NOT_FOUND") {
    say(`The namespace ${namespace()} does not exist any longer.`, "bad");
    return use("default");
  }
  const hadToken = login() !== null;
  sessionStorage.removeItem(kept.login);
  gate(hadToken ? "Your session has ended. Sign in again, or open a new link." : sentence(detail));
});
leave.addEventListener("click", async () => {
  // The token of a link ends on the server; the administrator's own stays valid.
  const [verb, token] = login() ?? [];
  const warn = () => say("There is no connection, so the token of this tab stays valid for up to twelve hours.", "bad");
  if (verb === "REDEEM") await line.write("ENDPASS", token).catch(warn);
  sessionStorage.clear();
  line.close();
  drop();
  gate();
  line.open();
});
addEventListener("hashchange", route);
clear(main);
state.textContent = "Connecting …";
line.open();
