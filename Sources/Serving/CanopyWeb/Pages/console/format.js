// Numbers, times and values as short texts.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** @param {number} value */
export const count = (value) => (Math.abs(value) >= 100 ? whole : number).format(value);

/** @param {number} value @param {string} one @param {string} [many] */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** @param {number} bytes */
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${count(bytes)} ${units[unit]}`;
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 0.001) return `${count(seconds * 1e6)} µs`;
  if (seconds < 1) return `${count(seconds * 1e3)} ms`;
  if (seconds < 90) return `${count(seconds)} s`;
  if (seconds < 5400) return `${whole.format(seconds / 60)} min`;
  return seconds < 129_600 ? `${whole.format(seconds / 3600)} h` : `${whole.format(seconds / 86_400)} days`;
}

/** @param {number|null|undefined} milliseconds since 1970 */
export function time(milliseconds) {
  if (!milliseconds) return "–";
  const text = new Date(milliseconds).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}

/** The path of a child. @param {string} path @param {string} key */
export const below = (path, key) => (path === "/" ? `/${key}` : `${path}/${key}`);

/** The path that contains another; `/` is its own. @param {string} path */
export const above = (path) => path.slice(0, path.lastIndexOf("/")) || "/";

/** A path as the tree writes it. @param {string} text */
export const normalPath = (text) => "/" + text.split("/").filter(Boolean).join("/");

/** Whether a value has an integer that the page cannot hold exactly, and would change. @param {unknown} value @returns {boolean} */
export const isInexact = (value) => typeof value === "number" ? Number.isInteger(value) && !Number.isSafeInteger(value)
  : value !== null && typeof value === "object" && Object.values(value).some(isInexact);

/** Whether a path is another or below it. @param {string} path @param {string} other */
export const isWithin = (path, other) => path === other || path.startsWith(other === "/" ? "/" : `${other}/`);

/** A value that a person typed: JSON, or else a text. @param {string} typed @returns {any} */
export function parsed(typed) {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** A value as JSON on one line, cut off. @param {unknown} value @param {number} [lengthMax] */
export function short(value, lengthMax = 200) {
  const text = JSON.stringify(value) ?? "null";
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
