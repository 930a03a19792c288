// How numbers and names read. What comes from a snapshot only ever becomes a text node.

import { plain } from "./common.js";

export { byId, element, isolated, percent, plain, utc } from "./common.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const SPACE = "\u202f";

/** `1.23 MiB`; binary, as everywhere. */
export const bytes = (value) => {
  let unit = 0;
  let left = value;
  while (left >= 1024 && unit < UNITS.length - 1) {
    left /= 1024;
    unit++;
  }
  const digits = unit === 0 || left >= 100 ? 0 : left >= 10 ? 1 : 2;
  return `${left.toFixed(digits)}${SPACE}${UNITS[unit]}`;
};

/** `12,345`. */
export const count = (value) => value.toLocaleString("en-US");

export const counted = (value, one) => `${count(value)} ${value === 1 ? one : `${one}s`}`;

/** How many names at the end of a dotted one tell what it is: of a state machine also those of the method and of what that is in. */
const telling = (names) => {
  if (names.at(-1) !== "StateMachine") return 1;
  return names.at(-2)?.startsWith("lambda#") ? 4 : 3;
};

const shortPart = (part) => {
  if (part.startsWith(".")) return part;
  const end = part.endsWith(".") ? "." : "";
  const names = part.slice(0, part.length - end.length).split(".");
  return names.slice(-telling(names)).join(".") + end;
};

/** `Dictionary<string, Order>` of `System.Collections.Generic.Dictionary<string, MyApp.Order>`: names without their namespaces. */
export const short = (name) => plain(name).replace(/[^<>,[\]() ]+/g, shortPart);

/** Of a static field its type and its own name, without what they stand in. */
export const shortField = (name) => plain(name).split(",", 1)[0].split(".").slice(-2).join(".");

/** A hue for each type, the same at each time. */
export const hue = (name) => {
  let hash = 2166136261;
  for (let at = 0; at < name.length; at++) hash = Math.imul(hash ^ name.charCodeAt(at), 16777619);
  return ((hash >>> 0) * 137.508) % 360;
};
