/**
 * Creates an element. Among the parts, texts become text and never markup, elements and lists of them
 * become children, and an object has attributes; false, null and undefined are left out.
 * @template {string} Name
 * @param {Name} name a tag with classes, such as "p.hint"
 * @param {...any} parts
 * @returns {ElementNamed<Name>}
 */
export function h(name, ...parts) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag);
  if (classes.length > 0) element.className = classes.join(" ");
  return /** @type {any} */ (fill(element, parts));
}

/** Creates an element of a drawing. @param {string} tag @param {...any} parts */
export function svg(tag, ...parts) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), parts);
}

/** Creates a symbol of 24 by 24 units, which screen readers skip. @param {string} path */
export function icon(path) {
  const attributes = { viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon" };
  return svg("svg", attributes, svg("path", { d: path }));
}

/** Removes all children, and appends others. @param {Element} parent @param {...any} parts */
export function clear(parent, ...parts) {
  parent.replaceChildren();
  fill(parent, parts);
}

/** Sets a text if it differs: an unchanged one costs no layout. @param {Element} target */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/**
 * Makes some elements the children of another, and moves only those that are not in their places. So
 * the others keep the focus.
 * @param {Element} parent
 * @param {Element[]} children
 */
export function arrange(parent, children) {
  const kept = new Set(children);
  for (const child of [...parent.children]) if (!kept.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else if (child.isConnected && parent.moveBefore) parent.moveBefore(child, next);
    else parent.insertBefore(child, next);
  }
}

/**
 * Returns a function that shows entries, each a key with its data, as children of a parent. It makes the
 * item of each key once, and updates it.
 * @param {Element} parent
 * @param {(key: any, data: any) => Item} make
 */
export function keyed(parent, make) {
  /** @type {Map<any, Item>} */
  let items = new Map();
  return (entries) => {
    items = new Map(entries.map(([key, data]) => [key, items.get(key) ?? make(key, data)]));
    for (const [key, data] of entries) items.get(key)?.update(data);
    arrange(parent, [...items.values()].map(({ element }) => element));
  };
}

/** Keeps a text in the browser, or forgets it if it is empty or the browser has no room for it. */
export function keep(storage, name, text) {
  try {
    if (text) return storage.setItem(name, text);
  } catch {
    // A text of megabytes is not kept, which harms nothing else.
  }
  storage.removeItem(name);
}

function fill(target, parts) {
  for (const part of parts.flat()) {
    if (part === null || part === undefined || part === false) continue;
    if (typeof part !== "object" || part instanceof Node) target.append(part);
    else for (const [name, value] of Object.entries(part)) set(target, name, value);
  }
  return target;
}

function set(target, name, value) {
  if (name.startsWith("on")) target.addEventListener(name.slice(2), value);
  else if (value === true) target.setAttribute(name, "");
  else if (value !== false && value !== null && value !== undefined) target.setAttribute(name, value);
}
