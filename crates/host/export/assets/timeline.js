// The load of all threads, and of the busiest ones, by kind of code over time. A range of time can be chosen in it, which narrows everything else.

/** Besides the one of all threads and the one of idle threads. */
const LANES = 6;
const TOTAL_HEIGHT = 40;
const LANE_HEIGHT = 13;

class Timeline {
  /** `listener`: ranged(range or null), thread(index). A range has slots: from `from` to before `to`. */
  constructor(model, listener) {
    this.model = model;
    this.listener = listener;
    this.range = null;
    this.canvas = byId("strip");
    this.span = byId("span");
    this.step = Math.max(1, Math.round(model.slots.count / 40));
    byId("timeline").hidden = !model.about.hasTimes || model.values.weight.length === 0;
    byId("timeline-title").textContent = model.about.event === "wall" ? "Threads over time" : "CPU over time";
    this.listen();
    this.tell();
  }

  /** Draws anew what is chosen, apart from the range; `times` is `null` until it was read. */
  show(times, chosen) {
    this.lanes = this.lanesOf(chosen);
    this.height = TOTAL_HEIGHT + (this.lanes.length - 1) * LANE_HEIGHT;
    this.span.style.height = `${this.height}px`;
    byId("lanes").replaceChildren(...this.lanes.map((lane) => this.label(lane)));
    if (times === null) return;
    const lane = new Int32Array(this.model.threads.length).fill(-1);
    this.lanes.forEach(({ threads }, at) => {
      if (at > 0) for (const thread of threads) lane[thread] = at;
    });
    const { values, methods, methodOfFrame, frameOfStack, slots } = this.model;
    for (const { load } of this.lanes) load.fill(0);
    for (const value of chosen) {
      // Blocked time is one kind, whatever the code.
      const kind = values.blocked[value] === 1 ? this.kinds - 1 : methods[methodOfFrame[frameOfStack[values.node[value]]]].kind;
      const own = this.lanes[lane[values.thread[value]]]?.load;
      times.each(value, (slot, weight) => {
        this.lanes[0].load[slot * this.kinds + kind] += weight / slots.length;
        if (own !== undefined) own[slot * this.kinds + kind] += weight / slots.length;
      });
    }
    this.paint();
  }

  get kinds() {
    return this.model.kinds.length + 1;
  }

  /** All threads; then those of the pool as one, the heaviest ones, the others as one, and those that are only idle as one. */
  lanesOf(chosen) {
    const { values, threads, slots, threadBusy } = this.model;
    const weights = new Float64Array(threads.length);
    for (const at of chosen) weights[values.thread[at]] += values.weight[at];
    const all = [...threads.keys()].filter((thread) => weights[thread] > 0);
    const busy = all.filter((thread) => threadBusy[thread] > 0).sort((one, other) => threadBusy[other] - threadBusy[one]);
    const pool = this.model.poolOf(busy);
    const pooled = new Set(pool);
    const seen = busy.filter((thread) => !pooled.has(thread));
    const idle = all.filter((thread) => threadBusy[thread] === 0);
    const lane = (text, threads) => ({ text, threads, load: new Float64Array(slots.count * this.kinds) });
    if (all.length === 1) return [lane(this.model.threadLabel(all[0]), all)];
    const room = pool.length > 0 ? LANES - 1 : LANES;
    const single = seen.length > room ? room - 1 : seen.length;
    const ofPool = pool.length > 0 ? [{ ...lane(`Thread pool: ${count(pool.length)}`, pool), thread: POOL_THREADS }] : [];
    const lanes = [lane(`All ${count(all.length)} threads`, all), ...ofPool, ...seen.slice(0, single).map((thread) => ({ ...lane(this.model.threadLabel(thread), [thread]), thread }))];
    if (single < seen.length) lanes.push(lane(`${count(seen.length - single)} others`, seen.slice(single)));
    if (idle.length > 0) lanes.push(lane(`${count(idle.length)} idle`, idle));
    return lanes;
  }

  label({ text, thread }) {
    if (thread === undefined) return element("li", { title: text }, text);
    const button = element("button", { title: `Show only ${text}` }, text);
    button.addEventListener("click", () => this.listener.thread(thread));
    return element("li", {}, button);
  }

  paint() {
    const pen = this.canvas.getContext("2d");
    const [wide, ratio] = [this.span.clientWidth, window.devicePixelRatio || 1];
    [this.canvas.width, this.canvas.height] = [Math.round(wide * ratio), Math.round(this.height * ratio)];
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const style = getComputedStyle(document.documentElement);
    const colours = this.model.kinds.map((_, kind) => `hsl(${style.getPropertyValue(`--kind-${kind}`)})`);
    colours.push(style.getPropertyValue("--blocked-time"));
    const { count: slots } = this.model.slots;
    const bar = (slot, from, to, colour) => {
      pen.fillStyle = colour;
      const left = Math.round((slot * wide * ratio) / slots) / ratio;
      pen.fillRect(left, from, Math.round(((slot + 1) * wide * ratio) / slots) / ratio - left, to - from);
    };
    let top = 0;
    this.lanes.forEach(({ load, threads }, at) => {
      const high = at === 0 ? TOTAL_HEIGHT - 2 : LANE_HEIGHT - 2;
      const peak = this.peakOf(load);
      const full = at === 0 ? peak : threads.length > 1 ? Math.max(1, peak) : 1;
      for (let slot = 0; slot < slots; slot++) {
        let below = top + high;
        for (let kind = 0; kind < this.kinds; kind++) {
          const value = load[slot * this.kinds + kind];
          if (value === 0) continue;
          const above = Math.max(top, below - (value / Math.max(full, 1e-9)) * high);
          bar(slot, above, below, colours[kind]);
          below = above;
        }
      }
      top += high + 2;
    });
    // A slot with one sample more than the clock says would have more threads than there are.
    const peak = Math.min(this.peakOf(this.lanes[0].load), this.lanes[0].threads.length);
    byId("peak").textContent = `peak ${peak.toFixed(peak < 10 ? 1 : 0)} ${this.model.about.event === "wall" ? "threads" : "CPUs"}`;
  }

  peakOf(load) {
    let peak = 0;
    for (let at = 0; at < load.length; at += this.kinds) {
      let sum = 0;
      for (let kind = 0; kind < this.kinds; kind++) sum += load[at + kind];
      peak = Math.max(peak, sum);
    }
    return peak;
  }

  /** Marks a range; `final` is false during a drag. */
  mark(range, final) {
    this.range = range;
    this.tell();
    if (final) this.listener.ranged(range);
  }

  tell() {
    const { range, model } = this;
    const { count: slots, length } = model.slots;
    const end = slots * length;
    const chosen = byId("chosen-time");
    chosen.hidden = range === null;
    byId("all-time").hidden = range === null;
    if (range === null) {
      byId("range").replaceChildren(duration(end), element("span", { className: "hint" }, "; drag to choose a part"));
      return;
    }
    chosen.style.left = `${(100 * range.from) / slots}%`;
    chosen.style.width = `${(100 * (range.to - range.from)) / slots}%`;
    byId("range").textContent = `${duration(range.from * length)} – ${duration(range.to * length)} of ${duration(end)}`;
  }

  slotAt(event) {
    const { left, width } = this.span.getBoundingClientRect();
    const { count: slots } = this.model.slots;
    return Math.min(slots - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * slots)));
  }

  listen() {
    let begun = null;
    let before = null;
    this.span.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.span.setPointerCapture(event.pointerId);
      begun = this.slotAt(event);
      before = this.range;
    });
    this.span.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const slot = this.slotAt(event);
      if (slot !== begun || this.range !== before) this.mark({ from: Math.min(begun, slot), to: Math.max(begun, slot) + 1 }, false);
    });
    this.span.addEventListener("pointerup", () => {
      if (begun === null) return;
      // A click or a tap without movement chooses the time around it.
      if (this.range === before) this.mark(this.around(begun), true);
      else this.mark(this.range, true);
      begun = null;
    });
    this.span.addEventListener("pointercancel", () => {
      if (begun !== null) this.mark(before, false);
      begun = null;
    });
    this.span.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !this.key(event)) return;
      event.preventDefault();
      event.stopPropagation();
    });
    byId("all-time").addEventListener("click", () => {
      this.mark(null, true);
      this.span.focus();
    });
    new ResizeObserver(() => {
      if (this.lanes !== undefined) this.paint();
    }).observe(this.span);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  around(slot) {
    const { count: slots } = this.model.slots;
    return { from: Math.max(0, slot - this.step), to: Math.min(slots, slot + this.step + 1) };
  }

  /** Moves the range, or with Shift its end; says whether the key was one of its own. */
  key({ key, shiftKey }) {
    const { count: slots } = this.model.slots;
    if (key === "Escape" && this.range === null) return false;
    if (key === "Escape" || key === "Delete") {
      this.mark(null, true);
      return true;
    }
    const step = { ArrowLeft: -this.step, ArrowRight: this.step, Home: -slots, End: slots }[key];
    if (step === undefined) return false;
    if (this.range === null) {
      this.mark(step > 0 ? { from: 0, to: Math.min(slots, 2 * this.step) } : { from: Math.max(0, slots - 2 * this.step), to: slots }, true);
      return true;
    }
    const { from, to } = this.range;
    if (shiftKey) this.mark({ from, to: Math.min(slots, Math.max(from + 1, to + step)) }, true);
    else {
      const moved = Math.min(slots - to, Math.max(-from, step));
      this.mark({ from: from + moved, to: to + moved }, true);
    }
    return true;
  }
}
