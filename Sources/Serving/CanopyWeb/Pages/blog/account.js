import { element } from "/shared/dom.js";
import { form } from "./form.js";
import { signedOut } from "./lists.js";
import { announce, report } from "./notices.js";
import { router } from "./router.js";
import { session } from "./session.js";
import { heading } from "./states.js";

/** The view that logs in. */
export function signIn() {
  const email = emailField();
  const password = passwordField("current-password");
  return entrance("Sign in", [["E-mail address", email], ["Password", password]],
    () => session.logIn(email.value, password.value),
    "No account yet? ", element("a", { href: "/signup" }, "Sign up"));
}

/** The view that creates an account. */
export function signUp() {
  const name = nameField("");
  const email = emailField();
  const password = passwordField("new-password");
  return entrance("Sign up", [
    ["User name", name, "Shown with all that you write. You can change it later."],
    ["E-mail address", email, "Never shown to others."],
    ["Password", password, "At least 8 characters."],
  ], () => session.signUp(email.value, password.value, name.value),
  "Already a member? ", element("a", { href: "/signin" }, "Sign in"));
}

/** The view of the reader's account. */
export function account() {
  const { user } = session;
  if (!user) return signedOut("Account");
  const name = nameField(user.username);
  const rename = form([["User name", name, "It changes on everything that you have written."]], "Rename", async () => {
    await session.rename(name.value);
    announce("Your user name is changed");
  });
  const leave = () => session.logOut().then(() => router.go("/"), report);
  const content = element(
    "section", { class: "account" }, heading("Account"), rename,
    element("div", { class: "leave" }, element("h2", {}, "Session"),
      element("p", {}, `You are signed in as ${user.username}.`),
      element("button", { class: "button quiet", type: "button", onclick: leave }, "Sign out")));
  return { title: "Account", content };
}

/**
 * @param {string} title
 * @param {[string, HTMLInputElement, string?][]} fields
 * @param {() => Promise<any>} enter
 * @param {(string | Node)[]} other the way to the other view
 */
function entrance(title, fields, enter, ...other) {
  const content = element(
    "section", { class: "entrance" }, heading(title),
    form(fields, title, async () => {
      await enter();
      router.go(router.origin, { replace: true });
    }),
    element("p", { class: "other" }, ...other));
  return { title, content };
}

function emailField() {
  return element("input", { id: "email", name: "email", type: "email", autocomplete: "username", required: true });
}

function passwordField(/** @type {string} */ autocomplete) {
  return element("input", { id: "password", name: "password", type: "password", autocomplete, required: true });
}

function nameField(/** @type {string} */ value) {
  return element("input", { id: "username", name: "username", autocomplete: "nickname", maxlength: 32, required: true, value });
}
