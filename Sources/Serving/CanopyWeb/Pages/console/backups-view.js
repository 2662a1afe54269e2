// The Backups view: the stored backups, the progress of the present one, and a button that makes one.
import { failureOf, plural } from "/shared/basics.js";
import { button, h, keyed, setText } from "/shared/elements.js";
import { duration, size, time } from "./format.js";
import { every, say, sentence, table } from "./parts.js";

export function backupsView(/** @type {Line} */ line) {
  const start = button("Back up now", make, { disabled: true });
  const state = h("p.hint", { role: "status" });
  const body = h("tbody");
  const show = keyed(body, (file, { time: at, bytes, seq }) => ({
    element: h("tr", h("th", { scope: "row" }, h("code", file)),
      [time(at), size(bytes), `${seq}`].map((text) => h("td", text))),
    update() {},
  }));

  async function read() {
    const problem = await failureOf(async () => {
      const { running, failure, every: seconds, kept, backups, more } = await line.read("BACKUPS");
      start.disabled = running !== null;
      const schedule = seconds ? `One is made every ${duration(seconds)}` : "The server makes none by itself";
      const rest = failure ? `The last backup failed: ${failure}`
        : `${schedule}. The newest ${kept} of each kind are kept.`;
      const percent = running && Math.floor((100 * running.bytes) / Math.max(1, running.of));
      const amount = plural(backups.length, "backup") + (more ? " and more" : "");
      setText(state, running ? `A backup is being made: ${percent} %.` : `${amount}. ${rest}`);
      show(backups.map((backup) => [backup.file, backup]));
    });
    if (problem) setText(state, sentence(problem));
  }

  /** Replies come in the order of requests, so this one comes on a connection of its own. That gives up after half a
   * minute of silence, which does not end the backup: BACKUPS says how it ends. */
  async function make() {
    start.disabled = true;
    const own = line.another();
    own.open();
    const problem = await failureOf(async () => say(`The backup ${(await own.write("BACKUP")).file} is complete.`));
    own.close();
    if (problem && problem.code !== "LOST") say(sentence(problem), "bad");
    await read();
  }

  const panel = h("section.panel", table("Backups", ["File", "Begun (UTC)", "Size", "Commit"], body));
  return { element: h("div.view.backups", h("div.bar", start, state), panel), ...every(1_000, read) };
}
