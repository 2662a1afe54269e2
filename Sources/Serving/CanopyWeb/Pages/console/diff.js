// The difference between two texts, line by line, by their longest common subsequence.

/** @typedef {{kind: "same"|"added"|"removed", text: string, line: number}} DiffLine `line` is from 1, in its own text. */

const cellsMax = 16_000_000;

/** Returns the lines of both texts in order. In very long texts all lines count as replaced. */
export function diff(/** @type {string} */ before, /** @type {string} */ after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const width = b.length + 1;
  // The lengths of the common subsequences of the rests of both texts.
  const common = new Uint16Array((a.length + 1) * width <= cellsMax ? (a.length + 1) * width : 0);
  for (let i = a.length - 1; i >= 0 && common.length; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      common[at] = a[i] === b[j] ? common[at + width + 1] + 1 : Math.max(common[at + width], common[at + 1]);
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length;) {
    const at = i * width + j;
    if (common.length && i < a.length && a[i] === b[j]) lines.push({ kind: "same", text: a[i++], line: ++j });
    else if (i < a.length && (j === b.length || !common.length || common[at + width] >= common[at + 1])) {
      lines.push({ kind: "removed", text: a[i], line: ++i });
    } else lines.push({ kind: "added", text: b[j], line: ++j });
  }
  return lines;
}
