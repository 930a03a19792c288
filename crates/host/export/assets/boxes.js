// Where a tree's nodes lie on the screen: only boxes that are wide enough to be seen, whatever the size of the tree.

const ROW = 20;
const NARROWEST = 0.6;

/** Boxes of one view of a tree, as columns. `x` and `width` are pixels; a rest stands for siblings too narrow to draw. */
class Boxes {
  constructor(tree, view, width) {
    this.id = [];
    this.x = [];
    this.width = [];
    this.depth = [];
    this.rests = [];
    this.rows = 0;
    this.tree = tree;
    this.view = view;
    this.right = width;
    this.scale = width / Math.max(1, view.to - view.from);
    this.addRoot();
    const todo = [0, 0];
    while (todo.length > 0) {
      const depth = todo.pop() + 1;
      this.addChildren(todo.pop(), depth, todo);
    }
  }

  /** As wide as the view, even if there is nothing in it. */
  addRoot() {
    this.id.push(0);
    this.x.push(0);
    this.width.push(this.right);
    this.depth.push(0);
    this.rows = 1;
  }

  addChildren(id, depth, todo) {
    const { tree, view, scale } = this;
    const children = tree.children(id);
    for (let at = 0; at < children.length; at++) {
      const child = children[at];
      const start = tree.starts[child];
      if (start >= view.to) return;
      if (tree.totals[child] * scale < NARROWEST) {
        this.addRest(start, children, at, depth);
        return;
      }
      if (start + tree.totals[child] <= view.from) continue;
      this.add(child, depth);
      todo.push(child, depth);
    }
  }

  /** Children come widest first, so the first that is too narrow speaks for all that follow. */
  addRest(start, children, first, depth) {
    let end = start;
    for (let at = first; at < children.length; at++) end += this.tree.totals[children[at]];
    const left = this.toPixels(start);
    const width = this.toPixels(end) - left;
    if (width >= NARROWEST) this.rests.push({ x: left, width, depth, nodes: children.length - first });
  }

  add(id, depth) {
    const left = this.toPixels(this.tree.starts[id]);
    this.id.push(id);
    this.x.push(left);
    this.width.push(this.toPixels(this.tree.starts[id] + this.tree.totals[id]) - left);
    this.depth.push(depth);
    this.rows = Math.max(this.rows, depth + 1);
  }

  toPixels(weight) {
    return Math.min(this.right, Math.max(0, (weight - this.view.from) * this.scale));
  }

  /** The index of the box at a place, -1 if there is none. */
  at(x, depth) {
    for (let box = 0; box < this.id.length; box++) {
      if (this.depth[box] === depth && x >= this.x[box] && x < this.x[box] + this.width[box]) return box;
    }
    return -1;
  }
}
