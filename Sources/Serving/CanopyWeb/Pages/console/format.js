// Amounts, times, values and paths as short texts.
import { count, resultOr } from "/shared/basics.js";

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

export function size(/** @type {number} */ bytes) {
  const unit = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  return `${count(bytes / 1024 ** unit)} ${units[unit]}`;
}

export function duration(/** @type {number} */ seconds) {
  const whole = (length) => count(Math.round(seconds / length));
  if (seconds < 0.001) return `${count(seconds * 1e6)} µs`;
  if (seconds < 1) return `${count(seconds * 1e3)} ms`;
  if (seconds < 90) return `${count(seconds)} s`;
  if (seconds < 5400) return `${whole(60)} min`;
  return seconds < 129_600 ? `${whole(3600)} h` : `${whole(86_400)} days`;
}

/** A time since 1970, in UTC, to the minute or the second. */
export const time = (milliseconds, hasSeconds = false) => !milliseconds ? "–"
  : new Date(milliseconds).toISOString().slice(0, hasSeconds ? 19 : 16).replace("T", " ");

/** The path of a child. @param {string} path @param {string} key */
export const below = (path, key) => (path === "/" ? `/${key}` : `${path}/${key}`);
/** The path that contains another; `/` is its own. @param {string} path */
export const above = (path) => path.slice(0, path.lastIndexOf("/")) || "/";
/** A path as the tree writes it. @param {string} text */
export const normalPath = (text) => "/" + text.split("/").filter(Boolean).join("/");
/** Whether a path is another or below it. @param {string} path @param {string} other */
export const isWithin = (path, other) => path === other || path.startsWith(below(other, ""));
/** Whether a path is another, below it or above it. @param {string} path @param {string} other */
export const isOnWay = (path, other) => isWithin(path, other) || isWithin(other, path);

/** Whether a value has a number so large that the page may not hold it exactly, and would change it. */
export function isInexact(value) {
  if (typeof value === "number") return Math.abs(value) > Number.MAX_SAFE_INTEGER;
  return value !== null && typeof value === "object" && Object.values(value).some(isInexact);
}

/** Whether a place with the value would not exist. @returns {boolean} */
export const isEmpty = (value) => value === null || (typeof value === "object"
  && Object.entries(value).every(([key, member]) => key === ".priority" || isEmpty(member)));

/** Returns a value, or fails if it is inexact. */
export function exact(value, advice = "Use the line protocol.") {
  if (isInexact(value)) throw new Error(`A number in it has more digits than a page can hold. ${advice}`);
  return value;
}

export const isBranch = (/** @type {Child} */ child) => child.children !== undefined;

/** The value of a leaf, or the number of children of a branch, on one line. @param {Child} child */
export const summary = (child) => isBranch(child) ? count(child.children ?? 0)
  : short(child.value) + (child.bytes ? ` … ${size(child.bytes)}` : "");

/** A value that a person typed: JSON, or else a text. @param {string} typed */
export const parsed = (typed) => exact(resultOr(() => JSON.parse(typed), typed));

/** A value as JSON on one line, cut off. A mark says that it is inexact. @param {any} value */
export function short(value, lengthMax = 200) {
  const text = (isInexact(value) ? "≈" : "") + (JSON.stringify(value) ?? "null");
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
