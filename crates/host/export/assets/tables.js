// The tables: one is shown at a time, sorted by any column, a page of rows at a time.

const PAGE_OF_ROWS = 100;
const CALLEES = 2;
/** Lines of a method, if several have a twentieth of the time. */
const LINES = 3;
const HOT_LINE = 20;
/** `localeCompare` would make such a collator for each call. */
const WORDS = new Intl.Collator();

const NAME = { by: "name", label: "Method" };
const SELF = { by: "self", label: "Self", title: "In the method itself" };
const TOTAL = { by: "total", label: "Total", title: "In the method and all it calls, recursion counted once" };
/** Columns of allocations; `title` says what is a method's own. */
const allocated = (title) => ({ columns: [NAME, { ...SELF, title }, { ...TOTAL, title: "Objects of the method and all it calls, recursion counted once" }], sorted: "self" });

/** `ofBytes` is for allocations. `rows(selection)` gives rows: a method or `null` for a last row of `text`, lines below its name, and what the columns show. */
const TABLES = {
  application: {
    tab: "Application",
    title: "Time by application method",
    columns: [NAME, SELF, { by: "total", label: "Time", title: "Self, and all that the method causes outside of the application, up to the next application method" }],
    ofBytes: allocated("Objects that the method allocates, itself or outside of the application, up to the next application method"),
    sorted: "total",
    rows: ({ model, application, weight, methodTotal }) => [
      ...application.methods.map(({ method, self, total, lines, callees }) => {
        const known = lines.heaviest().filter(([frame]) => model.place(frame) !== "");
        const hot = known.filter(([, time]) => time * HOT_LINE >= weight);
        const at = hot.slice(0, hot.length > 1 ? LINES : 0).map(([frame, time]) => ({ place: model.place(frame), share: percent(time, weight) }));
        const sums = inBytes ? { self: total, total: methodTotal[method] } : { self, total };
        return { method, frame: known[0]?.[0] ?? -1, callees, at, ...sums };
      }),
      elsewhereRow(application),
      idleRow(application, ["self", "total"]),
    ],
  },
  waits: {
    tab: "Waits",
    title: "Blocked time by application method",
    columns: [NAME, { by: "wait", label: "Wait", kind: "word" }, { by: "threads", label: "Threads", kind: "number" }, { by: "total", label: "Blocked" }],
    sorted: "total",
    rows: ({ model, application }) => [
      ...application.waits.map((row) => ({ ...row, threads: row.threads.size, text: row.work < 0 ? NO_METHOD : `${NO_METHOD}, in ${isolated(model.methods[row.work].call)}` })),
      idleRow(application, ["total"]),
    ],
  },
  entries: {
    tab: "Entry points",
    title: "Time by outermost application method",
    columns: [NAME, { by: "kind", label: "Start", kind: "word" }, { by: "total", label: "Total" }],
    sorted: "total",
    rows: ({ application }) => application.entries,
  },
  methods: {
    tab: "All methods",
    title: "Time by method",
    columns: [NAME, SELF, TOTAL],
    ofBytes: allocated("Objects that the method itself allocates, or objects of the type"),
    sorted: "self",
    rows: ({ methodSelf, methodTotal }) => Array.from(methodTotal, (total, method) => (total > 0 ? { method, self: methodSelf[method], total } : null)),
  },
};

const tableOf = (id) => (inBytes ? { ...TABLES[id], ...TABLES[id].ofBytes } : TABLES[id]);

/** The heaviest first. Overloads are one: a row has no room for what their arguments tell. */
const called = (model, callees) => {
  const merged = new Map();
  for (const [callee, { total, costs }] of [...callees].sort(([one], [other]) => one - other)) {
    const method = model.methods[callee];
    const key = `${method.module} ${method.space} ${method.call}`;
    if (!merged.has(key)) merged.set(key, { method, names: [], total: 0, costs: new Sums() });
    const known = merged.get(key);
    known.names.push(method.name);
    known.total += total;
    for (const [cost, time] of costs) known.costs.add(cost, time);
  }
  return [...merged.values()].sort((one, other) => other.total - one.total);
};

const kept = (text) => element("span", { className: "kept" }, text);

/** A line below a method: what it calls, and the cost that half of that time goes to: `calls Regex.IsMatch (94% jit) 67%`. `[JIT]` says its cost itself. */
const calleeLine = ({ method, names, total, costs }, verb, weight) => {
  const [[cost, time]] = [...[...costs].sort(([, one], [, other]) => other - one), ["", 0]];
  const isNamed = time * 2 >= total && time > 0 && !method.name.startsWith("[");
  const part = isNamed ? ` (${Math.round((100 * time) / total)}% ${cost})` : "";
  return element("span", { className: "where parts", title: names.join("\n") }, verb === "" ? null : kept(`${verb} `), ...callParts(method), kept(`${part} ${percent(total, weight)}`));
};

const NO_METHOD = "No application method on the stack";

const elsewhereRow = ({ elsewhere, outside }) =>
  elsewhere === 0 ? null : { method: null, text: NO_METHOD, outside, self: elsewhere, total: elsewhere };

/** One row for all idle threads, if they are shown. */
const idleRow = ({ idle }, columns) =>
  idle.total === 0 ? null : { method: null, text: "Idle threads", wait: "idle", threads: idle.threads.size, ...Object.fromEntries(columns.map((by) => [by, idle.total])) };

class Tables {
  /** `listener`: pick(method), around(method). */
  constructor(model, listener) {
    this.model = model;
    this.listener = listener;
    this.only = null;
    this.tabs = Object.keys(TABLES).filter((id) => id !== "waits" || model.hasWaits);
    byId("tabs").replaceChildren(
      ...this.tabs.map((id) => {
        const tab = element("button", { role: "tab", id: `tab-${id}`, "aria-controls": "panel" }, TABLES[id].tab);
        tab.addEventListener("click", () => this.open(id));
        return tab;
      }),
    );
    byId("tabs").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step === undefined) return;
      this.open(this.tabs.at((this.tabs.indexOf(this.shown) + step) % this.tabs.length));
      byId(`tab-${this.shown}`).focus();
    });
    byId("more").addEventListener("click", () => {
      this.most += PAGE_OF_ROWS;
      this.fill();
    });
    byId("rule").textContent = model.rule;
  }

  /** What the next `narrow` lists. */
  show(selection) {
    this.selection = selection;
    const known = selection.model.attributions.nearest.some((frame) => frame >= 0);
    if (this.shown === undefined) this.turnTo(known ? "application" : "methods");
  }

  open(id) {
    this.turnTo(id);
    this.fill();
  }

  turnTo(id) {
    const { columns, sorted, title } = tableOf(id);
    this.shown = id;
    this.by = sorted;
    this.falling = true;
    this.most = PAGE_OF_ROWS;
    for (const tab of this.tabs) {
      byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === id));
      byId(`tab-${tab}`).tabIndex = tab === id ? 0 : -1;
    }
    byId("table-title").textContent = ofUnit(title);
    byId("rule").hidden = id === "methods";
    byId("columns").replaceChildren(...columns.map((column) => this.head(column)));
  }

  head({ by, label, title, kind = "" }) {
    const button = element("button", { title: title ?? "" }, ofUnit(label));
    button.dataset.by = by;
    button.addEventListener("click", () => this.sortBy(by));
    return element("th", { scope: "col", className: kind }, button);
  }

  /** Lists only the methods that match, all if `matches` is null; `chosen` stays marked. */
  narrow(matches, chosen) {
    this.only = matches;
    this.chosen = chosen;
    this.most = PAGE_OF_ROWS;
    this.fill();
  }

  sortBy(column) {
    const words = tableOf(this.shown).columns.find(({ by }) => by === column).kind === "word" || column === "name";
    this.falling = column === this.by ? !this.falling : !words;
    this.by = column;
    this.fill();
  }

  fill() {
    const { columns, rows } = tableOf(this.shown);
    const all = rows(this.selection).filter((row) => row !== null && (this.only === null || this.only[row.method] === 1));
    const of = (one) => Number(one.method === null);
    const order = this.order(columns);
    const first = this.candidates(all, columns).sort((one, other) => of(one) - of(other) || order(one, other));
    byId("rows").replaceChildren(...first.slice(0, this.most).map((row) => this.row(row, columns)));
    byId("more").hidden = all.length <= this.most;
    byId("more").textContent = `Show more of ${count(all.length)}`;
    byId("none").hidden = all.length > 0;
    byId("none").textContent = this.only === null ? "Nothing here." : "No method matches.";
    for (const head of byId("columns").children) {
      const own = head.firstElementChild.dataset.by === this.by;
      head.setAttribute("aria-sort", own ? (this.falling ? "descending" : "ascending") : "none");
    }
  }

  hasWords(columns) {
    return columns.some(({ by, kind }) => by === this.by && (by === "name" || kind === "word"));
  }

  /** The rows that can be among those shown: comparing all rows of a large recording would delay the first view. */
  candidates(all, columns) {
    if (this.hasWords(columns) || all.length <= this.most) return all;
    const sorted = Float64Array.from(all, (row) => row[this.by]).sort();
    const last = this.falling ? sorted[all.length - this.most] : sorted[this.most - 1];
    return all.filter((row) => (this.falling ? row[this.by] >= last : row[this.by] <= last));
  }

  /** Compares rows by the chosen column, then by the other times, then by name. */
  order(columns) {
    const sign = this.falling ? -1 : 1;
    const name = ({ method }) => this.model.methods[method]?.short ?? "";
    const times = columns.filter(({ by, kind }) => kind === undefined && by !== "name" && by !== this.by).map(({ by }) => by);
    const words = this.hasWords(columns);
    const chosen = this.by === "name" ? name : (row) => row[this.by];
    return (one, other) => {
      const less = words ? WORDS.compare(chosen(one), chosen(other)) : one[this.by] - other[this.by];
      if (less !== 0) return sign * less;
      for (const by of times) if (one[by] !== other[by]) return sign * (one[by] - other[by]);
      return WORDS.compare(name(one), name(other));
    };
  }

  row(row, columns) {
    const cells = columns.slice(1).map(({ by, kind }) => this.cell(row[by], kind));
    const name = row.method === null ? this.text(row) : this.name(row);
    return element("tr", { className: row.method !== null && row.method === this.chosen ? "chosen" : "" }, element("th", { scope: "row" }, name), ...cells);
  }

  text({ text, outside = new Map() }) {
    const { weight, application } = this.selection;
    const hot = called(this.model, outside).filter(({ total }) => total * HOT_LINE >= application.busy).slice(0, LINES);
    return element("span", { className: "method" }, element("span"), element("span", { className: "short" }, text), ...hot.map((callee) => calleeLine(callee, "in", weight)));
  }

  name({ method: index, frame = -1, callees = new Map(), at = [] }) {
    const method = this.model.methods[index];
    const place = this.model.place(frame);
    const parts = [isolated(place), isolated(method.space), isolated(method.module)].filter((part) => part !== "");
    const rest = (place === "" ? parts : ["", ...parts.slice(1)]).join(" · ");
    const lines = [element("span", { className: "where parts" }, element("bdi", { className: "kept" }, place), element("span", {}, parts.length === 0 ? this.model.kinds[method.kind] : rest))];
    for (const callee of called(this.model, callees).slice(0, CALLEES)) lines.push(calleeLine(callee, inBytes ? "" : "calls", this.selection.weight));
    for (const { place: line, share } of at) lines.push(element("span", { className: "where parts" }, element("span", {}, "in ", element("bdi", {}, line)), kept(` ${share}`)));
    const title = [method.name, this.model.place(frame, true), method.module].filter((part) => part !== "").join("\n");
    const name = element(
      "button",
      { className: "method", title, "aria-label": `${method.name}, mark it in the graph` },
      element("span", { className: `swatch kind-${method.kind}` }),
      element("span", { className: "short parts" }, ...callParts(method), element("i", {}, cutMiddle(method.short.slice(method.call.length), LONGEST_CALL))),
      ...lines,
    );
    name.addEventListener("click", () => this.listener.pick(index));
    const around = element("button", { className: "around", title: "Callers and callees", "aria-label": `Callers and callees of ${method.name}` }, "⇅");
    around.addEventListener("click", () => this.listener.around(index));
    return element("div", { className: "named" }, name, around);
  }

  cell(value, kind) {
    if (value === undefined) return element("td");
    if (kind !== undefined) return element("td", { className: kind }, typeof value === "number" ? count(value) : value);
    const all = this.selection.weight;
    const fill = element("i");
    fill.style.width = `${(100 * value) / Math.max(1, all)}%`;
    const bar = element("span", { className: "bar", "aria-hidden": "true" }, fill);
    return element("td", {}, element("span", { className: "part" }, percent(value, all)), element("span", { className: "time" }, amount(value)), bar);
  }
}
