// The People view: accounts by address or search, and what an administrator may do with one.
import { debounced } from "/shared/basics.js";
import { button, clear, field, form, h, submit } from "/shared/elements.js";
import { Directory } from "./directory.js";
import { downloadPerson } from "./export.js";
import { time } from "./format.js";
import { attempt, facts, table } from "./parts.js";

const pageSize = 50;

export function peopleView(/** @type {Line} */ line) {
  const find = h("input", {
    type: "search", placeholder: "Start of a name or address", "aria-label": "Search",
    oninput: debounced(250, () => directory.restart()),
  });
  const heads = ["Name", "Address", "Created (UTC)", "State"];
  const directory = new Directory({ noun: "account", heads, read, describe, detail });
  const bar = h("div.bar", find, button("Refresh", () => directory.refresh()));
  /** @type {Promise<void> | undefined} */ let loaded;

  async function read(after) {
    const text = find.value.trim();
    const options = { limit: pageSize, ...(text && { find: text }), ...(after && { after }) };
    const { users, after: next } = await line.read("USERS", options);
    const isCut = text && users.length === pageSize;
    const none = text ? "No account matches." : "No accounts.";
    const note = isCut ? `The first ${pageSize}. Type more to see others.` : !after && !users.length ? none : "";
    return { entries: users, after: next, note };
  }

  function describe({ uid, username, email, provider, createdAt, disabled, pending }) {
    const state = disabled ? "disabled" : pending ? "pending" : "active";
    const tag = h("span.tag", { class: disabled ? "tag bad" : "tag" }, state);
    return { key: uid, name: username || uid, cells: [email || provider, time(createdAt), tag] };
  }

  async function detail(uid) {
    const [user, sessions] = await Promise.all([line.read("USER", uid), line.read("SESSIONS", uid)]);
    const { username, email, provider, verified, disabled, createdAt, lastLoginAt } = user;
    const name = username || email || uid;
    const password = h("input", { type: "password", autocomplete: "new-password", required: true });
    const act = async (done, [verb, ...parts], title = "", action = "", text = "") => {
      const question = title ? { title, action, text } : null;
      if (await attempt(() => line.write(verb, ...parts), done, question)) await directory.select(uid);
    };
    const enable = () => act(`${name} may sign in again.`, ["ENABLE", uid]);
    const disable = () => act(`${name} is disabled.`, ["DISABLE", uid], `Disable ${name}?`, "Disable",
      "All sessions end, and the user cannot sign in until you enable the account.");
    const signOut = () => act(`${name} is signed out everywhere.`, ["ENDSESSIONS", uid],
      `Sign ${name} out everywhere?`, "Sign out", "All tokens are revoked, and open connections become anonymous.");
    const code = h("div", { role: "status" });
    const makeCode = () => attempt(async () => {
      const made = await line.write("RESETCODE", uid);
      clear(code, facts([["Code", h("code", made.code)], ["Expires (UTC)", time(made.expires)]]));
    }, "", { title: `Make a code for ${name}?`, action: "Make it",
      text: "Anyone with the code can set the password, once and within an hour. Give it to the user only." });
    const save = () => attempt(() => downloadPerson(line, uid), `Exported the data of ${name}.`);
    const remove = async (posts, text) => {
      const question = { title: `Delete ${name}${posts ? " with all posts" : ""}?`, action: "Delete", text };
      const deletion = () => line.write("DELETEUSER", uid, { posts });
      if (await attempt(deletion, `${name} is deleted.`, question)) await directory.refresh();
    };
    const setPassword = () => act("The password is set.", ["SETPASSWORD", uid, password.value],
      `Set the password of ${name}?`, "Set it", "All sessions of the account end.");
    const rows = sessions.map(({ begun, expires, connections, custom }) => h("tr",
      [time(begun), time(expires), `${connections}${custom ? ", custom" : ""}`].map((text) => h("td", text))));
    const parts = [
      facts([
        ["uid", h("code", uid)], ["Address", email ? email + (verified ? ", verified" : "") : "–"],
        ["Signs in by", provider], ["Created", time(createdAt)], ["Last sign-in", time(lastLoginAt)],
        ["State", describe(user).cells[2]],
      ]),
      h("div.row", disabled ? button("Enable", enable) : button("Disable …", disable, { class: "button danger" }),
        button("Export", save)),
      h("h3", `Sessions (${sessions.length})`),
      rows.length ? table("Sessions", ["Begun", "Expires", "Open"], h("tbody", rows)) : h("p.hint", "No sessions."),
      h("div.row", button("Sign out everywhere …", signOut, { disabled: !rows.length })),
      h("h3", "Password"),
      form("stack", setPassword, field("New password", password),
        h("div.row", submit("Set password …", "button quiet"),
          button("Reset code …", makeCode, { disabled: disabled || !email }))), code,
      h("h3", "Deletion"),
      h("div.row", button("Delete the account …", () => remove(false, "The account and its sessions are removed for "
        + "ever. Posts, comments and stars stay, and nobody can take the name."), { class: "button danger" }),
        button("Delete with posts …", () => remove(true, "The account is removed for ever, with its posts and the "
          + "comments on them, its comments, stars and name."), { class: "button danger" })),
    ];
    return { entry: user, title: name, parts, state: JSON.stringify([user, sessions]) };
  }

  const show = () => void (loaded ??= directory.load());
  return { element: h("div.view.people", bar, directory.element), show };
}
