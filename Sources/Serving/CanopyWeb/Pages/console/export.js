// The export of a subtree as a file, in pages, so that its size is bounded by the browser alone.
import { plural } from "/shared/basics.js";
import { h } from "/shared/elements.js";
import { below, exact } from "./format.js";

const pageSize = 500;

/** Reads everything at a path, and has the browser save it. The pages are of different moments if somebody writes
 * meanwhile. @param {Line} line @param {string} path @param {(text: string) => void} report */
export async function download(line, path, report) {
  // A query for the children does not return the priority of the place itself.
  const priority = await line.read("GET", below(path, ".priority"));
  const members = priority === null ? [] : [`".priority": ${encode(priority)}`];
  let done = 0;
  /** @type {any} */ let reply = { count: 0, children: [], more: true };
  while (reply.more) {
    const after = reply.children.at(-1)?.key;
    reply = await line.read("KEYS", path, { limit: pageSize, ...(after && { after }) });
    const keys = reply.children.map(({ key }) => key);
    if (keys.length > 0) members.push(...(await read(line, path, keys)));
    done += keys.length;
    report(`Exporting: ${plural(done, "child", "children")} of ${reply.count} …`);
  }
  const parts = done > 0 ? ["{", ...members.flatMap((member, index) => [index === 0 ? "\n" : ",\n", member]), "\n}\n"]
    : [encode(await line.read("GET", path, { export: true })), "\n"];
  report(`Exported ${save(path.split("/").filter(Boolean).join("-") || "everything", parts)}.`);
}

/** Has the browser save the account, posts, comments and stars of a user: the pages of EXPORT, one in a line.
 * @param {Line} line @param {string} uid */
export async function downloadPerson(line, uid) {
  const parts = [];
  let after;
  do {
    const page = await line.read("EXPORT", uid, { limit: 1_000, ...(after && { after }) });
    parts.push(encode(page), "\n");
    after = page.after;
  } while (after);
  save(`user-${uid}`, parts);
}

/** Has the browser save a file, and returns its name. @param {string} title @param {string[]} parts */
function save(title, parts) {
  const href = URL.createObjectURL(new Blob(parts, { type: "application/json" }));
  const download = `${title}.json`;
  h("a", { href, download }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
  return download;
}

/** Returns the members of successive children. They are read in halves if they are too large for a reply. */
async function read(line, path, keys) {
  try {
    const range = { startAt: keys[0], endAt: keys.at(-1) };
    const data = await line.read("GET", path, { orderBy: "$key", ...range, export: true });
    return Object.entries(data ?? {}).filter(([key]) => !key.startsWith("."))
      .map(([key, value]) => `${JSON.stringify(key)}: ${encode(value)}`);
  } catch (error) {
    if (error.code !== "TOO_LARGE" || keys.length === 1) throw error;
    const middle = keys.length >> 1;
    const first = await read(line, path, keys.slice(0, middle));
    return [...first, ...(await read(line, path, keys.slice(middle)))];
  }
}

const encode = (value) => JSON.stringify(exact(value, "Use canopy export."));
