// Brings the parts together: what is chosen above decides what is shown below.

class Page {
  constructor(model) {
    this.model = model;
    this.picked = null;
    this.times = null;
    this.graph = new Graph(model, byId("flame"), {
      zoomed: () => this.showPath(),
      selected: (id) => this.showSelected(this.graph, id),
      hovered: (id, event) => this.showHovered(this.graph, id, event),
    });
    this.sandwich = new Sandwich(model, {
      selected: (graph, id) => this.showSelected(graph, id),
      hovered: (graph, id, event) => this.showHovered(graph, id, event),
    });
    this.tables = new Tables(model, { pick: (method) => this.pick(method), around: (method) => this.showAround(method, true) });
    this.timeline = new Timeline(model, {
      ranged: () => this.select(true),
      thread: (index) => {
        byId("thread").value = String(index);
        this.select(true);
      },
    });
    fillHeader(model);
    byId("states").hidden = !model.bothStates;
    byId("runtime-switch").hidden = !model.hidesFrames;
    this.fillIdle();
    this.fillThreads();
    this.listen();
    this.select(false);
  }

  /** Reads when samples were taken; until then only the whole time can be chosen. */
  readTimes(text) {
    this.times = new Times(this.model, text);
    this.timeline.show(this.times, this.chosen);
  }

  describe(graph, id) {
    return describe(this.model, this.selection, graph.tree, id);
  }

  showSelected(graph, id) {
    this.described = this.describe(graph, id);
    showSelected(this.described);
    byId("around").hidden = this.described.method === null || this.described.method === this.sandwich.method;
  }

  /** The mouse moves much within one box, and finding its lines takes a pass over all stacks. */
  showHovered(graph, id, event) {
    const { tree } = graph;
    if (id !== null && (this.hovered?.id !== id || this.hovered.tree !== tree)) this.hovered = { id, tree, about: this.describe(graph, id) };
    showTooltip(id === null ? null : this.hovered.about, event);
  }

  fillIdle() {
    const { idle, threadIdle, values } = this.model;
    const weight = threadIdle.reduce((sum, one) => sum + one, 0);
    byId("idle-switch").hidden = weight === 0;
    const threads = new Set(values.thread.filter((_, at) => idle[at] === 1)).size;
    byId("idle-label").textContent = `Idle: ${plural(threads, "thread", "threads")}, ${amount(weight)}`;
  }

  /** Threads by weight, the busiest first; those that were only idle are one, and there only if idle threads are shown. */
  fillThreads() {
    const { threadBusy, threadIdle, threads } = this.model;
    const idle = byId("idle").checked;
    const before = byId("thread").value;
    const weights = Float64Array.from(threadBusy, (busy, thread) => busy + (idle ? threadIdle[thread] : 0));
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    const busy = [...threads.keys()].filter((thread) => threadBusy[thread] > 0).sort((one, other) => weights[other] - weights[one]);
    const option = (value, text) => element("option", { value: String(value) }, text);
    const options = busy.map((thread) => option(thread, `${this.model.threadLabel(thread)} · ${percent(weights[thread], all)}`));
    const onlyIdle = [...threads.keys()].filter((thread) => threadBusy[thread] === 0 && threadIdle[thread] > 0).length;
    if (idle && onlyIdle > 0) options.push(option(IDLE_THREADS, plural(onlyIdle, "idle thread", "idle threads")));
    const pool = this.model.poolOf(busy).length;
    if (pool > 0) options.unshift(option(POOL_THREADS, `Thread pool: ${plural(pool, "thread", "threads")}`));
    const seen = busy.length + (idle ? onlyIdle : 0);
    byId("thread").replaceChildren(option(ALL_THREADS, `All ${plural(seen, "thread", "threads")}`), ...options);
    byId("thread").value = before;
    if (byId("thread").selectedIndex < 0) byId("thread").value = String(ALL_THREADS);
  }

  get callers() {
    return document.querySelector("input[name=view]:checked").value === "callers";
  }

  /** Flames grow upwards, callers hang down, unless flipped. */
  get upwards() {
    return this.callers === byId("flip").checked;
  }

  /** Adds up anew what is chosen. */
  select(keepZoom) {
    const state = document.querySelector("input[name=state]:checked").value;
    this.chosen = this.model.choose({ thread: Number(byId("thread").value), state, idle: byId("idle").checked });
    const { range } = this.timeline;
    const columns = range === null || this.times === null ? this.model.values : this.times.within(range);
    this.selection = new Selection(this.model, this.chosen, columns);
    this.selection.application = applicationTime(this.selection);
    this.tables.show(this.selection);
    this.timeline.show(this.times, this.chosen);
    fillLegend(this.model, this.selection);
    this.showTree(keepZoom && !this.callers);
    if (this.sandwich.method !== null) this.showAround(this.sandwich.method);
    this.search();
  }

  showTree(keepZoom) {
    const tree = this.callers ? new CallerTree(this.selection) : new CalleeTree(this.selection);
    const whole = `${amount(this.selection.weight)}, ${countOf(this.selection.count)}`;
    this.graph.rootLabel = this.callers ? `All methods by own time, with their callers below · ${whole}` : `All · ${whole}`;
    this.graph.show(tree, this.upwards, keepZoom);
    if (!this.callers && this.graph.zoomed === 0) this.showApplication();
    byId("empty").hidden = this.selection.weight > 0;
    if (this.model.values.weight.length === 0) byId("empty").textContent = "Nothing was sampled: see the notes above, and the account of samples.";
    this.showPath();
    this.showSelected(this.graph, this.graph.zoomed);
  }

  /** Hosts and frameworks can fill the window with their frames: scrolls past them to the lowest of the outermost application frames with much time. */
  showApplication() {
    const { tree } = this.graph;
    const ids = this.model.entryNodes().map((node) => node + 1);
    const most = ids.reduce((most, id) => Math.max(most, tree.totals[id]), 0);
    const wide = ids.filter((id) => most > 0 && tree.totals[id] >= most / 5);
    const depth = (id) => pathTo(tree, id).length;
    if (wide.length > 0) this.graph.leadFar(wide.reduce((lowest, id) => (depth(id) < depth(lowest) ? id : lowest)));
  }

  /** Shows the callers and callees of a method, or the whole graph again (`null`). */
  showAround(method, lead = false) {
    this.sandwich.show(this.selection, method);
    if (lead) byId("drawing").scrollIntoView({ block: "nearest" });
    if (method !== null) this.showSelected(this.sandwich.callees, 0);
    else this.showSelected(this.graph, this.graph.selected ?? this.graph.zoomed);
    this.search();
    if (method === null) this.graph.redraw();
  }

  search() {
    const wanted = byId("search").value.trim();
    const found = this.picked === null ? searchMethods(this.model, wanted) : this.only(this.picked);
    const matches = found?.matches ?? null;
    for (const graph of [this.graph, ...this.sandwich.graphs]) graph.highlight(matches);
    this.tables.narrow(this.picked === null ? matches : null, this.picked);
    byId("found").textContent = found === null ? "" : this.foundText(found);
    byId("found").classList.toggle("problem", found?.problem !== undefined);
    byId("clear").hidden = wanted === "";
  }

  only(method) {
    const matches = new Uint8Array(this.model.methods.length);
    matches[method] = 1;
    return { matches, methods: 1 };
  }

  foundText({ problem, matches, methods }) {
    if (problem !== undefined) return problem;
    const weight = this.selection.matchedWeight(matches);
    return `${percent(weight, this.selection.weight)} · ${amount(weight)} in ${plural(methods, "method", "methods")}`;
  }

  /** Marks a method in the graph, and selects where it has most time. */
  pick(method) {
    this.picked = this.picked === method ? null : method;
    byId("search").value = this.picked === null ? "" : this.model.methods[method].name;
    if (this.picked !== null && this.sandwich.method !== null) this.showAround(null);
    this.search();
    if (this.picked === null) return;
    const { graph } = this;
    const node = this.widest(method);
    if (node === undefined) return;
    if (!pathTo(graph.tree, node).includes(graph.zoomed)) graph.zoom(0);
    graph.open(node);
    graph.select(node);
    byId("drawing").scrollIntoView({ block: "nearest" });
  }

  widest(method) {
    const { tree } = this.graph;
    if (this.callers) return tree.children(0).find((id) => tree.method(id) === method);
    let widest;
    this.model.methodOfNode.forEach((one, node) => {
      if (one === method && tree.totals[node + 1] > (tree.totals[widest] ?? 0)) widest = node + 1;
    });
    return widest;
  }

  showPath() {
    const { graph } = this;
    const path = [0, ...pathTo(graph.tree, graph.zoomed)];
    const crumbs = path.map((id, at) => this.crumb(id, at === path.length - 1));
    if (crumbs.length > 6) crumbs.splice(1, crumbs.length - 5, element("li", { className: "gap" }, "…"));
    byId("path").replaceChildren(...crumbs);
    byId("back").disabled = graph.past.length === 0;
    byId("reset").disabled = graph.zoomed === 0;
  }

  crumb(id, current) {
    const method = this.model.methods[this.graph.tree.method(id)];
    const text = id === 0 ? "All" : method.forms[Math.max(0, method.forms.length - 2)];
    const button = element("button", { title: id === 0 ? "The whole profile" : method.name }, text);
    if (current) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => this.graph.zoom(id));
    return element("li", {}, button);
  }

  listen() {
    byId("thread").addEventListener("change", () => this.select(true));
    byId("idle").addEventListener("change", () => {
      this.fillThreads();
      this.select(true);
    });
    byId("runtime").addEventListener("change", () => {
      this.model.expand(byId("runtime").checked);
      this.select(false);
    });
    for (const radio of document.querySelectorAll("input[name=state]")) radio.addEventListener("change", () => this.select(true));
    for (const radio of document.querySelectorAll("input[name=view]")) radio.addEventListener("change", () => this.turn());
    byId("flip").addEventListener("change", () => this.graph.show(this.graph.tree, this.upwards, true));
    byId("search").addEventListener("input", () => {
      this.picked = null;
      this.search();
    });
    byId("clear").addEventListener("click", () => this.clearSearch());
    byId("back").addEventListener("click", () => this.graph.back());
    byId("reset").addEventListener("click", () => this.graph.zoom(0));
    byId("around").addEventListener("click", () => this.showAround(this.described.method));
    byId("leave").addEventListener("click", () => this.showAround(null));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  turn() {
    if (this.sandwich.method !== null) this.showAround(null);
    this.showTree(false);
  }

  clearSearch() {
    this.picked = null;
    byId("search").value = "";
    this.search();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === byId("search");
    if (event.key === "Escape") this.escape();
    else if (event.key === "/" && !typing) {
      byId("search").select();
      event.preventDefault();
    } else if (event.key === "Backspace" && !typing) this.back();
  }

  escape() {
    const within = this.sandwich.method !== null;
    if (byId("search").value !== "") this.clearSearch();
    else if (within && this.sandwich.last.zoomed !== 0) this.sandwich.last.zoom(0);
    else if (within) this.showAround(null);
    else this.graph.zoom(0);
    (this.sandwich.method === null ? this.graph : this.sandwich.last).stage.focus();
  }

  back() {
    const { method, last } = this.sandwich;
    if (method === null) this.graph.back();
    else if (last.past.length > 0) last.back();
    else this.showAround(null);
  }
}

const page = new Page(new Model(JSON.parse(byId("profile").textContent)));
const drawn = new Promise((resolve) => {
  requestAnimationFrame(() => {
    document.documentElement.dataset.drawn = String(Math.round(performance.now()));
    setTimeout(resolve);
  });
});
// The times follow this script in the file, and the first view does not need them.
addEventListener("DOMContentLoaded", () => drawn.then(() => page.readTimes(byId("times").textContent)));
