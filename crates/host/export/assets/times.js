// When samples were taken: the weight of each value by slot of the recording. Read after the first view, as only ranges of time need it.

class Times {
  /** Reads what `html/times.rs` writes; that file describes it. */
  constructor(model, base64) {
    const number = packedNumbers(base64);
    const { values } = model;
    this.slots = model.slots;
    this.first = new Uint32Array(values.node.length + 1);
    this.slot = new Uint8Array(base64.length);
    this.weight = new Float64Array(base64.length);
    this.samples = new Float64Array(base64.length);
    let part = 0;
    for (let value = 0; value < values.node.length; value++) {
      let [slot, weight, samples] = [0, values.weight[value], values.samples[value]];
      for (let left = number(); left > 0; left--) {
        slot += number();
        this.slot[part] = slot;
        this.samples[part] = left > 1 ? number() : samples;
        this.weight[part] = left > 1 ? number() * 1000 : weight;
        samples -= this.samples[part];
        weight -= this.weight[part++];
      }
      this.first[value + 1] = part;
    }
  }

  /** Calls `add(slot, weight, samples)` for the slots of a value. A sample covers the time before it, which can be longer than a slot. */
  each(value, add) {
    for (let part = this.first[value]; part < this.first[value + 1]; part++) {
      const end = this.slot[part] + 1;
      const long = Math.max(1, Math.min(end, Math.round(this.weight[part] / this.slots.length)));
      for (let slot = end - long; slot < end; slot++) add(slot, this.weight[part] / long, this.samples[part] / long);
    }
  }

  /** Columns like those of the model's values, of the slots from `from` to before `to`. */
  within({ from, to }) {
    const values = this.first.length - 1;
    const [weight, samples] = [new Float64Array(values), new Float64Array(values)];
    for (let value = 0; value < values; value++) {
      this.each(value, (slot, share, count) => {
        if (slot < from || slot >= to) return;
        weight[value] += share;
        samples[value] += count;
      });
    }
    return { weight, samples };
  }
}
