"""Checks of a view for people who do not see well: names of controls, headings, unique ids, and contrast."""

SCRIPT = r"""
const problems = [];
const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
const name = (e) => {
  const label = e.labels?.[0] ?? e;
  return (e.getAttribute("aria-label") ?? label.textContent).trim();
};
const describe = (e) => `${e.tagName.toLowerCase()}.${e.className} “${e.textContent.trim().slice(0, 30)}”`;

for (const e of document.querySelectorAll("a, button, input, textarea, [role=img]"))
  if (shown(e) && !name(e)) problems.push(`${describe(e)} has no name`);
for (const e of document.querySelectorAll("a:not([href]), [tabindex]:not([tabindex='-1'])"))
  problems.push(`${describe(e)} is not reached in the order of the page`);
if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
if (document.querySelectorAll("main").length !== 1 || !document.documentElement.lang) problems.push("no main, or no lang");
const levels = [...document.querySelectorAll("h1, h2, h3")].map((e) => Number(e.tagName[1]));
if (levels.some((level, index) => index > 0 && level > levels[index - 1] + 1)) problems.push("a level of heading is left out");
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
if (new Set(ids).size !== ids.length) problems.push("an id twice");
for (const e of document.querySelectorAll("button, header nav a, .tabs a, footer a")) {
  const { width, height } = e.getBoundingClientRect();
  if (shown(e) && (width < 24 || height < 24)) problems.push(`${describe(e)} is too small a target`);
}

// Colours as the browser paints them: a canvas turns any notation into red, green, blue and opacity.
const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });
const painted = (...layers) => {
  context.clearRect(0, 0, 1, 1);
  for (const layer of layers) { context.fillStyle = layer; context.fillRect(0, 0, 1, 1); }
  return [...context.getImageData(0, 0, 1, 1).data];
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = (e) => {
  const layers = [];
  for (let it = e; it; it = it.parentElement) layers.unshift(getComputedStyle(it).backgroundColor);
  return layers;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const seen = new Set();
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const e = node.parentElement;
  if (!node.data.trim() || seen.has(e) || !shown(e) || e.closest(".visually-hidden, .skip, noscript")) continue;
  seen.add(e);
  const style = getComputedStyle(e);
  const layers = background(e);
  const [light, dark] = [luminance(painted(...layers)), luminance(painted(...layers, style.color))].sort((a, b) => b - a);
  const ratio = (light + 0.05) / (dark + 0.05);
  const size = parseFloat(style.fontSize);
  const needed = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
  if (ratio < needed) problems.push(`${describe(e)} has a contrast of ${ratio.toFixed(2)}`);
}
for (const e of document.querySelectorAll("input, textarea")) {
  const around = luminance(painted(...background(e.parentElement)));
  const edge = luminance(painted(...background(e.parentElement), getComputedStyle(e).borderColor));
  const ratio = (Math.max(around, edge) + 0.05) / (Math.min(around, edge) + 0.05);
  if (shown(e) && ratio < 3) problems.push(`the edge of ${describe(e)} has a contrast of ${ratio.toFixed(2)}`);
}
return problems;
"""


def problems(browser):
    """Returns a sentence for each problem of the present view."""
    return browser.script(SCRIPT)
