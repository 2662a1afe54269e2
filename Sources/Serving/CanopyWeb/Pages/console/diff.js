// The difference between two texts, line by line, by their longest common subsequence.

/** @typedef {{kind: "same"|"added"|"removed", text: string, line: number}} DiffLine `line` is from 1, in its own text. */

const cellsMax = 4_000_000;

/**
 * Returns the lines of both texts in order. Lines that differ in very long texts are shown as replaced altogether.
 * @param {string} before
 * @param {string} after
 * @returns {DiffLine[]}
 */
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let [endA, endB] = [a.length, b.length];
  while (endA > start && endB > start && a[endA - 1] === b[endB - 1]) { endA -= 1; endB -= 1; }
  const width = endB - start + 1;
  const rows = endA - start;
  // `common` has the lengths for the rest of both texts. Without it nothing in the middle is the same.
  const common = new Uint32Array(rows * width <= cellsMax ? (rows + 1) * width : 0);
  for (let i = rows - 1; i >= 0 && common.length; i -= 1) {
    for (let j = width - 2; j >= 0; j -= 1) {
      const at = i * width + j;
      common[at] = a[start + i] === b[start + j] ? common[at + width + 1] + 1 : Math.max(common[at + width], common[at + 1]);
    }
  }
  /** @type {DiffLine[]} */
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const isMiddle = i >= start && i < endA && j >= start && j < endB;
    const at = (i - start) * width + j - start;
    const isSame = isMiddle ? common.length > 0 && a[i] === b[j] : i < start || (i >= endA && j >= endB);
    if (isSame) lines.push({ kind: "same", text: b[j], line: (j += 1, i += 1, j) });
    else if (i < endA && (!isMiddle || !common.length || common[at + width] >= common[at + 1])) lines.push({ kind: "removed", text: a[i], line: (i += 1) });
    else lines.push({ kind: "added", text: b[j], line: (j += 1) });
  }
  return lines;
}
