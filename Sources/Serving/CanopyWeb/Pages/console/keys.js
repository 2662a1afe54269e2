// The children of a location in pages: keys, short values and numbers of children, not what is below.

import { short, size } from "./format.js";

/**
 * A child as KEYS describes it.
 * @typedef {object} Child
 * @property {string} key
 * @property {boolean} isBranch
 * @property {any} value of a leaf, perhaps cut off
 * @property {number|null} count the number of children of a branch; null if it is not known yet
 * @property {number} [bytes] the length of a text that is cut off
 * @property {string|number} [priority]
 *
 * @typedef {{self: Child, children: Child[], hasMore: boolean}} Keys
 */

const pageMax = 1_000;

/**
 * Reads the first children of a location.
 * @param {import("../shared/line.js").Line} line
 * @param {string} path
 * @param {number} limit
 * @returns {Promise<Keys>}
 */
export async function readKeys(line, path, limit) {
  /** @type {Child[]} */
  const children = [];
  let reply;
  do {
    const after = children.at(-1)?.key;
    const options = { limit: Math.min(pageMax, limit - children.length), ...(after === undefined ? {} : { after }) };
    reply = await line.read("KEYS", path, options);
    children.push(...reply.children.map(child));
  } while (reply.more && reply.children.length && children.length < limit);
  const isBranch = reply.count > 0;
  const self = { key: path, isBranch, value: reply.value ?? null, count: isBranch ? reply.count : null, bytes: reply.bytes };
  return { self, children, hasMore: reply.more };
}

/** @param {any} entry @returns {Child} */
function child({ key, children, value, bytes, priority }) {
  const isBranch = children !== undefined;
  return { key, isBranch, value: isBranch ? null : value, count: isBranch ? children : null, bytes, priority };
}

/** The value of a leaf on one line. @param {Child} child */
export const preview = ({ value, bytes }) => short(value) + (bytes ? ` … ${size(bytes)}` : "");
