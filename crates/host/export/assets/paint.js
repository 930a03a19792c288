// Draws boxes on a canvas, in the colours that the style sheet gives for light and dark.

const SHADES = 7;
const TEXT_FROM = 26;
const TEXT_INSET = 5;

/** The colours of the moment, read from the style sheet. */
const readColours = (kinds) => {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const shades = (name) => {
    const [hue, saturation, lightness] = value(name).split(" ").map(Number.parseFloat);
    const step = dark ? 1.7 : 1.5;
    return Array.from({ length: SHADES }, (_, shade) => {
      const change = shade - (SHADES - 1) / 2;
      return `hsl(${hue + change * 1.4} ${saturation}% ${lightness + change * step}%)`;
    });
  };
  return {
    kinds: kinds.map((_, kind) => shades(`--kind-${kind}`)),
    root: value("--root-box"),
    rest: value("--rest-box"),
    text: value("--box-text"),
    rootText: value("--ink"),
    match: value("--match"),
    matchText: value("--match-text"),
    gap: value("--surface"),
    ring: value("--ring"),
    hover: value("--hover"),
    font: `12px ${value("--font")}`,
  };
};

/** Neighbours differ a little within the colour of their kind; a method always looks the same. */
const shadeOf = (method) => {
  if (method.shade === undefined) {
    let hash = 2166136261;
    for (const letter of method.space + method.module + method.short) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619);
    method.shade = (hash >>> 8) % SHADES;
  }
  return method.shade;
};

class Painter {
  constructor(canvas, model) {
    this.canvas = canvas;
    this.model = model;
    this.pen = canvas.getContext("2d");
    this.readColours();
  }

  readColours() {
    this.colours = readColours(this.model.kinds);
    for (const method of this.model.methods) method.widths = [];
    this.ellipsis = null;
  }

  resize(width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== wide || this.canvas.height !== high) {
      this.canvas.width = wide;
      this.canvas.height = high;
    }
    this.width = width;
    this.height = height;
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** `scene`: boxes, top(depth), matches or null, zoomed depth, hovered and selected node, rootLabel. */
  paint(scene) {
    const { pen } = this;
    pen.clearRect(0, 0, this.width, this.height);
    pen.font = this.colours.font;
    pen.textBaseline = "middle";
    const { boxes } = scene;
    for (const rest of boxes.rests) this.paintRest(rest, scene.top(rest.depth), scene.matches !== null);
    for (let box = 0; box < boxes.id.length; box++) {
      const top = scene.top(boxes.depth[box]);
      if (top > -ROW && top < this.height) this.paintBox(scene, box, top);
    }
    pen.globalAlpha = 1;
    if (scene.hovered !== scene.selected) this.outline(scene, scene.hovered, this.colours.hover, 1);
    this.outline(scene, scene.selected, this.colours.ring, 2);
  }

  paintRest({ x, width }, top, dimmed) {
    this.pen.globalAlpha = dimmed ? 0.4 : 1;
    this.pen.fillStyle = this.colours.rest;
    this.pen.fillRect(x, top, width, ROW - 1);
  }

  paintBox(scene, box, top) {
    const { pen, colours } = this;
    const { boxes } = scene;
    const method = boxes.tree.method(boxes.id[box]);
    const matched = scene.matches !== null && method >= 0 && scene.matches[method] === 1;
    const width = boxes.width[box] > 2.4 ? boxes.width[box] - 1 : boxes.width[box] * 0.8;
    pen.globalAlpha = this.strength(scene, boxes.depth[box], matched, method);
    if (method < 0) pen.fillStyle = colours.root;
    else if (matched) pen.fillStyle = colours.match;
    else pen.fillStyle = colours.kinds[this.model.methods[method].kind][shadeOf(this.model.methods[method])];
    this.shape(boxes.x[box], top, width);
    if (width < TEXT_FROM) return;
    pen.fillStyle = method < 0 ? colours.rootText : matched ? colours.matchText : colours.text;
    const text = method < 0 ? this.cut(scene.rootLabel, width - 2 * TEXT_INSET) : this.label(method, width - 2 * TEXT_INSET);
    if (text !== "") pen.fillText(text, boxes.x[box] + TEXT_INSET, top + ROW / 2);
  }

  /** What does not match a search, or only leads to the zoomed node, steps back. */
  strength(scene, depth, matched, method) {
    if (scene.matches !== null && !matched) return method < 0 ? 0.7 : 0.32;
    return depth < scene.zoomedDepth && !matched ? 0.55 : 1;
  }

  shape(x, top, width) {
    const { pen } = this;
    if (width < 6) {
      pen.fillRect(x, top, width, ROW - 1);
      return;
    }
    pen.beginPath();
    pen.roundRect(x, top, width, ROW - 1, 2.5);
    pen.fill();
  }

  outline(scene, id, colour, thickness) {
    const { boxes } = scene;
    const box = id === null ? -1 : boxes.id.indexOf(id);
    if (box < 0) return;
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = thickness;
    const width = Math.max(2, boxes.width[box] - 1);
    pen.beginPath();
    pen.roundRect(boxes.x[box] + thickness / 2, scene.top(boxes.depth[box]) + thickness / 2, width - thickness, ROW - 1 - thickness, 2.5);
    pen.stroke();
  }

  /** The longest form of the name that fits. */
  label(method, room) {
    const { forms, widths } = this.model.methods[method];
    for (let form = 0; form < forms.length; form++) {
      widths[form] ??= this.pen.measureText(forms[form]).width;
      if (widths[form] <= room) return forms[form];
    }
    return this.cut(forms.at(-1), room);
  }

  /** As much of a text as fits, with an ellipsis; nothing if that is not worth reading. */
  cut(text, room) {
    const full = this.pen.measureText(text).width;
    if (full <= room) return text;
    // Letters differ in width: the first ones can be wider than the average.
    for (let letters = Math.floor((text.length * room) / full) - 1; letters >= 2; letters--) {
      const part = `${text.slice(0, letters).trimEnd()}…`;
      if (this.pen.measureText(part).width <= room) return part;
    }
    return "";
  }
}
