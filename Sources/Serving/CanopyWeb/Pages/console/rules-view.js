// The Rules view: an editor that checks as you type, the difference from the rules in force, and explanations.

import { clear, element as h } from "/shared/dom.js";
import { button } from "./controls.js";
import { attempt, confirmed, say, sentence } from "./dialog.js";
import { diff } from "./diff.js";
import { explainPanel } from "./explain.js";
import { plural } from "./format.js";

const draft = "canopy.console.rules";
/** A longer line would end the connection, and a read is sent again. */
const lengthMax = 500_000;

export function rulesView(/** @type {import("../shared/line.js").Line} */ line) {
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" });
  const area = h("textarea", { spellcheck: "false", wrap: "off", autocapitalize: "off", "aria-label": "Rules", "aria-describedby": "problems",
    readonly: true, oninput: typed, onscroll: () => { gutter.scrollTop = area.scrollTop; } });
  const problems = h("div", { id: "problems", role: "status" });
  const changes = h("div", { class: "diff panel", hidden: true, role: "region", "aria-label": "Difference from the rules in force", tabindex: 0 });
  const publishButton = button("Publish …", publish, { class: "button", disabled: true });
  const diffButton = button("Difference", () => showDiff(!changes.hidden), { "aria-pressed": "false" });
  const revertButton = button("Revert", () => load(true), { disabled: true });
  const editor = h("div", { class: "editor panel" }, gutter, area);
  const state = h("span", { class: "hint", role: "status" });
  const element = h("div", { class: "view rules" }, h("div", { class: "bar" }, state, h("span", { class: "space" }), diffButton, revertButton,
    button("Built-in …", restore), publishButton), editor, changes, problems, explainPanel(line, goTo));
  let inForce = "";
  let isLoaded = false;
  let isValid = false;
  let round = 0;
  let timer = 0;

  /** `isForced`: whether to discard a draft. */
  async function load(/** @type {boolean=} */ isForced) {
    try {
      const { builtIn, text } = await line.read("RULES");
      const kept = sessionStorage.getItem(draft);
      inForce = text;
      isLoaded = true;
      area.readOnly = false;
      state.textContent = builtIn ? "The built-in rules are in force." : "Rules of your own are in force.";
      if (isForced || kept === null) setText(text);
      else if (area.value !== kept) setText(kept);
      else check();
    } catch (error) {
      state.textContent = sentence(error);
    }
  }

  function setText(/** @type {string} */ text) {
    area.value = text;
    typed();
    area.setSelectionRange(0, 0);
  }

  function typed() {
    if (area.value === inForce) sessionStorage.removeItem(draft);
    else sessionStorage.setItem(draft, area.value);
    isValid = false;
    refresh();
    const lines = area.value.split("\n").length;
    while (gutter.childElementCount > lines) gutter.lastElementChild?.remove();
    while (gutter.childElementCount < lines) gutter.append(h("div", {}, `${gutter.childElementCount + 1}`));
    clearTimeout(timer);
    timer = setTimeout(check, 300);
  }

  function refresh() {
    const isEdited = isLoaded && area.value !== inForce;
    revertButton.disabled = !isEdited;
    publishButton.disabled = !isEdited || !isValid;
    if (!changes.hidden) drawDiff();
  }

  async function check() {
    const mine = ++round;
    try {
      if (area.value.length > lengthMax) throw new Error("The text is too long to be checked here. Use canopy rules set.");
      const { valid, problems: found, omitted } = await line.read("CHECKRULES", area.value);
      if (mine !== round) return;
      isValid = valid;
      const lines = new Set(found.map((/** @type {{line: number}} */ problem) => problem.line));
      [...gutter.children].forEach((row, index) => row.classList.toggle("bad", lines.has(index + 1)));
      clear(problems, h("p", { class: "hint" }, valid ? "No problems." : `${plural(found.length + omitted, "problem")}:`),
        h("ul", { class: "rows" }, ...found.map((/** @type {any} */ { line: at, column, rule, message }) =>
          h("li", {}, button(`${at}:${column}`, () => goTo(at, column), { class: "link" }), h("span", {}, rule ? `${rule}: ${message}` : message)))));
    } catch (error) {
      if (mine === round) clear(problems, h("p", { class: "notice error" }, sentence(error)));
    }
    refresh();
  }

  /** Moves the caret. Columns count Unicode scalars, and the text area counts UTF-16 units. */
  function goTo(/** @type {number} */ row, /** @type {number} */ column = 1) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, row - 1).reduce((sum, text) => sum + text.length + 1, 0);
    const place = start + [...(lines[row - 1] ?? "")].slice(0, column - 1).join("").length;
    showDiff(true);
    area.focus();
    area.setSelectionRange(place, place);
    area.scrollTop = (row - 5) * (area.scrollHeight / lines.length);
  }

  function showDiff(/** @type {boolean} */ isHidden) {
    changes.hidden = isHidden;
    editor.hidden = !isHidden;
    diffButton.setAttribute("aria-pressed", String(!isHidden));
    if (!isHidden) drawDiff();
  }

  function drawDiff() {
    const lines = diff(inForce, area.value);
    const near = (/** @type {number} */ index) => lines.slice(Math.max(0, index - 3), index + 4).some(({ kind }) => kind !== "same");
    /** @type {HTMLElement[]} */
    const rows = [];
    lines.forEach(({ kind, text, line: number }, index) => {
      if (near(index)) rows.push(h("div", { class: kind }, h("span", {}, `${number}`), h("span", {}, { same: " ", added: "+", removed: "−" }[kind]), text || " "));
      else if (index === 0 || near(index - 1)) rows.push(h("div", { class: "gap" }, "⋯"));
    });
    clear(changes, ...(area.value === inForce ? [h("p", { class: "note" }, "The text is that of the rules in force.")] : rows));
  }

  async function publish() {
    const text = area.value;
    const lines = diff(inForce, text);
    const number = (/** @type {string} */ kind) => lines.filter((each) => each.kind === kind).length;
    const current = await line.read("RULES").catch(() => null);
    const isOld = current && current.text !== inForce;
    const question = { title: "Publish these rules?", action: "Publish", text: `${plural(number("added"), "line")} added, `
      + `${plural(number("removed"), "line")} removed. They decide about every request from the next commit on.`
      + (isOld ? " Somebody has published other rules since you began; these replace them." : "") };
    if (await confirmed(question)) await replace("RULES", text);
  }

  async function restore() {
    const question = { title: "Restore the built-in rules?", text: "They replace the rules in force and the text in the editor.", action: "Restore" };
    // The word stands without quotation marks: with them it is a text of rules.
    if (await confirmed(question)) await replace("RULES built-in");
  }

  async function replace(/** @type {string} */ verb, /** @type {string[]} */ ...parts) {
    await attempt(async () => {
      const { seq } = await line.write(verb, ...parts);
      sessionStorage.removeItem(draft);
      await load(true);
      say(`The rules are in force since commit ${seq}.`);
    });
  }

  return { element, show: () => { load(); }, hide() {} };
}
