// The trees that a graph can show. All number their nodes, 0 being the root, and find children when asked:
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

  of() {
    return "";
  }

  self(id) {
    return id === 0 ? 0 : this.selection.own[id - 1];
  }

  samples(id) {
    return id === 0 ? this.selection.count : this.selection.samples[id - 1];
  }

  /** Part of the occurrences that continue after an `await`. */
  resumed(id) {
    return id === 0 ? 0 : this.model.resumed[id - 1];
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

/** A tree whose rows merge nodes of the profile by method. Its root is `method`, or none (-1); each of its nodes has weights of the profile's nodes, in pairs. */
class MergedTree {
  constructor(selection, method, total) {
    this.selection = selection;
    this.model = selection.model;
    this.totals = [total];
    this.starts = [0];
    this.methods = [method];
    this.parents = [-1];
    this.kids = [];
    this.merged = [[]];
  }

  /** Each tree has a `next(node, weight, add, id)`, which calls `add(node, weight)` for what the row after has of a node. */
  children(id) {
    if (this.kids[id] === undefined) {
      const byMethod = new Map();
      const pairs = this.merged[id];
      const add = (node, weight) => {
        if (node < 0 || weight === 0) return;
        const child = this.childFor(byMethod, id, this.model.methodOfNode[node]);
        this.totals[child] += weight;
        this.merged[child].push(node, weight);
      };
      for (let at = 0; at < pairs.length; at += 2) this.next(pairs[at], pairs[at + 1], add, id);
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
      this.merged[child] = [];
    }
    return child;
  }

  parent(id) {
    return this.parents[id];
  }

  method(id) {
    return this.methods[id];
  }

  samples(id) {
    return id === 0 && this.methods[0] < 0 ? this.selection.count : null;
  }

  /** Part of the occurrences that continue after an `await`. */
  resumed(id) {
    const nodes = this.merged[id].filter((_, at) => at % 2 === 0);
    return nodes.reduce((sum, node) => sum + this.model.resumed[node], 0) / Math.max(1, nodes.length);
  }

  /** Weight by frame of what this node merged: `own` of each stack of these nodes. */
  framesOf(id, own) {
    const nodes = new Set(this.merged[id].filter((_, at) => at % 2 === 0));
    const { nodeOfStack, frameOfStack } = this.model;
    const weights = new Map();
    for (let stack = 0; stack < nodeOfStack.length; stack++) {
      if (own[stack] === 0 || !nodes.has(nodeOfStack[stack])) continue;
      weights.set(frameOfStack[stack], (weights.get(frameOfStack[stack]) ?? 0) + own[stack]);
    }
    return weights;
  }

  /** Adds the outermost nodes of the root's method: with these, recursion counts once. */
  mergeOccurrences() {
    const { methodOfNode, outermost } = this.model;
    for (let node = 0; node < methodOfNode.length; node++) {
      if (methodOfNode[node] === this.methods[0] && outermost[node] === 1) this.merged[0].push(node, this.selection.total[node]);
    }
    return this;
  }
}

/** From the leaves to their callers: the first row is every method with time of its own. */
class CallerTree extends MergedTree {
  constructor(selection) {
    super(selection, -1, selection.weight);
    selection.self.forEach((weight, node) => {
      if (weight > 0) this.merged[0].push(node, weight);
    });
  }

  next(node, weight, add, id) {
    add(id === 0 ? node : this.model.parent[node], weight);
  }

  /** Only the first row is the method itself; the rows below are who it worked for. */
  self(id) {
    return this.parents[id] === 0 ? this.totals[id] : 0;
  }

  /** Exact in the first row; further down a leaf's time says nothing of the line of a far caller. */
  frames(id) {
    return this.parents[id] === 0 ? this.framesOf(id, this.selection.stackSelf) : new Map();
  }

  /** The time that a row below the first is a part of. */
  of(id) {
    return this.parents[id] === 0 ? "" : `own time of ${isolated(this.model.methods[this.methods[pathTo(this, id)[0]]].short)}`;
  }
}

/** The callers of all occurrences of one method, from the nearest to the outermost. */
class CallersOf extends MergedTree {
  constructor(selection, method) {
    super(selection, method, selection.methodTotal[method]);
    this.mergeOccurrences();
  }

  next(node, weight, add) {
    add(this.model.parent[node], weight);
  }

  self(id) {
    return id === 0 ? this.selection.methodSelf[this.methods[0]] : 0;
  }

  frames(id) {
    return id === 0 ? this.framesOf(id, this.selection.stackTotal) : new Map();
  }

  of(id) {
    return id === 0 ? "" : `time of ${isolated(this.model.methods[this.methods[0]].short)}`;
  }
}

/** The callees of all occurrences of one method. */
class CalleesOf extends MergedTree {
  constructor(selection, method) {
    super(selection, method, selection.methodTotal[method]);
    this.mergeOccurrences();
  }

  next(node, _, add) {
    for (const child of this.model.childrenOf(node)) add(child, this.selection.total[child]);
  }

  self(id) {
    return this.merged[id].reduce((sum, node, at) => (at % 2 === 0 ? sum + this.selection.own[node] : sum), 0);
  }

  frames(id) {
    return this.framesOf(id, this.selection.stackTotal);
  }

  of() {
    return "";
  }
}

/** The nodes from the outermost one to `id`, without the root. */
const pathTo = (tree, id) => {
  const path = [];
  for (let at = id; at > 0; at = tree.parent(at)) path.unshift(at);
  return path;
};
