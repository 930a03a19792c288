// Time by application method. The file has the application method and the wait of each stack; the script only adds up.

/** Sums by key; `make(key)` makes what is added to. */
class Sums extends Map {
  constructor(make) {
    super();
    this.make = make;
  }

  at(key) {
    if (!this.has(key)) this.set(key, this.make(key));
    return this.get(key);
  }

  add(key, weight) {
    this.set(key, (this.get(key) ?? 0) + weight);
  }

  /** Pairs of key and weight, the heaviest first. */
  heaviest() {
    return [...this].sort(([key, one], [otherKey, other]) => other - one || key - otherKey);
  }
}

/** `{ methods, entries, waits, elsewhere, idle, busy }` of a selection. */
const applicationTime = ({ model, chosen, weights }) => {
  const { values, attributions, methodOfFrame } = model;
  const { nearest, callee, outermost, entry, wait } = attributions;
  const methods = new Sums((method) => ({ method, self: 0, total: 0, lines: new Sums(), callees: new Sums() }));
  const entries = new Sums(() => ({ total: 0 }));
  const waits = new Sums(() => ({ total: 0, threads: new Set() }));
  const idle = { total: 0, threads: new Set() };
  let [elsewhere, busy] = [0, 0];
  for (const at of chosen) {
    const weight = weights[at];
    if (weight === 0) continue;
    const index = values.attribution[at];
    const frame = nearest[index];
    if (model.idle[at] === 1) {
      idle.total += weight;
      idle.threads.add(values.thread[at]);
      continue;
    }
    busy += weight;
    if (frame < 0) {
      elsewhere += weight;
      continue;
    }
    const row = methods.at(methodOfFrame[frame]);
    row.total += weight;
    row.lines.add(frame, weight);
    if (callee[index] < 0) row.self += weight;
    else row.callees.add(methodOfFrame[callee[index]], weight);
    const start = methodOfFrame[outermost[index]];
    const point = entries.at(start * attributions.entries.length + entry[index]);
    Object.assign(point, { method: start, kind: attributions.entries[entry[index]], total: point.total + weight });
    if (values.blocked[at] === 0) continue;
    const blocked = waits.at(frame * attributions.waits.length + wait[index]);
    Object.assign(blocked, { method: methodOfFrame[frame], frame, wait: attributions.waits[wait[index]], total: blocked.total + weight });
    blocked.threads.add(values.thread[at]);
  }
  return { methods: [...methods.values()], entries: [...entries.values()], waits: [...waits.values()], elsewhere, idle, busy };
};
