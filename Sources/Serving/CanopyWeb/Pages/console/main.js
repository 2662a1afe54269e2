// The frame of the console: the administrator's login, the views and the state of the connection.

import { clear, element as h } from "/shared/dom.js";
import { Line } from "/shared/line.js";
import { clientsView } from "./clients-view.js";
import { field, form } from "./controls.js";
import { dataView } from "./data-view.js";
import { sentence } from "./dialog.js";
import { peopleView } from "./people-view.js";
import { rulesView } from "./rules-view.js";
import { watchView } from "./watch-view.js";

/** @typedef {{element: HTMLElement, show: (rest: string) => void, hide: () => void}} View */

const kept = "canopy.console.token";
const makers = { data: dataView, rules: rulesView, people: peopleView, watch: watchView, clients: clientsView };
const [main, nav, state, leave] = ["main", "views", "state", "leave"].map((id) => /** @type {HTMLElement} */ (document.getElementById(id)));
const line = new Line({ token: () => sessionStorage.getItem(kept) });

/** @type {Record<string, View>} those that were shown */
let views = {};
/** @type {View|undefined} */
let current;

/** Shows the view that the address names, and creates it the first time. */
function route() {
  if (!line.identity?.administrator) return;
  const [, asked, rest] = /^#\/(\w*)(.*)$/.exec(location.hash) ?? ["", "", ""];
  const name = /** @type {keyof typeof makers} */ (asked in makers ? asked : "data");
  const view = views[name] ??= makers[name](line);
  if (view !== current) {
    current?.hide();
    clear(main, view.element);
    current = view;
  }
  for (const link of nav.children) {
    if (link.id === `view-${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title(name)} – Canopy console`;
  view.show(name === asked ? rest : "");
}

const title = (/** @type {string} */ name) => name[0].toUpperCase() + name.slice(1);

/** Asks for the token. It stays in this tab, and goes with it. */
function gate(/** @type {string} */ reason = "") {
  current?.hide();
  [views, current] = [{}, undefined];
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "reason" });
  const note = h("p", { id: "reason", class: "notice error", role: "alert", hidden: !reason }, reason);
  const submit = async () => {
    note.hidden = true;
    try {
      const text = token.value.trim();
      const identity = await line.logIn("AUTH", text);
      if (identity.administrator) return enter(text);
      line.close();
      line.open();
      throw new Error("This is the token of a user. The console is for the administrator.");
    } catch (error) {
      note.textContent = sentence(error);
      note.hidden = false;
      token.select();
    }
  };
  clear(main, form("gate panel", submit, h("h2", {}, "Sign in as the administrator"),
    field("Token", token, "It is in the file admin-token of the data folder, and stays in this tab."), note,
    h("button", { type: "submit", class: "button" }, "Sign in")));
  nav.hidden = leave.hidden = true;
  token.focus();
}

function enter(/** @type {string} */ token) {
  sessionStorage.setItem(kept, token);
  nav.hidden = leave.hidden = false;
  route();
}

clear(nav, ...Object.keys(makers).map((name) => h("a", { id: `view-${name}`, href: `#/${name}` }, title(name))));
line.addEventListener("state", () => {
  document.body.classList.toggle("offline", line.state !== "online");
  state.textContent = line.state === "online" ? "" : "No connection. Trying again …";
  // The first connection says whether the kept token is good.
  if (line.state !== "online" || current) return;
  if (line.identity?.administrator) enter(/** @type {string} */ (sessionStorage.getItem(kept)));
  else if (!main.childElementCount) gate();
});
line.addEventListener("refused", () => {
  sessionStorage.removeItem(kept);
  gate("The server does not accept the token any longer.");
});
leave.addEventListener("click", () => {
  sessionStorage.removeItem(kept);
  sessionStorage.removeItem("canopy.console.rules");
  line.close();
  gate();
  line.open();
});
addEventListener("hashchange", route);
state.textContent = "Connecting …";
line.open();
