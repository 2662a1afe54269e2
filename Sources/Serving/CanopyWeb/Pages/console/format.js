// Numbers, times and values as short texts.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (/** @type {number} */ value) => (Math.abs(value) >= 100 ? whole : number).format(value);
export const plural = (/** @type {number} */ value, /** @type {string} */ one, /** @type {string} */ many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function size(/** @type {number} */ bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${count(bytes)} ${units[unit]}`;
}

export function duration(/** @type {number} */ seconds) {
  if (seconds < 0.001) return `${count(seconds * 1e6)} µs`;
  if (seconds < 1) return `${count(seconds * 1e3)} ms`;
  if (seconds < 90) return `${count(seconds)} s`;
  if (seconds < 5400) return `${whole.format(seconds / 60)} min`;
  return seconds < 129_600 ? `${whole.format(seconds / 3600)} h` : `${whole.format(seconds / 86_400)} days`;
}

/** A time in milliseconds since 1970, in UTC, to the minute or the second. */
export function time(/** @type {number|null|undefined} */ milliseconds, hasSeconds = false) {
  if (!milliseconds) return "–";
  return new Date(milliseconds).toISOString().slice(0, hasSeconds ? 19 : 16).replace("T", " ");
}

/** The path of a child. */
export const below = (/** @type {string} */ path, /** @type {string} */ key) => (path === "/" ? `/${key}` : `${path}/${key}`);
/** The path that contains another; `/` is its own. */
export const above = (/** @type {string} */ path) => path.slice(0, path.lastIndexOf("/")) || "/";
/** A path as the tree writes it. */
export const normalPath = (/** @type {string} */ text) => "/" + text.split("/").filter(Boolean).join("/");
/** @returns {boolean} whether a value has an integer that the page cannot hold exactly, and would change */
export const isInexact = (/** @type {unknown} */ value) => typeof value === "number" ? Number.isInteger(value) && !Number.isSafeInteger(value)
  : value !== null && typeof value === "object" && Object.values(value).some(isInexact);
/** Whether a path is another or below it. */
export const isWithin = (/** @type {string} */ path, /** @type {string} */ other) => path === other || path.startsWith(other === "/" ? "/" : `${other}/`);

/** @returns {any} a value that a person typed: JSON, or else a text */
export function parsed(/** @type {string} */ typed) {
  try {
    return JSON.parse(typed);
  } catch {
    return typed;
  }
}

/** A value as JSON on one line, cut off. */
export function short(/** @type {unknown} */ value, /** @type {number} */ lengthMax = 200) {
  const text = JSON.stringify(value) ?? "null";
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
