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

/** A distance that `html/packed.rs` writes: twice its amount, less 1 if it is backwards. */
const distance = (number) => (number % 2 === 0 ? number / 2 : -(number + 1) / 2);

/** Columns with an entry for each thread, stack and state. `html/data.rs` describes the text. */
const readValues = (base64) => {
  const number = packedNumbers(base64);
  const size = number();
  const indexes = () => new Int32Array(size);
  const values = { thread: indexes(), folded: indexes(), expanded: indexes(), blocked: new Uint8Array(size), weight: new Float64Array(size), samples: new Float64Array(size), attribution: indexes() };
  let [thread, node] = [0, 0];
  for (let at = 0; at < size; at++) {
    const step = number();
    if (step > 1) node = 0;
    thread += step >> 1;
    node += distance(number());
    values.thread[at] = thread;
    values.folded[at] = node;
    values.expanded[at] = node + distance(number());
    values.blocked[at] = step & 1;
    values.weight[at] = number();
    values.samples[at] = number();
    values.attribution[at] = number();
  }
  values.node = values.folded;
  return values;
};

/** Its name is split when first shown: a large recording has more methods than are ever seen. */
class Method {
  constructor(name, module, kind) {
    Object.assign(this, { name, module, kind, frames: [], widths: [] });
  }

  get parts() {
    this.split ??= partsOfName(this.name, this.kind === APPLICATION || this.kind === FRAMEWORK);
    return this.split;
  }

  get space() {
    return this.parts.space;
  }

  get short() {
    return this.parts.short;
  }

  get call() {
    return this.parts.call;
  }

  get forms() {
    return this.parts.forms;
  }
}

/** Frames that differ by line only are one method; stacks of the same methods are one node. */
class Model {
  constructor(data) {
    this.about = Object.fromEntries(Object.entries(data.about).map(([name, value]) => [name, typeof value === "string" ? plain(value) : value]));
    this.about.notes = data.about.notes.map(plain);
    inBytes = this.about.inBytes;
    this.advice = data.advice.map(plain);
    this.loss = data.loss;
    this.kinds = data.kinds;
    this.threads = data.threads.map((thread) => ({ ...thread, name: plain(thread.name) }));
    this.values = readValues(data.values);
    this.strings = data.strings.map(plain);
    this.frames = data.frames;
    this.attributions = data.attributions;
    this.rule = data.rule;
    this.slots = data.slots;
    this.frameOfStack = new Int32Array(data.nodes.frame);
    this.parentOfStack = new Int32Array(data.nodes.up);
    for (let at = 0; at < this.parentOfStack.length; at++) this.parentOfStack[at] = this.parentOfStack[at] === 0 ? -1 : at - this.parentOfStack[at];
    this.mergeFrames();
    this.mergeStacks();
    this.findEnds();
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

  /** The file knows which stacks of blocked threads are those of idle ones. */
  findIdle() {
    const { blocked, attribution, thread, weight } = this.values;
    this.idle = Uint8Array.from(blocked, (is, at) => (is === 1 && this.attributions.idle[attribution[at]] ? 1 : 0));
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
    return new Method(text(this.frames.name[frame]), text(this.frames.module[frame]), this.frames.kind[frame]);
  }

  /** Stacks of one node are side by side, and nodes in the order of a walk, depth first. */
  mergeStacks() {
    const stacks = this.frameOfStack.length;
    const [parents, methods] = [new Int32Array(stacks), new Int32Array(stacks)];
    this.nodeOfStack = new Int32Array(stacks);
    let node = -1;
    for (let stack = 0; stack < stacks; stack++) {
      const caller = this.parentOfStack[stack];
      const parent = caller < 0 ? -1 : this.nodeOfStack[caller];
      const method = this.methodOfFrame[this.frameOfStack[stack]];
      if (node < 0 || parent !== parents[node] || method !== methods[node]) {
        node++;
        parents[node] = parent;
        methods[node] = method;
      }
      this.nodeOfStack[stack] = node;
    }
    this.parent = parents.subarray(0, node + 1);
    this.methodOfNode = methods.subarray(0, node + 1);
  }

  /** What a node calls, directly or not, stands from behind it to before its end. */
  findEnds() {
    const { parent } = this;
    this.end = new Int32Array(parent.length);
    for (let node = parent.length - 1; node >= 0; node--) {
      if (this.end[node] === 0) this.end[node] = node + 1;
      if (parent[node] >= 0 && this.end[parent[node]] === 0) this.end[parent[node]] = this.end[node];
    }
  }

  /** A node is outermost if none of its callers is the same method: only those count towards a method's total. */
  markOutermost() {
    const { parent, methodOfNode } = this;
    const open = new Int32Array(this.methods.length);
    this.outermost = new Uint8Array(parent.length);
    const path = new Int32Array(parent.length);
    let depth = 0;
    for (let node = 0; node < parent.length; node++) {
      while (depth > 0 && path[depth - 1] !== parent[node]) open[methodOfNode[path[--depth]]]--;
      this.outermost[node] = open[methodOfNode[node]]++ === 0 ? 1 : 0;
      path[depth++] = node;
    }
  }

  /** Marks nodes that continue after an `await`: the box of their state machine calls them, mostly through `ExecutionContext`. */
  findResumed() {
    this.resumed = new Uint8Array(this.parent.length);
    const isBox = this.methods.map(({ name }) => name.includes("AsyncStateMachineBox"));
    const isContext = this.methods.map(({ name }) => name.startsWith("System.Threading.ExecutionContext.Run"));
    const resumes = new Uint8Array(this.parent.length);
    for (let node = 0; node < this.parent.length; node++) {
      const method = this.methodOfNode[node];
      const isResumed = this.parent[node] >= 0 && resumes[this.parent[node]] === 1;
      resumes[node] = isBox[method] || (isContext[method] && isResumed) ? 1 : 0;
      if (isResumed && resumes[node] === 0 && this.methods[method].kind <= FRAMEWORK) this.resumed[node] = 1;
    }
  }

  /** The outermost application frames: nodes without another one among their callers. */
  entryNodes() {
    const { parent, methods, methodOfNode } = this;
    const within = new Uint8Array(parent.length);
    const nodes = [];
    for (let node = 0; node < parent.length; node++) {
      const isBelow = parent[node] >= 0 && within[parent[node]] === 1;
      const isOwn = methods[methodOfNode[node]].kind === APPLICATION;
      if (isOwn && !isBelow) nodes.push(node);
      within[node] = isBelow || isOwn ? 1 : 0;
    }
    return nodes;
  }

  /** The nodes that a node calls; of -1, the outermost frames. */
  childrenOf(node) {
    const children = [];
    const end = node < 0 ? this.end.length : this.end[node];
    for (let child = node + 1; child < end; child = this.end[child]) children.push(child);
    return children;
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
    return name === "" ? `thread ${id}` : `${isolated(name)} (${id})`;
  }
}

/** What the samples of `chosen` add up to; `weight` and `samples` are columns like those of the model's values. */
class Selection {
  constructor(model, chosen, { weight, samples }) {
    this.model = model;
    this.chosen = chosen;
    this.weights = weight;
    this.counts = samples;
    this.stackSelf = new Float64Array(model.nodeOfStack.length);
    this.self = new Float64Array(model.parent.length);
    this.samples = new Float64Array(model.parent.length);
    this.weight = 0;
    this.count = 0;
    this.addSelf();
    this.addCallees();
    this.own = inBytes ? this.withObjects() : this.self;
    this.addMethods();
  }

  addSelf() {
    const { self, stackSelf, weights } = this;
    const { nodeOfStack, values } = this.model;
    for (const at of this.chosen) {
      const stack = values.node[at];
      stackSelf[stack] += weights[at];
      self[nodeOfStack[stack]] += weights[at];
      this.samples[nodeOfStack[stack]] += this.counts[at];
      this.weight += weights[at];
      this.count += this.counts[at];
    }
  }

  /** Parents stand before their children, so one pass from the end carries everything to the root. */
  addCallees() {
    const { parent } = this.model;
    const { samples } = this;
    const total = this.self.slice();
    for (let node = parent.length - 1; node >= 0; node--) {
      if (parent[node] < 0) continue;
      total[parent[node]] += total[node];
      samples[parent[node]] += samples[node];
    }
    this.total = total;
  }

  /** Of allocations, the leaves are types: their bytes are those of the method that allocates, too. */
  withObjects() {
    const own = this.self.slice();
    this.self.forEach((weight, node) => {
      if (this.model.parent[node] >= 0) own[this.model.parent[node]] += weight;
    });
    return own;
  }

  addMethods() {
    const { methods, methodOfNode, outermost } = this.model;
    const { own, total } = this;
    const methodSelf = new Float64Array(methods.length);
    const methodTotal = new Float64Array(methods.length);
    for (let node = 0; node < methodOfNode.length; node++) {
      const method = methodOfNode[node];
      methodSelf[method] += own[node];
      if (outermost[node] === 1) methodTotal[method] += total[node];
    }
    Object.assign(this, { methodSelf, methodTotal, kindSelf: new Float64Array(this.model.kinds.length) });
    methods.forEach(({ kind }, method) => (this.kindSelf[kind] += methodSelf[method]));
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
