// The profile as the page uses it: methods, a tree of calls between them, and what a choice of threads and states adds up to.

const APPLICATION = 0;
const FRAMEWORK = 1;
/** Choices of threads that are not one thread. */
const ALL_THREADS = -1;
const IDLE_THREADS = -2;
const POOL_THREADS = -3;

/** Gives one number after the other of what `html/packed.rs` writes. */
const packedNumbers = (base64) => {
  const bytes = atob(base64);
  let at = 0;
  return () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes.charCodeAt(at++);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
};

/** Columns with an entry for each thread, stack and state. `html/data.rs` describes the text. */
const readValues = (base64) => {
  const values = { thread: [], folded: [], expanded: [], blocked: [], weight: [], samples: [], attribution: [] };
  const number = packedNumbers(base64);
  let [thread, node] = [0, 0];
  for (let left = number(); left > 0; left--) {
    const step = number();
    if (step > 1) node = 0;
    thread += step >> 1;
    node += number();
    values.thread.push(thread);
    const away = number();
    values.folded.push(node);
    values.expanded.push(away % 2 === 0 ? node + away / 2 : node - (away + 1) / 2);
    values.blocked.push(step & 1);
    values.weight.push(number());
    values.samples.push(number());
    values.attribution.push(number());
  }
  values.node = values.folded;
  return values;
};

/** Frames that differ by line only are one method; stacks of the same methods are one node. */
class Model {
  constructor(data) {
    this.about = data.about;
    this.advice = data.advice;
    this.loss = data.loss;
    this.kinds = data.kinds;
    this.threads = data.threads;
    this.values = readValues(data.values);
    this.strings = data.strings;
    this.frames = data.frames;
    this.attributions = data.attributions;
    this.rule = data.rule;
    this.slots = data.slots;
    this.frameOfStack = Int32Array.from(data.nodes.frame);
    this.parentOfStack = Int32Array.from(data.nodes.up, (up, at) => (up === 0 ? -1 : at - up));
    this.mergeFrames();
    this.mergeStacks();
    this.linkChildren();
    this.markOutermost();
    this.findResumed();
    this.findIdle();
    this.hidesFrames = this.values.folded.some((node, at) => node !== this.values.expanded[at]);
    this.hasWaits = this.about.event === "wall" && this.values.blocked.includes(1);
    this.bothStates = this.values.blocked.includes(0) && this.values.blocked.includes(1);
  }

  /** Shows every frame of the runtime, or one for a run of them without symbols. */
  expand(all) {
    this.values.node = all ? this.values.expanded : this.values.folded;
  }

  /** A thread is idle while it is blocked without an application method on its stack, but not while it waits for a CPU. */
  findIdle() {
    const { blocked, attribution, thread, weight } = this.values;
    const { nearest, wait, waits } = this.attributions;
    const isIdle = nearest.map((frame, index) => frame < 0 && waits[wait[index]] !== "cpu");
    this.idle = Uint8Array.from(blocked, (is, at) => (is === 1 && isIdle[attribution[at]] ? 1 : 0));
    this.threadBusy = new Float64Array(this.threads.length);
    this.threadIdle = new Float64Array(this.threads.length);
    for (let at = 0; at < thread.length; at++) (this.idle[at] === 1 ? this.threadIdle : this.threadBusy)[thread[at]] += weight[at];
  }

  /** The indexes in `values` of what a choice means: `{ thread, state, idle }`. */
  choose({ thread, state, idle }) {
    const { values } = this;
    const chosen = [];
    for (let at = 0; at < values.node.length; at++) {
      if (thread >= 0 && values.thread[at] !== thread) continue;
      if (thread === POOL_THREADS && !this.threads[values.thread[at]].pool) continue;
      if (thread === IDLE_THREADS && this.threadBusy[values.thread[at]] > 0) continue;
      if (state !== "all" && (values.blocked[at] === 1) !== (state === "blocked")) continue;
      if (idle || this.idle[at] === 0) chosen.push(at);
    }
    return chosen;
  }

  /** Those of `threads` that are of the pool. None, if they are the only ones: then they need no group. */
  poolOf(threads) {
    const pool = threads.filter((thread) => this.threads[thread].pool);
    return pool.length > 1 && pool.length < threads.length ? pool : [];
  }

  mergeFrames() {
    const known = new Map();
    this.methods = [];
    this.methodOfFrame = Int32Array.from(this.frames.name, (name, frame) => {
      const module = this.frames.module[frame];
      const key = `${name} ${module}`;
      if (!known.has(key)) {
        known.set(key, this.methods.length);
        this.methods.push(this.method(frame));
      }
      const method = known.get(key);
      this.methods[method].frames.push(frame);
      return method;
    });
  }

  method(frame) {
    const text = (index) => (index < 0 ? "" : this.strings[index]);
    const kind = this.frames.kind[frame];
    const name = text(this.frames.name[frame]);
    const parts = partsOfName(name, kind === APPLICATION || kind === FRAMEWORK);
    return { name, module: text(this.frames.module[frame]), kind, frames: [], widths: [], resumed: false, ...parts };
  }

  mergeStacks() {
    const stacks = this.frameOfStack.length;
    const known = new Map();
    const parents = [];
    const methods = [];
    this.nodeOfStack = new Int32Array(stacks);
    for (let stack = 0; stack < stacks; stack++) {
      const caller = this.parentOfStack[stack];
      const parent = caller < 0 ? -1 : this.nodeOfStack[caller];
      const method = this.methodOfFrame[this.frameOfStack[stack]];
      const key = (parent + 1) * this.methods.length + method;
      let node = known.get(key);
      if (node === undefined) {
        node = parents.length;
        known.set(key, node);
        parents.push(parent);
        methods.push(method);
      }
      this.nodeOfStack[stack] = node;
    }
    this.parent = Int32Array.from(parents);
    this.methodOfNode = Int32Array.from(methods);
  }

  /** Children of node n are `childList[childStart[n + 1]] ..`; those of -1 are the outermost frames. */
  linkChildren() {
    const nodes = this.parent.length;
    this.childStart = new Int32Array(nodes + 2);
    for (const parent of this.parent) this.childStart[parent + 2]++;
    for (let at = 1; at < nodes + 2; at++) this.childStart[at] += this.childStart[at - 1];
    const next = this.childStart.slice();
    this.childList = new Int32Array(nodes);
    for (let node = 0; node < nodes; node++) this.childList[next[this.parent[node] + 1]++] = node;
  }

  /** A node is outermost if none of its callers is the same method: only those count towards a method's total. */
  markOutermost() {
    const open = new Int32Array(this.methods.length);
    this.outermost = new Uint8Array(this.parent.length);
    const path = [];
    const todo = Array.from(this.childrenOf(-1));
    while (todo.length > 0) {
      const node = todo.pop();
      while (path.length > 0 && path.at(-1) !== this.parent[node]) open[this.methodOfNode[path.pop()]]--;
      const method = this.methodOfNode[node];
      this.outermost[node] = open[method]++ === 0 ? 1 : 0;
      path.push(node);
      for (const child of this.childrenOf(node)) todo.push(child);
    }
  }

  /** Marks methods that continue after an `await`: the box of their state machine calls them, mostly through `ExecutionContext`. */
  findResumed() {
    const isBox = this.methods.map(({ name }) => name.includes("AsyncStateMachineBox"));
    const isContext = this.methods.map(({ name }) => name.startsWith("System.Threading.ExecutionContext.Run"));
    const resumes = new Uint8Array(this.parent.length);
    this.parent.forEach((parent, node) => {
      const method = this.methodOfNode[node];
      const isResumed = parent >= 0 && resumes[parent] === 1;
      resumes[node] = isBox[method] || (isContext[method] && isResumed) ? 1 : 0;
      if (isResumed && resumes[node] === 0 && this.methods[method].kind <= FRAMEWORK) this.methods[method].resumed = true;
    });
  }

  childrenOf(node) {
    return this.childList.subarray(this.childStart[node + 1], this.childStart[node + 2]);
  }

  /** `Orders.cs:42`, or with `whole` all of the path; empty without debug information. */
  place(frame, whole = false) {
    const { file, line } = this.frames;
    if (frame < 0 || file[frame] < 0 || line[frame] < 1) return "";
    const path = this.strings[file[frame]];
    return `${whole ? path : path.split(/[/\\]/).at(-1)}:${line[frame]}`;
  }

  threadLabel(index) {
    const { id, name } = this.threads[index];
    return name === "" ? `thread ${id}` : `${name} (${id})`;
  }
}

/** What the samples of `chosen` add up to; `weight` and `samples` are columns like those of the model's values. */
class Selection {
  constructor(model, chosen, { weight, samples }) {
    this.model = model;
    this.chosen = chosen;
    this.weights = weight;
    this.stackSelf = new Float64Array(model.nodeOfStack.length);
    this.self = new Float64Array(model.parent.length);
    this.samples = new Float64Array(model.parent.length);
    this.weight = 0;
    this.count = 0;
    const { values } = model;
    for (const at of chosen) {
      const node = model.nodeOfStack[values.node[at]];
      this.stackSelf[values.node[at]] += weight[at];
      this.self[node] += weight[at];
      this.samples[node] += samples[at];
      this.weight += weight[at];
      this.count += samples[at];
    }
    this.addCallees();
    this.addMethods();
  }

  /** Parents stand before their children, so one pass from the end carries everything to the root. */
  addCallees() {
    const { parent } = this.model;
    this.total = this.self.slice();
    for (let node = parent.length - 1; node >= 0; node--) {
      if (parent[node] < 0) continue;
      this.total[parent[node]] += this.total[node];
      this.samples[parent[node]] += this.samples[node];
    }
  }

  addMethods() {
    const { methods, methodOfNode, outermost } = this.model;
    this.methodSelf = new Float64Array(methods.length);
    this.methodTotal = new Float64Array(methods.length);
    this.kindSelf = new Float64Array(this.model.kinds.length);
    for (let node = 0; node < methodOfNode.length; node++) {
      const method = methodOfNode[node];
      this.methodSelf[method] += this.self[node];
      if (outermost[node] === 1) this.methodTotal[method] += this.total[node];
      this.kindSelf[methods[method].kind] += this.self[node];
    }
  }

  /** Weight of the samples that have a matching method anywhere in their stack. */
  matchedWeight(matches) {
    const { parent, methodOfNode } = this.model;
    const within = new Uint8Array(parent.length);
    let weight = 0;
    for (let node = 0; node < parent.length; node++) {
      within[node] = matches[methodOfNode[node]] === 1 || (parent[node] >= 0 && within[parent[node]] === 1) ? 1 : 0;
      if (within[node] === 1) weight += this.self[node];
    }
    return weight;
  }

  /** Weights of whole stacks, callees included; made when first asked for. */
  get stackTotal() {
    if (this.stackTotals === undefined) {
      this.stackTotals = this.stackSelf.slice();
      const { parentOfStack } = this.model;
      for (let stack = parentOfStack.length - 1; stack >= 0; stack--) {
        if (parentOfStack[stack] >= 0) this.stackTotals[parentOfStack[stack]] += this.stackTotals[stack];
      }
    }
    return this.stackTotals;
  }
}
