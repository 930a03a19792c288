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

const count = (value) => Math.round(value).toLocaleString("en").replaceAll(",", "\u202f");

const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;
