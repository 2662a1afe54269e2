import { keep } from "/shared/dom.js";
import { session } from "./session.js";

/** The place of a draft: two readers who share a browser do not see each other's. */
const place = (name) => `canopy.draft.${session.user?.uid ?? ""}.${name}`;

/** Fills a field with its draft, and keeps the draft at each change. @param {any} field */
export function keepDraft(field, name) {
  field.value = localStorage.getItem(place(name)) ?? field.value;
  field.addEventListener("input", () => keep(localStorage, place(name), field.value));
}

/** Removes drafts whose texts are published. @param {...string} names */
export function dropDrafts(...names) {
  for (const name of names) localStorage.removeItem(place(name));
}
