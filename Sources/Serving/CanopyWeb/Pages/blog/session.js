import { keep, resultOr } from "/shared/basics.js";
import { Line } from "/shared/line.js";

const [place, ended] = ["canopy.session", "canopy.ended"];
const read = () => resultOr(() => JSON.parse(localStorage.getItem(place) ?? "null"), null);
let report = () => {};

export const line = new Line(() => (read()?.token ? [["AUTH", read().token]] : []));

/** The reader, with the token that logs in again after a reload. The kept name is shown before the server has
 * confirmed it, so that the page does not change when it does. */
export const session = {
  /** @type {Reader | null} */ user: read(),
  is: (/** @type {string} */ uid) => session.user?.uid === uid,
  rename: (/** @type {string} */ username) => line.write("RENAME", username).then(() => line.confirm()),

  logOut() {
    keep(localStorage, ended, session.user?.token);
    take(null);
    line.reopen();
    revoke();
  },

  /** Connects, and reports each change of the person who is logged in. @param {() => void} onchange */
  start(onchange) {
    report = onchange;
    line.addEventListener("identity", () => {
      const { identity } = line;
      if (identity?.uid) take({ token: session.user?.token, ...identity });
      else if (line.state === "online") take(null);
    });
    line.addEventListener("refused", () => take(null));
    // Another page of the same browser logged in or out.
    addEventListener("storage", (event) => {
      if (event.key !== place || read()?.token === session.user?.token) return;
      session.user = read();
      line.reopen();
      report();
    });
    line.open();
    revoke();
  },
};

/** Revokes the token of the session that the reader has ended, now or when there is a connection. */
function revoke() {
  const token = localStorage.getItem(ended);
  if (!token) return;
  const last = new Line(() => [["AUTH", token], ["LOGOUT"]]);
  last.addEventListener("state", () => {
    if (last.state !== "online") return;
    keep(localStorage, ended, "");
    last.close();
  });
  last.open();
}

function take(identity) {
  const { uid, username, token } = identity ?? {};
  const user = identity && { uid, username, token };
  const isSame = JSON.stringify(user) === JSON.stringify(session.user);
  session.user = user;
  if (isSame) return;
  keep(localStorage, place, user && JSON.stringify(user));
  report();
}
