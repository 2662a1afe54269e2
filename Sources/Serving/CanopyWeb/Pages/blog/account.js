// The views of the reader's account.
import { button, field, form, h, submit } from "/shared/elements.js";
import { announce, report } from "./notices.js";
import * as router from "./router.js";
import { line, session } from "./session.js";
import { forMembers, page } from "./states.js";

/** @param {string} type @param {string} autocomplete @param {Attributes} attributes */
const input = (type, autocomplete, attributes = {}) =>
  h("input", { id: type, name: type, type, autocomplete, required: true, ...attributes });
const emailInput = () => input("email", "username");
const passwordInput = (autocomplete) => input("password", autocomplete);
const nameInput = (value) => input("text", "nickname", { id: "username", name: "username", maxlength: 32, value });

export function signIn() {
  const [email, password] = [emailInput(), passwordInput("current-password")];
  return entrance("Sign in", () => line.logIn("LOGIN", email.value, password.value),
    [field("E-mail address", email), field("Password", password)],
    "No account yet? ", h("a", { href: "/signup" }, "Sign up"));
}

export function signUp() {
  const [name, email, password] = [nameInput(""), emailInput(), passwordInput("new-password")];
  return entrance("Sign up", () => line.logIn("SIGNUP", email.value, password.value, name.value), [
    field("User name", name, "Shown with all that you write. You can change it later."),
    field("E-mail address", email, "Never shown to others."),
    field("Password", password, "At least 8 characters."),
  ], "Already a member? ", h("a", { href: "/signin" }, "Sign in"));
}

/** @param {string} title @param {() => any} enter @param {Element[]} fields @param {any[]} other another way */
function entrance(title, enter, fields, ...other) {
  const send = async () => {
    await enter();
    router.go(router.origin, { replace: true });
  };
  return page(title, { class: "narrow" }, form("", send, ...fields, submit(title)), h("p.other", other));
}

export const account = forMembers("Account", (user) => {
  const name = nameInput(user.username);
  const rename = async () => {
    await session.rename(name.value);
    announce("Your user name is changed");
  };
  const leave = () => session.logOut().then(() => router.go("/"), report);
  return page("Account", { class: "narrow" },
    form("", rename, field("User name", name, "It changes on everything that you have written."), submit("Rename")),
    h("div.leave", h("h2", "Session"), h("p", `You are signed in as ${user.username}.`), button("Sign out", leave)));
});
