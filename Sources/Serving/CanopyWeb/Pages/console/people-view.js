// The People view: accounts by address or search, and what an administrator may do with one.

import { clear, element as h } from "/shared/dom.js";
import { button, facts, field, form, table } from "./controls.js";
import { attempt, confirmed, sentence } from "./dialog.js";
import { plural, time } from "./format.js";

const page = 50;

export function peopleView(/** @type {import("../shared/line.js").Line} */ line) {
  const find = h("input", { type: "search", placeholder: "A name or an address begins with …", "aria-label": "Search", oninput: searched });
  const body = h("tbody", {});
  const foot = h("div", { class: "foot", role: "status" });
  const detail = h("section", { class: "panel", "aria-label": "Selected account" }, h("p", { class: "hint" }, "Select an account."));
  const element = h("div", { class: "view people" }, h("div", { class: "bar" }, find, button("Refresh", () => load())),
    h("div", { class: "columns" }, h("div", { class: "panel" }, table("Accounts", ["Name", "Address", "Created (UTC)", "State"], body), foot), detail));
  let timer = 0;
  let round = 0;
  let selected = "";

  function searched() {
    clearTimeout(timer);
    timer = setTimeout(() => load(), 250);
  }

  /** `after`: the cursor of a further page. */
  async function load(/** @type {string=} */ after) {
    const mine = ++round;
    const text = find.value.trim();
    foot.textContent = "Loading …";
    try {
      const { users, after: next } = await line.read("USERS", { limit: page, ...(text ? { find: text } : {}), ...(after ? { after } : {}) });
      if (mine !== round) return;
      if (!after) clear(body);
      body.append(...users.map(row));
      const end = text && users.length === page ? `The first ${page}; type more.` : plural(body.childElementCount, "account");
      clear(foot, next ? button("Show more", () => load(next)) : body.childElementCount ? end : text ? "No account matches." : "No accounts.");
    } catch (error) {
      if (mine === round) clear(foot, sentence(error), " ", button("Try again", () => load(after), { class: "link" }));
    }
  }

  function row(/** @type {any} */ user) {
    const name = button(user.username || user.uid, () => show(user.uid), { class: "link" });
    return h("tr", { "data-uid": user.uid, "aria-selected": String(user.uid === selected) }, h("th", { scope: "row" }, name),
      h("td", {}, user.email || user.provider), h("td", {}, time(user.createdAt)), h("td", {}, state(user)));
  }

  const state = (/** @type {any} */ { disabled, pending }) => h("span", { class: disabled ? "tag bad" : "tag" }, disabled ? "disabled" : pending ? "pending" : "active");

  async function show(/** @type {string} */ uid) {
    selected = uid;
    for (const each of body.querySelectorAll("tr")) each.setAttribute("aria-selected", String(each.dataset.uid === uid));
    try {
      const [user, sessions] = await Promise.all([line.read("USER", uid), line.read("SESSIONS", uid)]);
      if (selected !== uid) return;
      [...body.querySelectorAll("tr")].find((each) => each.dataset.uid === uid)?.replaceWith(row(user));
      draw(user, sessions);
      detail.querySelector("h2")?.focus();
    } catch (error) {
      if (selected === uid) clear(detail, h("p", { class: "notice error" }, sentence(error)));
    }
  }

  function draw(/** @type {any} */ user, /** @type {any[]} */ sessions) {
    const { uid, username, email, provider, verified, disabled, createdAt, lastLoginAt } = user;
    const name = username || email || uid;
    const act = async (/** @type {any} */ question, /** @type {any[]} */ [verb, ...parts], /** @type {string} */ done) => {
      if (question && !await confirmed(question)) return;
      await attempt(() => line.write(verb, ...parts), done);
      await show(uid);
    };
    const password = h("input", { type: "password", autocomplete: "new-password", minlength: "8" });
    const rows = sessions.map(({ begun, expires, connections, custom }) => h("tr", {}, h("td", {}, time(begun)), h("td", {}, time(expires)),
      h("td", {}, `${connections}${custom ? ", custom" : ""}`)));
    clear(detail, h("h2", { tabindex: -1 }, name), facts([["uid", h("code", {}, uid)], ["Address", email ? `${email}${verified ? ", verified" : ""}` : "–"],
      ["Login", provider], ["Created", time(createdAt)], ["Last login", time(lastLoginAt)], ["State", state(user)]]),
    h("div", { class: "row" }, disabled
      ? button("Enable", () => act(null, ["ENABLE", uid], `${name} may log in again.`))
      : button("Disable …", () => act({ title: `Disable ${name}?`, text: "All sessions end, and the user cannot log in until you enable the account.",
        action: "Disable" }, ["DISABLE", uid], `${name} is disabled.`), { class: "button danger" })),
    h("h3", {}, `Sessions (${sessions.length})`), rows.length ? table("Sessions", ["Begun", "Expires", "Open"], h("tbody", {}, ...rows))
      : h("p", { class: "hint" }, "No sessions."),
    h("div", { class: "row" }, button("Sign out everywhere …", () => act({ title: `Sign ${name} out everywhere?`, action: "Sign out",
      text: "All tokens are revoked, and open connections lose their login." }, ["ENDSESSIONS", uid], `${name} is signed out everywhere.`),
    { disabled: !rows.length })),
    h("h3", {}, "Password"), form("stack", () => act({ title: `Set the password of ${name}?`, text: "All sessions of the account end.", action: "Set it" },
      ["SETPASSWORD", uid, password.value], "The password is set."), field("New password", password),
    h("div", { class: "row" }, h("button", { type: "submit", class: "button quiet" }, "Set password …"))));
  }

  return { element, show: () => { if (!body.childElementCount) load(); }, hide() {} };
}
