// What is said of one node: in the tooltip, in the line below the graph, and to a screen reader.

/** File and lines of a node, the heaviest lines first. */
const sourceOf = (model, tree, id) => {
  const method = model.methods[tree.method(id)];
  const fileOf = (frame) => (model.frames.file[frame] < 0 ? "" : model.strings[model.frames.file[frame]]);
  const weights = tree.frames(id);
  const known = [...(weights.size > 0 ? weights : method.frames.map((frame) => [frame, 0]))].filter(([frame]) => fileOf(frame) !== "");
  if (known.length === 0) return "";
  known.sort(([, one], [, other]) => other - one);
  const file = isolated(fileOf(known[0][0]));
  const lines = known.filter(([frame]) => model.frames.line[frame] > 0).slice(0, 3);
  if (lines.length === 0 || (weights.size === 0 && lines.length > 1)) return file;
  const all = known.reduce((sum, [, weight]) => sum + weight, 0);
  if (known.length === 1) return `${file}:${model.frames.line[known[0][0]]}`;
  return `${file}, line ${lines.map(([frame, weight]) => `${model.frames.line[frame]} (${percent(weight, all)})`).join(", ")}`;
};

/** Label and value of everything there is to say; the first is the name. */
const describe = (model, selection, tree, id) => {
  if (tree.method(id) < 0) {
    return { name: "All", method: null, kind: null, facts: [["Total", `${amount(selection.weight)}, ${countOf(selection.count)}`]] };
  }
  const method = model.methods[tree.method(id)];
  const of = (weight) => `${amount(weight)} · ${percent(weight, selection.weight)}`;
  const part = tree.of(id);
  const facts = [["Kind", model.kinds[method.kind]]];
  if (method.module !== "") facts.push(["Module", method.module]);
  const source = sourceOf(model, tree, id);
  if (source !== "") facts.push(["Source", source]);
  if (part !== "") facts.push(["Total", of(tree.totals[id])], ["Of", part]);
  else facts.push(["Self", of(tree.self(id))], ["Total", of(tree.totals[id])]);
  const samples = tree.samples(id);
  if (samples !== null) facts.push([inBytes ? "Paths" : "Samples", count(samples)]);
  const resumed = tree.resumed(id);
  if (resumed > 0) facts.push(["Async", `${resumed < 1 ? "where a state machine box calls it, it " : ""}continues after an await: the callers only resumed it, and the method that awaits it is not known`]);
  return { name: method.name, method: tree.method(id), kind: method.kind, facts };
};

const showTooltip = (about, event) => {
  const tip = byId("tooltip");
  tip.hidden = about === null;
  if (about === null) return;
  const rows = about.facts.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)]);
  const name = element("p", {}, about.kind === null ? null : element("span", { className: `swatch kind-${about.kind}` }), element("bdi", {}, about.name));
  tip.replaceChildren(name, element("dl", {}, ...rows));
  const { width, height } = tip.getBoundingClientRect();
  const gap = 14;
  const left = event.clientX + gap + width > innerWidth ? event.clientX - gap - width : event.clientX + gap;
  const top = event.clientY + gap + height > innerHeight ? event.clientY - gap - height : event.clientY + gap;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
};

const showSelected = (about) => {
  const facts = about.facts.map(([label, value]) => element("span", { className: "said" }, element("i", {}, `${label} `), element("bdi", {}, value)));
  byId("status").replaceChildren(element("b", {}, about.name), ...facts);
};
