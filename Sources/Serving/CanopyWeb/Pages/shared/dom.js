const svg = "http://www.w3.org/2000/svg";

/**
 * Creates an element. Strings among the children become text, never markup.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes names with `on` are listeners; false, null and undefined leave one out
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const result = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) result.addEventListener(name.slice(2), value);
    else if (value === true) result.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) result.setAttribute(name, String(value));
  }
  append(result, children);
  return result;
}

/** Removes all children, and appends others. */
export function clear(/** @type {Element} */ parent, /** @type {any[]} */ ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** Sets the text of an element if it differs, so that an unchanged one costs no layout. */
export function setText(/** @type {Element} */ target, /** @type {string} */ string) {
  if (target.textContent !== string) target.textContent = string;
}

/**
 * Creates a symbol of 24 by 24 units, which screen readers skip.
 * @param {string} path
 */
export function icon(path) {
  const image = document.createElementNS(svg, "svg");
  image.setAttribute("viewBox", "0 0 24 24");
  image.setAttribute("aria-hidden", "true");
  image.setAttribute("class", "icon");
  const shape = document.createElementNS(svg, "path");
  shape.setAttribute("d", path);
  image.append(shape);
  return image;
}

function append(/** @type {Element} */ parent, /** @type {any[]} */ children) {
  for (const child of children) if (child !== null && child !== undefined && child !== false) parent.append(child);
}
