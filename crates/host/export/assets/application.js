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

/** Time of a method outside of the application, and the costs that it goes to. */
const newCallee = () => ({ total: 0, costs: new Sums() });

/** `{ methods, entries, waits, elsewhere, outside, idle, busy }` of a selection. */
const applicationTime = ({ model, chosen, weights }) => {
  const { values, attributions, methodOfFrame } = model;
  const { nearest, callee, via, outermost, entry, wait, cost } = attributions;
  const methods = new Sums((method) => ({ method, self: 0, total: 0, lines: new Sums(), callees: new Sums(newCallee) }));
  const outside = new Sums(newCallee);
  const entries = new Sums(() => ({ total: 0 }));
  const waits = new Map();
  const idle = { total: 0, threads: new Set() };
  let [elsewhere, busy] = [0, 0];
  const addCallee = (sums, frame, index, weight) => {
    const sum = sums.at(methodOfFrame[frame]);
    sum.total += weight;
    if (cost[index] >= 0) sum.costs.add(attributions.costs[cost[index]], weight);
  };
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
      if (via[index] >= 0) addCallee(outside, via[index], index, weight);
    } else {
      const row = methods.at(methodOfFrame[frame]);
      row.total += weight;
      row.lines.add(frame, weight);
      if (callee[index] < 0) row.self += weight;
      else addCallee(row.callees, callee[index], index, weight);
      const start = methodOfFrame[outermost[index]];
      const point = entries.at(start * attributions.entries.length + entry[index]);
      Object.assign(point, { method: start, kind: attributions.entries[entry[index]], total: point.total + weight });
    }
    if (values.blocked[at] === 0) continue;
    const work = frame < 0 && via[index] >= 0 ? methodOfFrame[via[index]] : -1;
    const key = `${frame} ${wait[index]} ${work}`;
    if (!waits.has(key)) waits.set(key, { method: frame < 0 ? null : methodOfFrame[frame], work, frame, wait: attributions.waits[wait[index]], total: 0, threads: new Set() });
    const blocked = waits.get(key);
    blocked.total += weight;
    blocked.threads.add(values.thread[at]);
  }
  return { methods: [...methods.values()], entries: [...entries.values()], waits: [...waits.values()], elsewhere, outside, idle, busy };
};
