// The views of the reader's account.
import { button, field, form, h, submit } from "/shared/elements.js";
import { announce } from "./notices.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { empty, forMembers, page } from "./states.js";

/** @param {string} type @param {string} autocomplete @param {Attributes} attributes */
const input = (type, autocomplete, attributes = {}) =>
  h("input", { id: type, name: type, type, autocomplete, required: true, ...attributes });
const emailInput = () => input("email", "username");
const passwordInput = (autocomplete) => input("password", autocomplete);
const nameInput = (value) => input("text", "nickname", { id: "username", name: "username", maxlength: 32, value });
const nameHint = "Letters from a to z, digits, - and _.";

export function signIn() {
  const [email, password] = [emailInput(), passwordInput("current-password")];
  return entrance("Sign in", () => line.logIn("LOGIN", email.value, password.value),
    [field("E-mail address", email), field("Password", password)],
    "No account yet? ", h("a", { href: "/signup" }, "Sign up"));
}

export function signUp() {
  const [name, email, password] = [nameInput(""), emailInput(), passwordInput("new-password")];
  return entrance("Sign up", () => line.logIn("SIGNUP", email.value, password.value, name.value), [
    field("User name", name, `${nameHint} Shown with all that you write. You can change it later.`),
    field("E-mail address", email, "Never shown to others."),
    field("Password", password, "At least 8 characters."),
  ], "Already a member? ", h("a", { href: "/signin" }, "Sign in"));
}

/** @param {string} title @param {() => any} enter @param {Element[]} fields @param {any[]} other another way */
function entrance(title, enter, fields, ...other) {
  const { user } = session;
  if (user) return page(title, empty(`You are signed in as ${user.username}.`, "/account", "Account"));
  const send = async () => {
    await enter();
    router.leaveEntrance();
  };
  return page(title, { class: "narrow" }, form("", send, ...fields, submit(title)), h("p.other", other));
}

export const account = forMembers("Account", (user) => {
  const name = nameInput(user.username);
  const rename = async () => {
    await session.rename(name.value);
    announce("Your user name is changed", true);
  };
  const leave = () => { session.logOut(); router.go("/"); };
  return page("Account", { class: "narrow" },
    form("", rename, field("User name", name, `${nameHint} It changes wherever you wrote.`), submit("Rename")),
    h("div.leave", h("h2", "Session"), h("p", `You are signed in as ${user.username}.`), button("Sign out", leave)));
});
