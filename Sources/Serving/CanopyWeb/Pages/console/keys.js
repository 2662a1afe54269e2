// The children of a location in pages: keys, short values and numbers of children, not what is below.

import { count, short, size } from "./format.js";

/**
 * A child as the server describes it: a branch has `children`, a leaf a `value`, which is cut off if it has `bytes`.
 * @typedef {{key: string, children?: number, value?: any, bytes?: number, priority?: string|number}} Child
 */

const pageMax = 1_000;

/** Whether a child has children itself. */
export const isBranch = (/** @type {Child} */ child) => child.children !== undefined;

/** Returns the value of a leaf, or the number of children, on one line. */
export const summary = (/** @type {Child} */ child) => (isBranch(child) ? count(child.children ?? 0)
  : short(child.value) + (child.bytes ? ` … ${size(child.bytes)}` : ""));

/** Reads a location and its first children. */
export async function readKeys(/** @type {import("../shared/line.js").Line} */ line, /** @type {string} */ path, /** @type {number} */ limit) {
  /** @type {Child[]} */
  const children = [];
  let reply;
  do {
    const after = children.length ? { after: children.at(-1)?.key } : {};
    reply = await line.read("KEYS", path, { limit: Math.min(pageMax, limit - children.length), ...after });
    children.push(...reply.children);
  } while (reply.more && reply.children.length && children.length < limit);
  /** @type {Child} */
  const self = reply.count > 0 ? { key: path, children: reply.count } : { key: path, value: reply.value ?? null, bytes: reply.bytes };
  return { self, children, hasMore: Boolean(reply.more) };
}
