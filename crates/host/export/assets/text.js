// How numbers read.

const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);

const UNITS = [[60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** `1.23 s`, `456 ms`; minutes only from ten of them on. */
const duration = (nanoseconds) => {
  if (nanoseconds === 0) return "0";
  const [size, unit] = UNITS.find(([size]) => nanoseconds >= (size === 60e9 ? 10 * size : size)) ?? UNITS.at(-1);
  const value = nanoseconds / size;
  return `${value.toFixed(size === 1 ? 0 : digits(value))}\u202f${unit}`;
};

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** `1.23 MiB`. */
const bytes = (value) => {
  const step = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
  const size = value / 1024 ** step;
  return `${size.toFixed(step === 0 ? 0 : digits(size))}\u202f${SIZES[step]}`;
};

/** Whether weights are bytes of allocated objects; otherwise they are time. */
let inBytes = false;

/** A weight. */
const amount = (value) => (inBytes ? bytes(value) : duration(value));

/** So many samples; of allocated objects, a weight is of one type on one path of callers. */
const countOf = (value) => (inBytes ? plural(value, "path", "paths") : plural(value, "sample", "samples"));

/** A heading about time, of what is shown. */
const ofUnit = (heading) => (inBytes ? heading.replace(/^Time/, "Memory") : heading);

const count = (value) => Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");

const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;
