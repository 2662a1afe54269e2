// Texts, timers and storage.

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (/** @type {number} */ value) => (Math.abs(value) >= 100 ? whole : number).format(value);
/** @param {number} value @param {string} one @param {string} many */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** The sentence of an error as the pages write sentences. @param {any} error */
export function sentence(error) {
  const text = String(error?.message ?? error);
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");
}

/** Returns the result of a call, or another value if it fails. @param {() => any} call */
export function resultOr(call, otherwise) {
  try { return call(); } catch { return otherwise; }
}

/** Carries out an action, and returns its error, if any. @param {() => unknown} action @returns {Promise<any>} */
export const failureOf = (action) => new Promise((resolve) => resolve(action())).then(() => null, (error) => error);

/** A part of an address, decoded. A malformed one, which a person has typed, stays as it is. @param {string} part */
export const decoded = (part) => resultOr(() => decodeURIComponent(part), part);

/** Keeps a text in the browser, or forgets it if it is empty or the browser has no room for it. */
export function keep(storage, name, text) {
  storage.removeItem(name);
  if (text) resultOr(() => storage.setItem(name, text), null);
}

/** Returns a function that makes a call after the last of its own calls. @param {() => unknown} call */
export function debounced(milliseconds, call) {
  /** @type {Timer} */ let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds);
  };
}

/** Returns a function that makes one call for all of its own calls until then. @param {() => unknown} call */
export function gathered(milliseconds, call, schedule = setTimeout) {
  /** @type {any} */ let waiting;
  const run = () => {
    waiting = null;
    call();
  };
  return () => (waiting ??= schedule(run, milliseconds));
}
