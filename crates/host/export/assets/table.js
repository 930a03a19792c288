// The table of methods: own time and time with callees, by either, a page of rows at a time.

const PAGE_OF_ROWS = 100;

class MethodTable {
  /** `choose(method)` is called when a row is chosen. */
  constructor(model, choose) {
    this.model = model;
    this.choose = choose;
    this.by = "self";
    this.falling = true;
    this.shown = PAGE_OF_ROWS;
    this.only = null;
    for (const button of document.querySelectorAll("#methods th button")) {
      button.addEventListener("click", () => this.sortBy(button.dataset.by));
    }
    byId("more").addEventListener("click", () => {
      this.shown += PAGE_OF_ROWS;
      this.fill();
    });
  }

  show(selection) {
    this.selection = selection;
    this.shown = PAGE_OF_ROWS;
    this.fill();
  }

  /** Lists only the methods that match, all if `matches` is null; `chosen` stays marked. */
  narrow(matches, chosen) {
    this.only = matches;
    this.chosen = chosen;
    this.shown = PAGE_OF_ROWS;
    this.fill();
  }

  sortBy(column) {
    this.falling = column === this.by ? !this.falling : column !== "name";
    this.by = column;
    this.fill();
  }

  fill() {
    const { methodSelf, methodTotal } = this.selection;
    const methods = [];
    methodTotal.forEach((total, method) => {
      if (total > 0 && (this.only === null || this.only[method] === 1)) methods.push(method);
    });
    methods.sort(this.order(methodSelf, methodTotal));
    byId("rows").replaceChildren(...methods.slice(0, this.shown).map((method) => this.row(method)));
    byId("more").hidden = methods.length <= this.shown;
    byId("more").textContent = `Show more of ${count(methods.length)}`;
    byId("none").hidden = methods.length > 0 || this.model.values.weight.length === 0;
    for (const head of document.querySelectorAll("#methods th")) {
      const own = head.firstElementChild.dataset.by === this.by;
      head.setAttribute("aria-sort", own ? (this.falling ? "descending" : "ascending") : "none");
    }
  }

  order(methodSelf, methodTotal) {
    const sign = this.falling ? -1 : 1;
    const byName = (one, other) => this.model.methods[one].short.localeCompare(this.model.methods[other].short);
    if (this.by === "name") return (one, other) => sign * byName(one, other);
    const [first, second] = this.by === "self" ? [methodSelf, methodTotal] : [methodTotal, methodSelf];
    return (one, other) => sign * (first[one] - first[other]) || sign * (second[one] - second[other]) || byName(one, other);
  }

  row(index) {
    const method = this.model.methods[index];
    const where = [method.space, method.module].filter((part) => part !== "").join(" · ");
    const name = element(
      "button",
      { className: "method", title: method.name, "aria-label": `${method.name}, search for it` },
      element("span", { className: `swatch kind-${method.kind}` }),
      element("span", { className: "short" }, method.call, element("i", {}, method.short.slice(method.call.length))),
      element("span", { className: "where" }, where || this.model.kinds[method.kind]),
    );
    name.addEventListener("click", () => this.choose(index));
    const row = element(
      "tr",
      { className: index === this.chosen ? "chosen" : "" },
      element("th", { scope: "row" }, name),
      this.cell(this.selection.methodSelf[index]),
      this.cell(this.selection.methodTotal[index]),
    );
    return row;
  }

  cell(weight) {
    const all = this.selection.weight;
    const fill = element("i");
    fill.style.width = `${(100 * weight) / Math.max(1, all)}%`;
    const bar = element("span", { className: "bar", "aria-hidden": "true" }, fill);
    return element("td", {}, element("span", { className: "part" }, percent(weight, all)), element("span", { className: "time" }, duration(weight)), bar);
  }
}
