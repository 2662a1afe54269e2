/**
 * The failure of a request: a code for programs and a sentence for people. Besides the codes of the
 * protocol there are OFFLINE for a write that was not sent, and LOST for one whose connection broke
 * before the reply, so that it may have been made.
 */
export class LineError extends Error {
  constructor(code, sentence) {
    super(sentence || code);
    this.code = code;
  }

  /** @param {string} line the rest of a line that begins with `-`: `CODE sentence` or `CODE [REASON] sentence` */
  static parse(line) {
    const [code, ...words] = line.split(" ");
    return new LineError(code, words.join(" ").replace(/^\[[A-Z_]+\] /, ""));
  }
}

const offline = "There is no connection to the server, so this was not sent. Try again.";
const lost = "The connection broke before the reply. This may or may not have been saved.";
export const failures = {
  offline: () => new LineError("OFFLINE", offline), lost: () => new LineError("LOST", lost),
};
