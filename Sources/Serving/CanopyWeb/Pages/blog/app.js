import { h } from "/shared/dom.js";
import { account, signIn, signUp } from "./account.js";
import { edit, write } from "./editor.js";
import { mine, missing, person, recent, top } from "./lists.js";
import { startNotices } from "./notices.js";
import { avatar } from "./people.js";
import { post } from "./post-view.js";
import { router } from "./router.js";
import { line, session } from "./session.js";

// The page: its views by path, and the header that they share.

/** Shows the reader in the header. */
function showReader() {
  const { user } = session;
  const label = `Account of ${user?.username}`;
  const parts = user ? [
    h("a.button", { href: "/write" }, "Write"),
    h("a.me", { href: "/account", "aria-label": label }, avatar(user.uid, user.username)),
  ] : [
    h("a.button.quiet", { href: "/signin" }, "Sign in"),
    h("a.button.wide", { href: "/signup" }, "Sign up"),
  ];
  document.getElementById("person")?.replaceChildren(...parts);
}

/** Marks the link to the present view. */
function markPresent() {
  for (const link of document.querySelectorAll("header.top nav a")) {
    const path = link.getAttribute("href") ?? "";
    const isPresent = path === "/" ? location.pathname === "/" : location.pathname.startsWith(path);
    link.ariaCurrent = isPresent ? "page" : null;
  }
}

line.open();
startNotices();
showReader();
session.addEventListener("change", () => {
  showReader();
  router.renew();
});
router.onchange = markPresent;
router.start({
  "/": recent,
  "/top": top,
  "/mine": mine,
  "/mine/(top)": mine,
  "/user/:": person,
  "/user/:/(top)": person,
  "/post/:": post,
  "/post/:/edit": edit,
  "/write": write,
  "/signin": signIn,
  "/signup": signUp,
  "/account": account,
  ".*": missing,
});
