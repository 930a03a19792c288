// The graph as something to work with: zoom, hover, select, walk by keyboard. Knows nothing of what else is on the page.

const ZOOM_MILLISECONDS = 180;
const KEYS_UP = "ArrowUp";
const KEYS_DOWN = "ArrowDown";

class Graph {
  /** Draws in `frame`. `listener`: zoomed(), selected(id), hovered(id or null, event). */
  constructor(model, frame, listener) {
    this.canvas = element("canvas", { "aria-hidden": "true" });
    this.spacer = element("div");
    const keys = "Arrow keys walk between callers and callees, Enter zooms, Backspace goes back, Escape shows all.";
    const label = `${frame.dataset.label}. ${keys} The tables hold the same numbers.`;
    this.stage = element("div", { className: "stage", tabIndex: 0, role: "application", "aria-label": label, "aria-describedby": "status" }, this.spacer);
    frame.append(this.canvas, this.stage);
    this.painter = new Painter(this.canvas, model);
    this.model = model;
    this.listener = listener;
    this.matches = null;
    this.upwards = true;
    this.hovered = null;
    this.fromBottom = 0;
    this.listen();
  }

  /** Shows another tree; keeps the zoom where `keep` says that ids mean the same. */
  show(tree, upwards, keep) {
    const zoomed = keep && tree.totals[this.zoomed] > 0 ? this.zoomed : 0;
    this.tree = tree;
    this.upwards = upwards;
    this.hovered = null;
    this.selected = null;
    if (!keep) this.past = [];
    this.open(zoomed);
    this.zoomed = zoomed;
    this.view = this.viewOf(zoomed);
    this.refresh();
    this.scroll(upwards ? this.height : 0);
    if (zoomed !== 0) this.lead(zoomed);
    this.paint();
  }

  highlight(matches) {
    this.matches = matches;
    if (this.tree !== undefined) this.paint();
  }

  zoom(id) {
    if (id === this.zoomed) return;
    this.past.push(this.zoomed);
    this.moveTo(id);
  }

  back() {
    if (this.past.length > 0) this.moveTo(this.past.pop());
  }

  /** Opens every row above `id`, so that its place is known. */
  open(id) {
    for (const node of [0, ...pathTo(this.tree, id)]) this.tree.children(node);
  }

  viewOf(id) {
    return { from: this.tree.starts[id], to: this.tree.starts[id] + Math.max(1, this.tree.totals[id]) };
  }

  moveTo(id) {
    this.open(id);
    this.zoomed = id;
    this.selected = id;
    const from = this.view;
    const to = this.viewOf(id);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const began = performance.now();
    cancelAnimationFrame(this.frame);
    const step = (now) => {
      const part = still ? 1 : Math.min(1, Math.max(0, now - began) / ZOOM_MILLISECONDS);
      const eased = 1 - (1 - part) ** 3;
      const between = (one, other) => one + (other - one) * eased;
      this.view = part < 1 ? { from: between(from.from, to.from), to: between(from.to, to.to) } : to;
      this.refresh();
      if (part === 1) this.lead(id);
      this.paint();
      if (part < 1) this.frame = requestAnimationFrame(step);
    };
    step(began);
    this.listener.zoomed();
    this.listener.selected(id);
  }

  /** Lays out anew: after a change of tree, view or size. */
  refresh() {
    const wide = this.stage.clientWidth;
    const high = this.stage.clientHeight;
    this.boxes = new Boxes(this.tree, this.view, wide);
    this.height = Math.max(high, this.boxes.rows * ROW + 8);
    this.spacer.style.height = `${this.height}px`;
    this.painter.resize(wide, high);
    if (this.upwards) this.scroll(this.height - high - this.fromBottom);
    this.zoomedDepth = pathTo(this.tree, this.zoomed).length;
  }

  /** Draws anew after it was out of sight. */
  redraw() {
    this.refresh();
    this.paint();
  }

  /** Flames grow from their root: keep its distance to the bottom when the height changes. */
  scroll(top) {
    this.stage.scrollTop = top;
    this.fromBottom = this.height - this.stage.scrollTop - this.painter.height;
  }

  top(depth) {
    const y = this.upwards ? this.height - (depth + 1) * ROW - 2 : depth * ROW + 2;
    return y - this.stage.scrollTop;
  }

  paint() {
    this.painter.paint({
      boxes: this.boxes,
      top: (depth) => this.top(depth),
      matches: this.matches,
      zoomedDepth: this.zoomedDepth,
      hovered: this.hovered,
      selected: this.selected,
      rootLabel: this.rootLabel,
    });
  }

  /** Scrolls so that a node's row is in sight. */
  reveal(id) {
    const top = this.top(pathTo(this.tree, id).length);
    const high = this.stage.clientHeight;
    if (top < 0) this.scroll(this.stage.scrollTop + top - ROW);
    else if (top + ROW > high) this.scroll(this.stage.scrollTop + top + 2 * ROW - high);
  }

  /** Scrolls so that a node's row is near the edge that its own children grow away from. */
  lead(id) {
    const top = this.top(pathTo(this.tree, id).length);
    this.scroll(this.stage.scrollTop + (this.upwards ? top + 3 * ROW - this.stage.clientHeight : top - 2 * ROW));
  }

  /** The same, but only if less than a third of the rows in sight would be above it. */
  leadFar(id) {
    this.open(id);
    if (pathTo(this.tree, id).length * ROW * 3 > this.stage.clientHeight * 2) this.lead(id);
    this.paint();
  }

  nodeAt(event) {
    const place = this.stage.getBoundingClientRect();
    const y = event.clientY - place.top + this.stage.scrollTop - 2;
    const depth = Math.floor(this.upwards ? (this.height - 4 - y) / ROW : y / ROW);
    const box = this.boxes.at(event.clientX - place.left, depth);
    return box < 0 ? null : this.boxes.id[box];
  }

  hover(id, event) {
    if (id !== this.hovered) {
      this.hovered = id;
      this.stage.style.cursor = id === null ? "default" : "pointer";
      this.paint();
    }
    this.listener.hovered(id, event);
  }

  select(id) {
    this.selected = id;
    this.reveal(id);
    this.paint();
    this.listener.selected(id);
  }

  listen() {
    this.stage.addEventListener("pointermove", (event) => {
      // A finger cannot hover. The line below the graph has the details of a tapped box.
      if (event.pointerType !== "touch") this.hover(this.nodeAt(event), event);
    });
    this.stage.addEventListener("pointerleave", (event) => this.hover(null, event));
    this.stage.addEventListener("scroll", (event) => {
      // A change of height moves it, too, and is answered below.
      if (this.stage.clientHeight === this.painter.height) this.scroll(this.stage.scrollTop);
      this.hover(null, event);
      this.paint();
    });
    this.stage.addEventListener("click", (event) => {
      const id = this.nodeAt(event);
      if (id !== null) this.zoom(id);
    });
    this.stage.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.walk(event.key)) return;
      event.preventDefault();
    });
    new ResizeObserver(() => {
      if (this.tree === undefined || this.stage.clientWidth === 0) return;
      this.redraw();
    }).observe(this.stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.readColours();
      this.paint();
    });
  }

  /** Moves the selection; says whether the key was one of its own. */
  walk(key) {
    const here = this.selected ?? this.zoomed;
    const [outwards, inwards] = this.upwards ? [KEYS_UP, KEYS_DOWN] : [KEYS_DOWN, KEYS_UP];
    if (key === "Enter" || key === " ") this.zoom(here);
    else if (key === "Home") this.select(0);
    else if (key === outwards) this.selectIfAny(this.tree.children(here)[0]);
    else if (key === inwards) this.selectIfAny(here === 0 ? undefined : this.tree.parent(here));
    else if (key === "ArrowLeft" || key === "ArrowRight") this.selectIfAny(this.sibling(here, key === "ArrowLeft" ? -1 : 1));
    else return false;
    return true;
  }

  sibling(id, step) {
    if (id === 0) return undefined;
    const siblings = this.tree.children(this.tree.parent(id));
    return siblings[siblings.indexOf(id) + step];
  }

  selectIfAny(id) {
    if (id !== undefined) this.select(id);
  }
}
