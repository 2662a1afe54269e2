// The page: its views by path, and the header that they share.
import { byId, clear, h } from "/shared/elements.js";
import { account, signIn, signUp } from "./account.js";
import { edit, write } from "./editor.js";
import { mine, missing, person, recent, top } from "./lists.js";
import { startNotices } from "./notices.js";
import { avatar } from "./people.js";
import { post } from "./post-view.js";
import * as router from "./router.js";
import { session } from "./session.js";

function showReader() {
  const { user } = session;
  const link = (name, href, ...parts) => h(name, { href }, parts);
  clear(byId("person"), user ? [
    link("a.button", "/write", "Write"),
    link("a.me", "/account", { "aria-label": `Account of ${user.username}` }, avatar(user.uid, user.username)),
  ] : [link("a.button.quiet", "/signin", "Sign in"), link("a.button.wide", "/signup", "Sign up")]);
}

function markPresent() {
  for (const link of document.querySelectorAll("header.top nav a")) {
    const path = link.getAttribute("href") ?? "";
    const isPresent = path === "/" ? location.pathname === "/" : location.pathname.startsWith(path);
    link.ariaCurrent = isPresent ? "page" : null;
  }
}

session.start(() => {
  showReader();
  router.renew();
});
startNotices();
showReader();
router.start({
  "/": recent, "/top": top, "/mine": mine, "/mine/(top)": mine,
  "/user/:": person, "/user/:/(top)": person,
  "/post/:": post, "/post/:/edit": edit, "/write": write,
  "/signin": signIn, "/signup": signUp, "/account": account,
  ".*": missing,
}, markPresent);
