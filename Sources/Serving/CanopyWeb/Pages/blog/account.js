import { button, field, form, submit } from "/shared/controls.js";
import { h } from "/shared/dom.js";
import { announce, report } from "./notices.js";
import { router } from "./router.js";
import { line, session } from "./session.js";
import { heading, signedOut } from "./states.js";

const emailField = () => input("email", "email", "username");
const passwordField = (autocomplete) => input("password", "password", autocomplete);
const nameField = (value) => input("username", "text", "nickname", { maxlength: 32, value });

/** The view that logs in. */
export function signIn() {
  const [email, password] = [emailField(), passwordField("current-password")];
  return entrance("Sign in", [field("E-mail address", email), field("Password", password)],
    () => line.logIn("LOGIN", email.value, password.value),
    "No account yet? ", h("a", { href: "/signup" }, "Sign up"));
}

/** The view that creates an account. */
export function signUp() {
  const [name, email, password] = [nameField(""), emailField(), passwordField("new-password")];
  const fields = [
    field("User name", name, "Shown with all that you write. You can change it later."),
    field("E-mail address", email, "Never shown to others."),
    field("Password", password, "At least 8 characters."),
  ];
  return entrance("Sign up", fields,
    () => line.logIn("SIGNUP", email.value, password.value, name.value),
    "Already a member? ", h("a", { href: "/signin" }, "Sign in"));
}

/** The view of the reader's account. */
export function account() {
  const { user } = session;
  if (!user) return signedOut("Account");
  const name = nameField(user.username);
  const rename = async () => {
    await session.rename(name.value);
    announce("Your user name is changed");
  };
  const leave = () => session.logOut().then(() => router.go("/"), report);
  const content = h("section.account", heading("Account"),
    form("", rename, field("User name", name, "It changes on everything that you have written."),
      submit("Rename")),
    h("div.leave", h("h2", "Session"), h("p", `You are signed in as ${user.username}.`),
      button("Sign out", leave)));
  return { title: "Account", content };
}

/** @param {string} title @param {Element[]} fields @param {() => any} enter @param {any[]} other another way */
function entrance(title, fields, enter, ...other) {
  const send = async () => {
    await enter();
    router.go(router.origin, { replace: true });
  };
  const content = h("section.entrance", heading(title), form("", send, ...fields, submit(title)),
    h("p.other", other));
  return { title, content };
}

/** @param {string} id @param {string} type @param {string} autocomplete @param {Attributes} attributes */
function input(id, type, autocomplete, attributes = {}) {
  return h("input", { id, name: id, type, autocomplete, required: true, ...attributes });
}
