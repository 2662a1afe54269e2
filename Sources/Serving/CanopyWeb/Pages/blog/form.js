import { element } from "/shared/dom.js";
import { sentence } from "./notices.js";

/**
 * Returns a form. While it is being sent its button says so, and a refusal is shown next to it; the texts stay.
 * @param {[string, HTMLInputElement | HTMLTextAreaElement, string?][]} fields labels, fields with an `id`, and hints
 * @param {string} action the text of the button
 * @param {() => Promise<void>} send
 */
export function form(fields, action, send) {
  const problem = element("p", { class: "notice error", role: "alert", hidden: true });
  const button = element("button", { class: "button", type: "submit" }, action);
  const onsubmit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (button.getAttribute("aria-disabled")) return;
    button.setAttribute("aria-disabled", "true");
    problem.hidden = true;
    try {
      await send();
    } catch (error) {
      problem.textContent = sentence(error);
      problem.hidden = false;
    }
    button.removeAttribute("aria-disabled");
  };
  const rows = fields.map(([label, field, hint]) => {
    const note = hint && element("small", { id: `${field.id}-hint` }, hint);
    if (note) field.setAttribute("aria-describedby", note.id);
    return element("div", { class: "field" }, element("label", { for: field.id }, label), field, note);
  });
  return element("form", { onsubmit }, ...rows, problem, element("div", { class: "actions" }, button));
}
