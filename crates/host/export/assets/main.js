// Brings the parts together: what is chosen above decides what is shown below.

class Page {
  constructor(model) {
    this.model = model;
    this.picked = null;
    this.graph = new Graph(model, {
      zoomed: () => this.showPath(),
      selected: (id) => showSelected(this.describe(id)),
      hovered: (id, event) => showTooltip(id === null ? null : this.describeHovered(id), event),
    });
    this.table = new MethodTable(model, (method) => this.pick(method));
    fillHeader(model);
    this.fillThreads();
    byId("states").hidden = !model.bothStates;
    this.listen();
    this.select(false);
  }

  describe(id) {
    return describe(this.model, this.selection, this.graph.tree, id);
  }

  /** The mouse moves much within one box, and finding its lines takes a pass over all stacks. */
  describeHovered(id) {
    const { tree } = this.graph;
    if (this.hovered?.id !== id || this.hovered.tree !== tree) this.hovered = { id, tree, about: this.describe(id) };
    return this.hovered.about;
  }

  /** Threads by weight, the busiest first; without samples they are not worth a line. */
  fillThreads() {
    const { values, threads } = this.model;
    const weights = new Float64Array(threads.length);
    values.weight.forEach((weight, at) => {
      weights[values.thread[at]] += weight;
    });
    const all = weights.reduce((sum, weight) => sum + weight, 0);
    const busy = [...threads.keys()].filter((thread) => weights[thread] > 0).sort((one, other) => weights[other] - weights[one]);
    const options = busy.map((thread) =>
      element("option", { value: String(thread) }, `${this.model.threadLabel(thread)} · ${percent(weights[thread], all)}`),
    );
    byId("thread").append(element("option", { value: "-1" }, `All ${plural(busy.length, "thread", "threads")}`), ...options);
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
    this.selection = new Selection(this.model, Number(byId("thread").value), state);
    this.table.show(this.selection);
    fillLegend(this.model, this.selection);
    this.showTree(keepZoom && !this.callers);
    this.search();
  }

  showTree(keepZoom) {
    const tree = this.callers ? new CallerTree(this.selection) : new CalleeTree(this.selection);
    const whole = `${duration(this.selection.weight)}, ${plural(this.selection.count, "sample", "samples")}`;
    this.graph.rootLabel = this.callers ? `All methods by own time, with their callers below · ${whole}` : `All · ${whole}`;
    this.graph.show(tree, this.upwards, keepZoom);
    byId("empty").hidden = this.selection.weight > 0;
    if (this.model.values.weight.length === 0) byId("empty").textContent = "Nothing was sampled: see the notes above, and the account of samples.";
    this.showPath();
    showSelected(this.describe(this.graph.zoomed));
  }

  search() {
    const wanted = byId("search").value.trim();
    const found = searchMethods(this.model, wanted);
    const matches = found?.matches ?? null;
    this.graph.highlight(matches);
    this.table.narrow(this.picked === null ? matches : null, this.picked);
    byId("found").textContent = found === null ? "" : this.foundText(found);
    byId("found").classList.toggle("problem", found?.problem !== undefined);
    byId("clear").hidden = wanted === "";
  }

  foundText({ problem, matches, methods }) {
    if (problem !== undefined) return problem;
    const weight = this.selection.matchedWeight(matches);
    return `${percent(weight, this.selection.weight)} · ${duration(weight)} in ${plural(methods, "method", "methods")}`;
  }

  pick(method) {
    this.picked = this.picked === method ? null : method;
    byId("search").value = this.picked === null ? "" : this.model.methods[method].name;
    this.search();
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
    for (const radio of document.querySelectorAll("input[name=state]")) radio.addEventListener("change", () => this.select(true));
    for (const radio of document.querySelectorAll("input[name=view]")) radio.addEventListener("change", () => this.showTree(false));
    byId("flip").addEventListener("change", () => this.graph.show(this.graph.tree, this.upwards, true));
    byId("search").addEventListener("input", () => {
      this.picked = null;
      this.search();
    });
    byId("clear").addEventListener("click", () => this.clearSearch());
    byId("back").addEventListener("click", () => this.graph.back());
    byId("reset").addEventListener("click", () => this.graph.zoom(0));
    document.addEventListener("keydown", (event) => this.key(event));
  }

  clearSearch() {
    this.picked = null;
    byId("search").value = "";
    this.search();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === byId("search");
    if (event.key === "Escape") {
      if (byId("search").value === "") this.graph.zoom(0);
      else this.clearSearch();
      byId("stage").focus();
    } else if (event.key === "/" && !typing) {
      byId("search").select();
      event.preventDefault();
    } else if (event.key === "Backspace" && !typing) {
      this.graph.back();
    }
  }
}

const page = new Page(new Model(JSON.parse(byId("profile").textContent)));
