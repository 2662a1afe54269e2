// The difference between two texts, line by line, by their longest common subsequence.

const cellsMax = 16_000_000;

/** Returns the lines of both texts in order, with their numbers. In very long texts all lines count as replaced.
 * @param {string} before @param {string} after */
export function diff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  const width = b.length + 1;
  const cells = (a.length + 1) * width;
  // The lengths of the common subsequences of the rests of both texts.
  const common = new Uint16Array(cells <= cellsMax ? cells : 0);
  for (let i = a.length - 1; i >= 0 && common.length > 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      common[at] = a[i] === b[j] ? common[at + width + 1] + 1 : Math.max(common[at + width], common[at + 1]);
    }
  }
  const lines = [];
  for (let [i, j] = [0, 0]; i < a.length || j < b.length;) {
    const at = i * width + j;
    const isRemoval = j === b.length || common.length === 0 || common[at + width] >= common[at + 1];
    if (common.length > 0 && i < a.length && a[i] === b[j]) {
      lines.push({ kind: "same", sign: " ", text: a[i++], line: ++j });
    } else if (i < a.length && isRemoval) lines.push({ kind: "removed", sign: "−", text: a[i], line: ++i });
    else lines.push({ kind: "added", sign: "+", text: b[j], line: ++j });
  }
  return lines;
}
