// Texts in sight with a contrast below 4.5 to their background, by the formula of WCAG 2. A function's body, for `Browser::faint_texts`.
const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
/** Red, green, blue and alpha of a CSS colour, from 0 to 1. */
const parsed = (colour) => {
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data].map((value) => value / 255);
};
const over = ([red, green, blue, alpha], below) => [red, green, blue].map((value, at) => value * alpha + below[at] * (1 - alpha));
const luminance = (colour) => {
  const [red, green, blue] = colour.map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ancestors = (of) => {
  const all = [];
  for (let at = of; at !== null; at = at.parentElement) all.unshift(at);
  return all;
};
const faint = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.textContent.trim();
  const parent = walker.currentNode.parentElement;
  if (text === "" || !parent.checkVisibility({ opacityProperty: true }) || parent.closest(":disabled, script, noscript, .skip") !== null) continue;
  let behind = [1, 1, 1];
  let opacity = 1;
  for (const one of ancestors(parent)) {
    const style = getComputedStyle(one);
    behind = over(parsed(style.backgroundColor), behind);
    opacity *= Number(style.opacity);
  }
  const [red, green, blue, alpha] = parsed(getComputedStyle(parent).color);
  const value = contrast(over([red, green, blue, alpha * opacity], behind), behind);
  if (value < 4.5) faint.push(`${text.slice(0, 40)}: ${value.toFixed(2)} (${parent.id || parent.className || parent.tagName})`);
}
// The boxes of a graph are drawn.
const painter = typeof page === "undefined" ? undefined : page.graph.painter;
if (painter !== undefined) {
  const { kinds, root, match, text, rootText, matchText } = painter.colours;
  const pairs = [...kinds.flat().map((box) => [box, text]), [root, rootText], [match, matchText]];
  for (const [box, ink] of pairs) {
    const value = contrast(parsed(ink).slice(0, 3), parsed(box).slice(0, 3));
    if (value < 4.5) faint.push(`box ${box}: ${value.toFixed(2)}`);
  }
}
return [...new Set(faint)];
