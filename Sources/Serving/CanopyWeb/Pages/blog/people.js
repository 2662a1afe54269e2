import { element } from "/shared/dom.js";

const units = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ["minute", 60], ["hour", 3600], ["day", 86400],
]);
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });
const exact = new Intl.DateTimeFormat("en", { dateStyle: "full", timeStyle: "short" });

/** Returns the first letter of a name in the colour of the person. */
export function avatar(/** @type {string} */ uid, /** @type {string} */ name) {
  let tint = 0;
  for (let index = 0; index < uid.length; index++) tint = (tint * 31 + uid.charCodeAt(index)) % 8;
  const [letter = "?"] = name;
  return element("span", { class: "avatar", "data-tint": tint, "aria-hidden": true }, letter.toUpperCase());
}

/** Returns the author and the time of a text. */
export function byline(/** @type {{ uid: string, author: string, createdAt: number }} */ { uid, author, createdAt }) {
  const person = element(
    "a", { class: "author", href: `/user/${encodeURIComponent(uid)}` },
    avatar(uid, author), element("bdi", {}, author));
  return element("div", { class: "byline" }, person, moment(createdAt));
}

/** Returns a time, as the distance to the present if it is near. */
function moment(/** @type {number} */ milliseconds) {
  const date = new Date(milliseconds);
  const time = element("time", {});
  if (Number.isNaN(date.getTime())) return time;
  time.dateTime = date.toISOString();
  time.title = exact.format(date);
  time.textContent = near((milliseconds - Date.now()) / 1000) ?? day.format(date);
  return time;
}

function near(/** @type {number} */ seconds) {
  if (Math.abs(seconds) < 60) return "just now";
  const [unit, length] = units.findLast(([, length]) => Math.abs(seconds) >= length) ?? units[0];
  const count = Math.trunc(seconds / length);
  return unit === "day" && Math.abs(count) > 6 ? null : relative.format(count, unit);
}
