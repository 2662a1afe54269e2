/** The failure of a request: a code for programs and a sentence for people. */
export class LineError extends Error {
  /**
   * @param {string} code a code of the protocol, or of this client: OFFLINE for a write that was not sent, LOST for
   *   one whose connection broke before the reply, so that it may have been made
   * @param {string} sentence
   */
  constructor(code, sentence) {
    super(sentence);
    this.code = code;
  }

  /** @param {string} line the rest of a line that begins with `-`: `CODE sentence` or `CODE [REASON] sentence` */
  static parse(line) {
    const space = line.indexOf(" ");
    if (space < 0) return new LineError(line, line);
    return new LineError(line.slice(0, space), line.slice(space + 1).replace(/^\[[A-Z_]+\] /, ""));
  }

  static offline() {
    return new LineError("OFFLINE", "There is no connection to the server, so this was not sent. Try again.");
  }

  static lost() {
    return new LineError("LOST", "The connection broke before the reply. This may or may not have been saved.");
  }
}
