import { session } from "./session.js";

const prefix = "canopy.draft.";

/** The place of a draft: two readers who share a browser do not see each other's. */
const place = (/** @type {string} */ name) => `${prefix}${session.user?.uid ?? ""}.${name}`;

/** Fills a field with its draft, and keeps the draft at each change. */
export function keepDraft(/** @type {HTMLInputElement | HTMLTextAreaElement} */ field, /** @type {string} */ name) {
  const kept = localStorage.getItem(place(name));
  if (kept !== null) field.value = kept;
  field.addEventListener("input", () => {
    if (field.value) localStorage.setItem(place(name), field.value);
    else localStorage.removeItem(place(name));
  });
}

/** Removes drafts whose texts are published. */
export function dropDrafts(/** @type {string[]} */ ...names) {
  for (const name of names) localStorage.removeItem(place(name));
}
