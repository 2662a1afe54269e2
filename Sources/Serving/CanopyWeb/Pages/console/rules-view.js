// The Rules view: an editor that checks as you type, the difference from the rules in force, and explanations.
import { debounced, keep, plural } from "/shared/basics.js";
import { button, clear, h, link, plain, setText } from "/shared/elements.js";
import { diff } from "./diff.js";
import { explainPanel } from "./explain.js";
import { attempt, every, rows, say, sentence } from "./parts.js";

const numberMax = 20_000; // The most lines that have numbers: each is an element.

export function rulesView(/** @type {Line} */ line, /** @type {string} */ namespace) {
  const draft = `canopy.console.rules.${namespace}`;
  const gutter = h("div.gutter", { "aria-hidden": "true" });
  const area = h("textarea", plain, {
    wrap: "off", readonly: true, "aria-label": "Rules", "aria-describedby": "problems",
    oninput: typed, onscroll: () => (gutter.scrollTop = area.scrollTop),
  });
  const problems = h("div", { id: "problems", role: "status" });
  const changes = h("div.diff.panel", {
    role: "region", "aria-label": "Difference from the rules in force", hidden: true, tabindex: 0,
  });
  const publishButton = button("Publish …", publish, { class: "button" });
  const diffButton = button("Difference", () => showDiff(!changes.hidden), { "aria-pressed": "false" });
  const loss = { title: "Revert to the rules in force?", text: "The draft is deleted.", action: "Revert" };
  const revertButton = button("Revert …", () => attempt(() => load(true), "", loss));
  const editor = h("div.editor.panel", gutter, area);
  const state = h("span.hint", { role: "status" });
  const bar = h("div.bar", state, h("span.space"), diffButton, revertButton,
    button("Built-in …", restore), publishButton);
  const element = h("div.view.rules", bar, editor, changes, problems, explainPanel(line, goTo));
  const checkSoon = debounced(300, check);
  let [inForce, base] = ["", ""]; // The rules in force, and those on which the text in the editor is based.
  let isValid = false;
  let round = 0;
  refresh();

  /** `isForced`: whether to discard a draft. */
  async function load(isForced = false) {
    try {
      const { builtIn, text } = await line.read("RULES");
      setText(state, builtIn ? "The built-in rules are in force." : "Rules of your own are in force.");
      if (text === inForce && !isForced) return;
      const shown = isForced ? text : sessionStorage.getItem(draft) ?? text;
      base = shown === text ? text : base || (sessionStorage.getItem(`${draft}.base`) ?? text);
      inForce = text;
      area.readOnly = false;
      const caret = area.selectionStart;
      if (area.value !== shown) area.value = shown;
      if (area.selectionStart !== caret) area.setSelectionRange(caret, caret);
      typed();
    } catch (error) {
      state.textContent = sentence(error);
    }
  }

  function typed() {
    const isEdited = area.value !== inForce;
    keep(sessionStorage, draft, isEdited && area.value);
    keep(sessionStorage, `${draft}.base`, isEdited && base);
    [isValid, round] = [false, round + 1]; // A check under way is of another text.
    refresh();
    number(Math.min(numberMax, area.value.split("\n").length));
    checkSoon();
  }

  function number(lines) {
    while (gutter.childElementCount > lines) gutter.lastElementChild?.remove();
    const numbers = Array.from({ length: lines }, (_, index) => index + 1);
    gutter.append(...numbers.slice(gutter.childElementCount).map((number) => h("div", String(number))));
  }

  function refresh() {
    const isEdited = !area.readOnly && area.value !== inForce;
    revertButton.disabled = !isEdited;
    publishButton.disabled = !isEdited || !isValid;
    if (!changes.hidden) drawDiff();
  }

  async function check() {
    const mine = ++round;
    try {
      const { valid, problems: found, omitted } = await line.read("CHECKRULES", area.value);
      if (mine !== round) return;
      isValid = valid;
      const bad = new Set(found.map((problem) => problem.line));
      [...gutter.children].forEach((row, index) => row.classList.toggle("bad", bad.has(index + 1)));
      const list = found.map(({ line: at, column, rule, message }) =>
        [link(`${at}:${column}`, () => goTo(at, column)), rule ? `${rule}: ${message}` : message]);
      const text = valid ? "No problems." : `${plural(found.length + omitted, "problem")}:`;
      clear(problems, h("p.hint", text), list.length > 0 && rows(list),
        omitted > 0 && h("p.hint", `And ${omitted} more.`));
    } catch (error) {
      if (mine === round) clear(problems, h("p.notice.error", sentence(error)));
    }
    refresh();
  }

  /** Moves the caret. Columns count Unicode scalars, and the text area counts UTF-16 units. */
  function goTo(row, column = 1) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, row - 1).reduce((sum, text) => sum + text.length + 1, 0);
    const place = start + [...(lines[row - 1] ?? "")].slice(0, column - 1).join("").length;
    showDiff(true);
    area.focus();
    area.setSelectionRange(place, place);
    area.scrollTop = (row - 5) * (area.scrollHeight / lines.length);
  }

  function showDiff(isHidden) {
    changes.hidden = isHidden;
    editor.hidden = !isHidden;
    diffButton.ariaPressed = String(!isHidden);
    if (!isHidden) drawDiff();
  }

  /** Shows the changed lines with three lines around them. */
  function drawDiff() {
    const lines = diff(inForce, area.value);
    const hasChange = (some) => some.some(({ kind }) => kind !== "same");
    const near = lines.map((_, index) => hasChange(lines.slice(Math.max(0, index - 3), index + 4)));
    const note = h("p.note", "The text is that of the rules in force.");
    clear(changes, !hasChange(lines) && note, lines.map(({ kind, sign, text, line: number }, index) => {
      if (near[index]) return h("div", { class: kind }, h("span", number), h("span", sign), text || " ");
      return (index === 0 || near[index - 1]) && h("div.gap", "⋯");
    }));
  }

  async function publish() {
    const text = area.value;
    await load();
    const lines = diff(inForce, text);
    const amount = (kind) => plural(lines.filter((each) => each.kind === kind).length, "line");
    const warning = "Somebody has published other rules since you began; these replace them.";
    replace("Publish these rules?", "Publish", `${amount("added")} added, ${amount("removed")} removed. They decide `
      + `about every request from the next commit on. ${inForce === base ? "" : warning}`,
      "RULES", text);
  }

  function restore() {
    // The words stand without quotation marks: with them the second is a text of rules.
    replace("Restore the built-in rules?", "Restore", "They replace the rules in force and the text in the editor.",
      "RULES built-in");
  }

  function replace(title, action, text, verb, ...parts) {
    return attempt(async () => {
      const { seq } = await line.write(verb, ...parts);
      await load(true);
      say(`The rules are in force since commit ${seq}.`);
    }, "", { title, action, text });
  }

  return { element, ...every(5_000, load) };
}
