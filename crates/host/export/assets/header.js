// What was recorded and what of it is missing: shown first, since it decides how far the rest can be trusted.

const fact = (name, value) => element("bdi", { className: "fact", title: name }, value);

const tile = (name, value, note, tone = "") =>
  element("div", { className: `tile ${tone}` }, element("dt", {}, name), element("dd", {}, value, element("small", {}, note)));

const fillHeader = (model) => {
  const { about, loss, values } = model;
  const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
  document.title = plain(document.title);
  byId("application").textContent = about.application || "unnamed application";
  byId("facts").append(
    ...[
      fact("Process", `pid ${about.processId}`),
      about.runtime === "" ? null : fact("Runtime", about.runtime),
      fact("Event", `${about.event}: ${about.eventMeaning}`),
      about.engine === "" ? null : fact("Engine", about.engine),
      about.frequency === 0 ? null : fact("Asked for", `${count(about.frequency)}\u202fHz`),
      fact("Started", utc(about.startedUnixMilliseconds)),
    ].filter((part) => part !== null),
  );
  const lost = sum(loss.lost.map(({ count }) => count));
  byId("tiles").append(
    tile("Recorded", duration(about.duration), ""),
    tile(inBytes ? "Paths" : "Samples", count(sum(values.samples)), plural(new Set(values.thread).size, "thread", "threads")),
    tile(about.time[0].toUpperCase() + about.time.slice(1), amount(sum(values.weight)), targetNote(about)),
    tile("Lost", lost === 0 ? "none" : percent(lost, loss.taken), lost === 0 ? "" : plural(lost, "sample", "samples"), toneOfLoss(lost, loss.taken)),
  );
  fillAccount(model);
  byId("advice").append(...model.advice.map(advice));
  byId("advice").hidden = model.advice.length === 0;
  byId("notes").append(...about.notes.map((note) => element("li", {}, note)));
  byId("notes").hidden = about.notes.length === 0;
};

const advice = (text) => {
  const label = text.indexOf(": ") + 2;
  return element("li", {}, element("b", {}, text.slice(0, label)), text.slice(label));
};

/** One in a hundred is where shares in the graph begin to be in doubt. */
const toneOfLoss = (lost, taken) => (lost === 0 ? "good" : lost * 100 < taken ? "warn" : "bad");

const targetNote = ({ targetCpu }) => (targetCpu === null ? (inBytes ? "in objects" : "in samples") : `target used ${duration(targetCpu)}`);

/** `taken = delivered + lost by cause`, then what became of the stacks. */
const fillAccount = ({ about, loss }) => {
  // Exact profiles have no samples.
  byId("account").hidden = about.frequency === 0 && loss.taken === 0;
  const parts = [element("b", {}, count(loss.taken)), " taken = ", element("b", {}, count(loss.delivered)), " delivered"];
  for (const { cause, meaning, count: lost } of loss.lost) {
    parts.push(" + ", element("span", { className: "lost", title: meaning }, element("b", {}, count(lost)), ` ${cause} (${meaning})`));
  }
  if (loss.unaccounted !== 0) parts.push(" + ", element("span", { className: "lost" }, `${count(loss.unaccounted)} unaccounted for`));
  if (loss.lost.length === 0 && loss.unaccounted === 0) parts.push(" + 0 lost");
  byId("account").append(element("span", { className: "sum" }, ...parts));
  const stacks = [
    [loss.truncated, "truncated", "cut at the depth limit"],
    [loss.broken, "broken", "the walk ended before the outermost frame"],
    [loss.incomplete, "incomplete", "callers may be missing: where some code has its caller was not known"],
    [loss.repaired, "repaired", "a caller that frameless code hides was put back"],
    [loss.repeated, "repeated", "taken over from the previous sample, as the thread had not run"],
    [loss.stray, "stray signals", "signals that were not samples"],
  ];
  const list = element("span", { className: "stacks" }, "Stacks: ");
  stacks.forEach(([number, name, meaning], at) => {
    const text = `${count(number)} ${name}`;
    list.append(at === 0 ? "" : " · ", element("span", { title: meaning, className: number > 0 ? "some" : "" }, text));
  });
  byId("account").append(list);
  if (about.commandLine !== "") byId("command").textContent = about.commandLine;
};

const fillLegend = (model, selection) => {
  byId("legend").hidden = inBytes;
  const entries = model.kinds.map((label, kind) =>
    element(
      "li",
      { title: `${label}: ${amount(selection.kindSelf[kind])} of its own` },
      element("span", { className: `swatch kind-${kind}` }),
      `${label} `,
      element("b", {}, percent(selection.kindSelf[kind], selection.weight)),
    ),
  );
  byId("legend").replaceChildren(element("li", {}, "Self time:"), ...entries);
};
