// The two trees that a graph can show. Both number their nodes, 0 being the root, and find children when asked:
// the tree of callers can be far larger than the profile, and only what is wide enough to be seen is ever built.

/** Puts children side by side from their parent's left edge, widest first. */
const placeChildren = (children, left, totals, starts) => {
  children.sort((one, other) => totals[other] - totals[one] || one - other);
  for (const child of children) {
    starts[child] = left;
    left += totals[child];
  }
  return children;
};

/** From the outermost frames to the leaves. */
class CalleeTree {
  constructor(selection) {
    const { model } = selection;
    this.selection = selection;
    this.model = model;
    this.totals = new Float64Array(model.parent.length + 1);
    this.totals[0] = selection.weight;
    this.totals.set(selection.total, 1);
    this.starts = new Float64Array(this.totals.length);
    this.kids = new Array(this.totals.length);
  }

  children(id) {
    if (this.kids[id] === undefined) {
      const children = [];
      for (const node of this.model.childrenOf(id - 1)) if (this.totals[node + 1] > 0) children.push(node + 1);
      this.kids[id] = placeChildren(children, this.starts[id], this.totals, this.starts);
    }
    return this.kids[id];
  }

  parent(id) {
    return this.model.parent[id - 1] + 1;
  }

  method(id) {
    return id === 0 ? -1 : this.model.methodOfNode[id - 1];
  }

  self(id) {
    return id === 0 ? 0 : this.selection.self[id - 1];
  }

  samples(id) {
    return id === 0 ? this.selection.count : this.selection.samples[id - 1];
  }

  /** Weight by frame, that is by line, of what this node merged. */
  frames(id) {
    const { nodeOfStack, frameOfStack } = this.model;
    const weights = new Map();
    for (let stack = 0; stack < nodeOfStack.length; stack++) {
      if (nodeOfStack[stack] !== id - 1) continue;
      const frame = frameOfStack[stack];
      weights.set(frame, (weights.get(frame) ?? 0) + this.selection.stackTotal[stack]);
    }
    return weights;
  }
}

/** From the leaves to their callers: the first row is every method with time of its own. */
class CallerTree {
  constructor(selection) {
    this.selection = selection;
    this.model = selection.model;
    this.totals = [selection.weight];
    this.starts = [0];
    this.methods = [-1];
    this.parents = [-1];
    this.kids = [];
    this.leaves = [];
    this.leaves[0] = [];
    for (let node = 0; node < selection.self.length; node++) {
      if (selection.self[node] > 0) this.leaves[0].push(node, node);
    }
  }

  /** Leaves come in pairs: the node that has the time, and the caller of it that this row has come to. */
  children(id) {
    if (this.kids[id] === undefined) {
      const byMethod = new Map();
      const leaves = this.leaves[id];
      for (let at = 0; at < leaves.length; at += 2) {
        const caller = id === 0 ? leaves[at + 1] : this.model.parent[leaves[at + 1]];
        if (caller < 0) continue;
        const child = this.childFor(byMethod, id, this.model.methodOfNode[caller]);
        this.totals[child] += this.selection.self[leaves[at]];
        this.leaves[child].push(leaves[at], caller);
      }
      this.kids[id] = placeChildren([...byMethod.values()], this.starts[id], this.totals, this.starts);
    }
    return this.kids[id];
  }

  childFor(byMethod, parent, method) {
    let child = byMethod.get(method);
    if (child === undefined) {
      child = this.totals.length;
      byMethod.set(method, child);
      this.totals.push(0);
      this.starts.push(0);
      this.methods.push(method);
      this.parents.push(parent);
      this.leaves[child] = [];
    }
    return child;
  }

  parent(id) {
    return this.parents[id];
  }

  method(id) {
    return this.methods[id];
  }

  /** Only the first row is the method itself; the rows below are who it worked for. */
  self(id) {
    return this.parents[id] === 0 ? this.totals[id] : 0;
  }

  samples() {
    return null;
  }

  /** Exact in the first row; further down a leaf's time says nothing of the line of a far caller. */
  frames(id) {
    const weights = new Map();
    if (this.parents[id] !== 0) return weights;
    const { nodeOfStack, frameOfStack, methodOfFrame } = this.model;
    for (let stack = 0; stack < nodeOfStack.length; stack++) {
      const frame = frameOfStack[stack];
      const weight = this.selection.stackSelf[stack];
      if (weight > 0 && methodOfFrame[frame] === this.methods[id]) weights.set(frame, (weights.get(frame) ?? 0) + weight);
    }
    return weights;
  }
}

/** The nodes from the outermost one to `id`, without the root. */
const pathTo = (tree, id) => {
  const path = [];
  for (let at = id; at > 0; at = tree.parent(at)) path.unshift(at);
  return path;
};
