import { h, setText } from "/shared/elements.js";

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */ const units = [["minute", 60], ["hour", 3600], ["day", 86_400]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "long" });
const day = new Intl.DateTimeFormat("en", { day: "numeric", month: "long", year: "numeric" });
const exact = new Intl.DateTimeFormat("en", { dateStyle: "full", timeStyle: "short" });

/** Returns the first letter of a name in the colour of the person. @param {string} uid */
export function avatar(uid, name) {
  let tint = 0;
  for (let index = 0; index < uid.length; index++) tint = (tint * 31 + uid.charCodeAt(index)) % 8;
  const [letter = "?"] = String(name);
  const result = h("span.avatar", { "aria-hidden": "true" }, letter.toUpperCase());
  result.style.setProperty("--hue", String(20 + tint * 45));
  return result;
}

/** A post as the views show it. The administrator may have stored anything in its place.
 * @param {any} data @returns {any} */
export const postOf = ({ uid, title, body, starCount, commentCount, ...others }) => ({
  uid: String(uid ?? ""), title: String(title ?? "Untitled"), body: String(body ?? ""),
  starCount: Number(starCount) || 0, commentCount: Number(commentCount) || 0, ...others,
});

/** Shows the author and the time of a text, if that is another author. @param {Element} place */
export function byline(place, { uid, author: name, createdAt }) {
  const author = String(name ?? "Unknown");
  if (place.querySelector("bdi")?.textContent === author) return;
  const link = h("a.author", { href: `/user/${encodeURIComponent(uid)}` }, avatar(`${uid}`, author), h("bdi", author));
  place.replaceChildren(h("div.byline", link, moment(createdAt)));
}

/** Returns a time, as the distance to the present if it is near. */
function moment(milliseconds) {
  const date = new Date(milliseconds);
  if (Number.isNaN(date.getTime())) return h("time");
  return h("time", { datetime: date.toISOString(), title: exact.format(date) }, distance(date));
}

const renew = (time) => time.dateTime && setText(time, distance(new Date(time.dateTime)));
setInterval(() => document.querySelectorAll("time").forEach(renew), 20_000);

function distance(date) {
  const seconds = (date.getTime() - Date.now()) / 1000;
  if (Math.abs(seconds) < 60) return "just now";
  const [unit, length] = units.findLast(([, length]) => Math.abs(seconds) >= length) ?? units[0];
  const count = Math.trunc(seconds / length);
  return unit === "day" && Math.abs(count) > 6 ? day.format(date) : relative.format(count, unit);
}
