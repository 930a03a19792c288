"use strict";
// How numbers read, and elements made of texts. Texts of the target only ever become text nodes.

/** An element with properties and children; children that are strings become text. */
const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

const byId = (id) => document.getElementById(id);

const digits = (value) => (value >= 100 ? 0 : value >= 10 ? 1 : 2);

const UNITS = [[60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

/** `1.23 s`, `456 ms`; minutes only from ten of them on. */
const duration = (nanoseconds) => {
  if (nanoseconds === 0) return "0";
  const [size, unit] = UNITS.find(([size]) => nanoseconds >= (size === 60e9 ? 10 * size : size)) ?? UNITS.at(-1);
  const value = nanoseconds / size;
  return `${value.toFixed(size === 1 ? 0 : digits(value))}\u202f${unit}`;
};

/** `12.3 %`; what is there but too small to show is `< 0.1 %`. */
const percent = (part, whole) => {
  if (whole === 0 || part === 0) return "0\u202f%";
  const value = (100 * part) / whole;
  if (value < 0.1) return "<\u202f0.1\u202f%";
  return `${value.toFixed(value > 99.95 ? 0 : 1)}\u202f%`;
};

const count = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

const plural = (value, one, many) => `${count(value)} ${value === 1 ? one : many}`;
