// The tables: one is shown at a time, sorted by any column, a page of rows at a time.

const PAGE_OF_ROWS = 100;
const CALLEES = 2;
/** Lines of a method, if several have a twentieth of the time. */
const LINES = 3;
const HOT_LINE = 20;

const NAME = { by: "name", label: "Method" };
const SELF = { by: "self", label: "Self", title: "In the method itself" };
const TOTAL = { by: "total", label: "Total", title: "In the method and all it calls, recursion counted once" };

/** `rows(selection)` gives rows: a method or `null` for a last row of `text`, lines below its name, and what the columns show. */
const TABLES = {
  application: {
    tab: "Application",
    title: "Time by application method",
    columns: [NAME, SELF, { by: "total", label: "Time", title: "Self, and all that the method causes outside of the application, up to the next application method" }],
    sorted: "total",
    rows: ({ model, application, weight }) => [
      ...application.methods.map(({ method, self, total, lines, callees }) => {
        const [line] = lines.heaviest().filter(([frame]) => model.place(frame) !== "")[0] ?? [-1];
        const calls = callees.heaviest().slice(0, CALLEES).map(([callee, time]) => ({ calls: model.methods[callee], share: percent(time, weight) }));
        const hot = lines.heaviest().filter(([frame, time]) => model.place(frame) !== "" && time * HOT_LINE >= weight);
        const at = hot.slice(0, hot.length > 1 ? LINES : 0).map(([frame, time]) => ({ place: model.place(frame), share: percent(time, weight) }));
        return { method, frame: line, calls, at, self, total };
      }),
      application.elsewhere > 0 ? { method: null, text: "No application method on the stack", self: application.elsewhere, total: application.elsewhere } : null,
      idleRow(application, ["self", "total"]),
    ],
  },
  waits: {
    tab: "Waits",
    title: "Blocked time by application method",
    columns: [NAME, { by: "wait", label: "Wait", kind: "word" }, { by: "threads", label: "Threads", kind: "number" }, { by: "total", label: "Blocked" }],
    sorted: "total",
    rows: ({ application }) => [
      ...application.waits.map((row) => ({ ...row, threads: row.threads.size })),
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
    sorted: "self",
    rows: ({ methodSelf, methodTotal }) => Array.from(methodTotal, (total, method) => (total > 0 ? { method, self: methodSelf[method], total } : null)),
  },
};

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

  show(selection) {
    this.selection = selection;
    const known = selection.model.attributions.nearest.some((frame) => frame >= 0);
    if (this.shown === undefined) this.open(known ? "application" : "methods");
    else this.fill();
  }

  open(id) {
    const { columns, sorted, title } = TABLES[id];
    this.shown = id;
    this.by = sorted;
    this.falling = true;
    this.most = PAGE_OF_ROWS;
    for (const tab of this.tabs) {
      byId(`tab-${tab}`).setAttribute("aria-selected", String(tab === id));
      byId(`tab-${tab}`).tabIndex = tab === id ? 0 : -1;
    }
    byId("table-title").textContent = title;
    byId("rule").hidden = id === "methods";
    byId("columns").replaceChildren(...columns.map((column) => this.head(column)));
    this.fill();
  }

  head({ by, label, title, kind = "" }) {
    const button = element("button", { title: title ?? "" }, label);
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
    const words = TABLES[this.shown].columns.find(({ by }) => by === column).kind === "word" || column === "name";
    this.falling = column === this.by ? !this.falling : !words;
    this.by = column;
    this.fill();
  }

  fill() {
    const { columns, rows } = TABLES[this.shown];
    const all = rows(this.selection).filter((row) => row !== null && (this.only === null || this.only[row.method] === 1));
    const of = (one) => Number(one.method === null);
    const order = this.order(columns);
    all.sort((one, other) => of(one) - of(other) || order(one, other));
    byId("rows").replaceChildren(...all.slice(0, this.most).map((row) => this.row(row, columns)));
    byId("more").hidden = all.length <= this.most;
    byId("more").textContent = `Show more of ${count(all.length)}`;
    byId("none").hidden = all.length > 0;
    byId("none").textContent = this.only === null ? "Nothing here." : "No method matches.";
    for (const head of byId("columns").children) {
      const own = head.firstElementChild.dataset.by === this.by;
      head.setAttribute("aria-sort", own ? (this.falling ? "descending" : "ascending") : "none");
    }
  }

  order(columns) {
    const sign = this.falling ? -1 : 1;
    const value = (row, by) => (by === "name" ? this.model.methods[row.method]?.short ?? "" : row[by]);
    const compare = (one, other, by) => {
      const [first, second] = [value(one, by), value(other, by)];
      return typeof first === "string" ? first.localeCompare(second) : first - second;
    };
    const next = columns.filter(({ by, kind }) => kind === undefined && by !== "name" && by !== this.by).map(({ by }) => by);
    return (one, other) => {
      const by = [this.by, ...next].map((column) => sign * compare(one, other, column)).find((less) => less !== 0);
      return by ?? compare(one, other, "name");
    };
  }

  row(row, columns) {
    const cells = columns.slice(1).map(({ by, kind }) => this.cell(row[by], kind));
    const name = row.method === null ? element("span", { className: "method" }, element("span"), element("span", { className: "short" }, row.text)) : this.name(row);
    return element("tr", { className: row.method !== null && row.method === this.chosen ? "chosen" : "" }, element("th", { scope: "row" }, name), ...cells);
  }

  name({ method: index, frame = -1, calls = [], at = [] }) {
    const method = this.model.methods[index];
    const place = this.model.place(frame);
    const parts = [place, method.space, method.module].filter((part) => part !== "");
    const rest = (place === "" ? parts : ["", ...parts.slice(1)]).join(" · ");
    const lines = [element("span", { className: "where parts" }, place, element("span", {}, parts.length === 0 ? this.model.kinds[method.kind] : rest))];
    for (const { calls: callee, share } of calls) lines.push(element("span", { className: "where parts", title: callee.name }, element("span", {}, `calls ${callee.call}`), ` ${share}`));
    for (const { place: line, share } of at) lines.push(element("span", { className: "where parts" }, element("span", {}, `in ${line}`), ` ${share}`));
    const title = [method.name, this.model.place(frame, true), method.module].filter((part) => part !== "").join("\n");
    const name = element(
      "button",
      { className: "method", title, "aria-label": `${method.name}, mark it in the graph` },
      element("span", { className: `swatch kind-${method.kind}` }),
      element("span", { className: "short" }, method.call, element("i", {}, method.short.slice(method.call.length))),
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
    return element("td", {}, element("span", { className: "part" }, percent(value, all)), element("span", { className: "time" }, duration(value)), bar);
  }
}
