// Elements, and the buttons, fields, forms and questions that are made of them.
import { failureOf, sentence } from "./basics.js";

/** Creates an element. Among the parts, texts become text and never markup, elements and lists of them become
 * children, and an object has attributes; false, null and undefined are left out.
 * @template {string} Name
 * @param {Name} name a tag with classes, such as "p.hint" @param {...any} parts @returns {ElementNamed<Name>} */
export function h(name, ...parts) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  return /** @type {any} */ (fill(element, parts));
}

/** Creates an element of a drawing. @param {string} tag @param {...any} parts */
export const svg = (tag, ...parts) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), parts);
/** Creates a symbol of 24 by 24 units, which screen readers skip. @param {string} path */
export const icon = (path) =>
  svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" }, svg("path", { d: path }));
/** Returns the element with an id, which the page has from the beginning. @param {string} id */
export const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Removes all children, and appends others. @param {Element} parent @param {...any} parts */
export function clear(parent, ...parts) { parent.replaceChildren(); fill(parent, parts); }

/** Sets a text if it differs: an unchanged one costs no layout. @param {Element} target */
export function setText(target, text) { if (target.textContent !== text) target.textContent = text; }

/** Shows a text in an element, or hides it without one. @param {HTMLElement} target @param {string | null} text */
export function setNotice(target, text) { target.textContent = text; target.hidden = !text; }

/** Moves the focus to an element if it is lost, or about to be lost with another. @param {Element} from */
export function passFocus(from, to) {
  const present = document.activeElement ?? document.body;
  if (present === document.body || from.contains(present)) to?.focus({ preventScroll: true });
}

/** Makes elements the children of another. Only those that are not in place are moved: the others keep the focus. */
export function arrange(/** @type {Element} */ parent, /** @type {Element[]} */ children) {
  const kept = new Set(children);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else if (child.isConnected && parent.moveBefore) parent.moveBefore(child, next);
    else parent.insertBefore(child, next);
  }
}

/** Returns a function that shows entries, each a key with its data, as children of a parent. It makes the item of
 * each key once, and updates it. @param {Element} parent @param {(key: any, data: any) => Item} make */
export function keyed(parent, make) {
  /** @type {Map<any, Item>} */ let items = new Map();
  return (entries) => {
    items = new Map(entries.map(([key, data]) => [key, items.get(key) ?? make(key, data)]));
    for (const [key, data] of entries) items.get(key)?.update(data);
    arrange(parent, [...items.values()].map(({ element }) => element));
  };
}

const isNothing = (part) => part === null || part === undefined || part === false;

function fill(target, parts) {
  for (const part of parts.flat(Infinity).filter((part) => !isNothing(part))) {
    if (typeof part !== "object" || part instanceof Node) target.append(part);
    else for (const [name, value] of Object.entries(part)) set(target, name, value);
  }
  return target;
}

function set(target, name, value) {
  if (name.startsWith("on")) target.addEventListener(name.slice(2), value);
  else if (!isNothing(value)) target.setAttribute(name, value === true ? "" : value);
}

/** The attributes of a field for a name, a path or code: the browser suggests and mends nothing. */
export const plain = { autocomplete: "off", autocapitalize: "off", spellcheck: "false" };

/** @param {string} text @param {(event: Event) => unknown} onclick @param {Attributes} attributes */
export const button = (text, onclick, attributes = {}) =>
  h("button", { type: "button", class: "button quiet", onclick, ...attributes }, text);
/** A button that looks like a link. @param {string} text @param {(event: Event) => unknown} onclick */
export const link = (text, onclick, attributes = {}) => button(text, onclick, { class: "link", ...attributes });
/** A button that sends its form. @param {string} text */
export const submit = (text, name = "button") => h("button", { type: "submit", class: name }, text);
/** A list of choices. @param {Record<string, string> | string[]} choices texts by value, or values that are texts */
export function select(choices, attributes = {}) {
  const entries = Array.isArray(choices) ? choices.map((name) => [name, name]) : Object.entries(choices);
  return h("select", attributes, entries.map(([value, text]) => h("option", { value }, text)));
}

let hints = 0;

/** A field with its label. @param {string} label @param {Element} control @param {string} [hint] */
export function field(label, control, hint) {
  if (!hint) return h("label.field", h("span", label), control);
  // The hint describes the field, and is no part of its name.
  const id = `hint-${++hints}`;
  control.setAttribute("aria-label", label);
  control.setAttribute("aria-describedby", id);
  return h("label.field", h("span", label), control, h("small", { id }, hint));
}

/** A form that never leaves the page. A refusal is shown before its last part, and the texts stay. While the form is
 * sent, nobody can type in it: that text would be lost.
 * @param {string} name its classes @param {() => unknown} send @param {...any} parts */
export function form(name, send, ...parts) {
  const problem = h("p.notice.error", { role: "alert", hidden: true });
  const onsubmit = async (event) => {
    event.preventDefault();
    if (element.ariaBusy) return;
    element.ariaBusy = "true";
    const fields = /** @type {any[]} */ ([...element.elements]).filter((field) => field.readOnly === false);
    for (const field of fields) field.readOnly = true;
    setNotice(problem, null);
    const failure = await failureOf(send);
    setNotice(problem, failure && sentence(failure));
    for (const field of fields) field.readOnly = false;
    element.ariaBusy = null;
  };
  const element = h("form", { class: name, onsubmit }, parts.slice(0, -1), problem, parts.at(-1));
  return element;
}

/** Asks before something that cannot be undone. Escape, the first button and another view keep everything as it is.
 * @param {Question} question @returns {Promise<boolean>} */
export function confirmed({ title, text, action, keep = "Cancel" }) {
  return new Promise((resolve) => {
    const cancel = () => dialog.close();
    const onclose = () => {
      removeEventListener("popstate", cancel);
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    };
    const dialog = h("dialog", { "aria-labelledby": "question", onclose },
      h("h2", { id: "question" }, title), text && h("p", text),
      h("div.actions", button(keep, cancel, { autofocus: true }),
        button(action, () => dialog.close("yes"), { class: "button danger" })));
    addEventListener("popstate", cancel);
    document.body.append(dialog);
    dialog.showModal();
  });
}
