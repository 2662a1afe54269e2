// Buttons, fields, forms and questions of both pages.
import { h } from "./dom.js";

/** @param {string} text @param {(event: Event) => unknown} onclick @param {Attributes} attributes */
export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", class: "button quiet", onclick, ...attributes }, text);
}

/** A button that sends its form. @param {string} text @param {Attributes} attributes */
export function submit(text, attributes = {}) {
  return h("button", { type: "submit", class: "button", ...attributes }, text);
}

/** A list of choices. @param {Record<string, string>} choices texts by value */
export function select(choices, attributes = {}) {
  const options = Object.entries(choices).map(([value, text]) => h("option", { value }, text));
  return h("select", attributes, options);
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

/**
 * A form that never leaves the page. A refusal is shown before its last part, and the texts stay.
 * @param {string} name its classes
 * @param {() => unknown} send
 * @param {...any} parts
 */
export function form(name, send, ...parts) {
  const problem = h("p.notice.error", { role: "alert", hidden: true });
  const onsubmit = async (event) => {
    event.preventDefault();
    if (element.ariaBusy) return;
    element.ariaBusy = "true";
    problem.hidden = true;
    try {
      await send();
    } catch (error) {
      problem.textContent = sentence(error);
      problem.hidden = false;
    }
    element.ariaBusy = null;
  };
  const element = h("form", { class: name, onsubmit }, parts.slice(0, -1), problem, parts.at(-1));
  return element;
}

/**
 * Asks before something that cannot be undone. Escape and the first button keep everything as it is.
 * @param {{ title: string, text?: string, action: string, keep?: string }} question
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text, action, keep = "Cancel" }) {
  return new Promise((resolve) => {
    const onclose = () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    };
    const dialog = h("dialog", { "aria-labelledby": "question", onclose },
      h("h2", { id: "question" }, title), text && h("p", text),
      h("div.actions", button(keep, () => dialog.close(), { autofocus: true }),
        button(action, () => dialog.close("yes"), { class: "button danger" })));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Returns the sentence of an error as the pages write sentences. @param {any} error */
export function sentence(error) {
  const text = String(error?.message ?? error);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}
