// The export of a subtree as a file, in pages, so that its size is bounded by the browser alone.

import { isInexact, plural } from "./format.js";

const page = 500;

/** @typedef {import("../shared/line.js").Line} Line */

/** Reads everything at a path, and has the browser save it. The pages are of different moments if somebody writes meanwhile. */
export async function download(/** @type {Line} */ line, /** @type {string} */ path, /** @type {(text: string) => void} */ report) {
  const parts = [];
  let done = 0;
  let [after, more] = [/** @type {string|undefined} */ (undefined), true];
  while (more) {
    /** @type {{count: number, children: {key: string}[], more: boolean}} */
    const reply = await line.read("KEYS", path, { limit: page, ...(after === undefined ? {} : { after }) });
    const keys = reply.children.map((child) => child.key);
    if (!keys.length && !done) parts.push(encode(await line.read("GET", path, { export: true })));
    for (const piece of keys.length ? await read(line, path, keys) : []) parts.push(done || parts.length ? ",\n" : "{\n", piece);
    done += keys.length;
    more = reply.more && keys.length > 0;
    after = keys.at(-1);
    report(`Exporting: ${plural(done, "child", "children")} of ${reply.count} …`);
  }
  if (done) parts.push("\n}");
  const address = URL.createObjectURL(new Blob([...parts, "\n"], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${path.split("/").filter(Boolean).join("-") || "everything"}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  report(`Exported ${link.download}.`);
}

/** @returns {Promise<string[]>} the members of successive children; they are read in halves if they are too large for a reply */
async function read(/** @type {Line} */ line, /** @type {string} */ path, /** @type {string[]} */ keys) {
  try {
    const data = await line.read("GET", path, { orderBy: "$key", startAt: keys[0], endAt: keys.at(-1), export: true });
    return Object.entries(data ?? {}).filter(([key]) => !key.startsWith("."))
      .map(([key, value]) => `${JSON.stringify(key)}: ${encode(value)}`);
  } catch (error) {
    if (/** @type {{code?: string}} */ (error).code !== "TOO_LARGE" || keys.length === 1) throw error;
    const middle = keys.length >> 1;
    return [...await read(line, path, keys.slice(0, middle)), ...await read(line, path, keys.slice(middle))];
  }
}

function encode(/** @type {unknown} */ value) {
  if (isInexact(value)) throw new Error("A number has more digits than a page can hold. Use canopy export.");
  return JSON.stringify(value);
}
