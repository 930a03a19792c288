// One method between its callers and its callees, all its occurrences merged: two graphs that meet at the method.

class Sandwich {
  constructor(model, listener) {
    this.model = model;
    this.method = null;
    const graph = (id) => {
      const made = new Graph(model, byId(id), {
        zoomed: () => {},
        selected: (node) => listener.selected(made, node),
        hovered: (node, event) => listener.hovered(made, node, event),
      });
      return made;
    };
    this.callers = graph("callers-of");
    this.callees = graph("callees-of");
    this.graphs = [this.callers, this.callees];
    this.last = this.callees;
    for (const one of this.graphs) one.stage.addEventListener("focusin", () => (this.last = one));
  }

  /** Shows `method`, or nothing if it is `null`. */
  show(selection, method) {
    this.method = method;
    byId("sandwich").hidden = method === null;
    byId("flame").hidden = method !== null;
    for (const crumbs of ["back", "reset", "path"]) byId(crumbs).hidden = method !== null;
    for (const own of ["leave", "center"]) byId(own).hidden = method === null;
    if (method === null) return;
    const { name } = this.model.methods[method];
    const [total, self] = [selection.methodTotal[method], selection.methodSelf[method]];
    const share = `total ${amount(total)} · ${percent(total, selection.weight)}, self ${percent(self, selection.weight)}`;
    byId("center").replaceChildren(element("b", { title: name, className: "parts" }, ...callParts(this.model.methods[method])), element("span", {}, ` ${share}`));
    this.callers.show(new CallersOf(selection, method), true, false);
    this.callees.show(new CalleesOf(selection, method), false, false);
  }
}
