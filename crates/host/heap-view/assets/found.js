// Suspects and findings: where to begin. Their objects are named by addresses.

import { ask } from "./ask.js";
import { byId, bytes, count, counted, element, isolated, percent, plain, short } from "./text.js";
import { go } from "./place.js";

/** Rows of a table; the report has all. */
const MOST = 50;

/** Owners of lists in a suspect. */
const LISTS = 3;

const hexadecimal = (address) => `0x${address.toString(16)}`;

const objectAt = async (address) => (await ask("search", { text: hexadecimal(address) }))?.object ?? null;

/** A button that shows the object at an address, with `text` before it. */
const at = (address, text = "") =>
  element("button", { className: "link", title: plain(text), onclick: async () => {
    const object = await objectAt(address);
    if (object !== null) go({ show: `object.${object.id}` });
  } }, element("bdi", {}, short(text)), element("span", { className: "address" }, `@${hexadecimal(address)}`));

const fact = (name, ...value) => [element("dt", {}, name), element("dd", {}, ...value)];

const suspectCard = (suspect, whole) => {
  const { holder, holders, event, place, accumulates, array, held_through: through, path_from_root: path, lists = [] } = suspect;
  const isOne = holders === 1;
  // Of several in one array, that array is held.
  const held = array ?? holder;
  const without = path === undefined ? suspect.probably_held_by : `for example ${path.root}, through ${path.objects[0].type}`;
  const root = held.held_by ?? (through === undefined ? without : `${through.root}, through ${through.type}`);
  const heldBy = isOne || array !== undefined ? fact("Held by", isolated(plain(root ?? "a root that is not known"))) : [];
  const together = array !== undefined ? ["in ", at(array.address, array.type)] : [lists.length > 0 ? "in a linked list" : "each kept by several"];
  const isElsewhere = place !== null && event === null && place.address !== holder.address;
  return element("section", { className: "suspect" },
    element("h3", {}, `Suspect: ${percent(suspect.retained, whole)} of the heap, ${bytes(suspect.retained)} in ${counted(suspect.retained_count, "object")}`),
    element("dl", { className: "facts" },
      ...heldBy,
      ...(isOne ? [] : fact("Objects", `${count(holders)}, `, ...together)),
      ...lists.slice(0, LISTS).flatMap((list) => fact("List of", at(list.address, list.type), ` ${count(list.elements)} of them`)),
      ...(suspect.name_it_by === undefined ? [] : fact("Name it by", suspect.name_it_by)),
      ...fact(isOne ? "Object" : "For example", at(holder.address, holder.type)),
      ...(event === null ? [] : fact("Event", plain(event))),
      ...(isElsewhere ? fact("In", at(place.address, place.type)) : []),
      ...(accumulates === null ? [] : fact("Accumulates", `${count(accumulates.count)} × ${isolated(plain(accumulates.type))}: ${bytes(accumulates.bytes)}, retained ${bytes(accumulates.retained)}`)),
      ...suspect.referred_from.flatMap((by) => fact("Referred to by", at(by.address, by.type), ` ${counted(by.references, "reference")}`))));
};

/** A table of a finding; `columns` says for each heading what its cell has, numbers as `[text]`. */
const table = (title, rows, columns) => {
  if (rows.length === 0) return [];
  const cell = (row, of) => {
    const made = of(row);
    return Array.isArray(made) ? element("td", { className: "number" }, made[0]) : element("td", {}, made);
  };
  const names = Object.keys(columns);
  const head = element("tr", {}, ...names.map((name) => element("th", { scope: "col", className: Array.isArray(columns[name](rows[0])) ? "number" : "" }, name)));
  const body = rows.slice(0, MOST).map((row) => element("tr", {}, ...names.map((name) => cell(row, columns[name]))));
  const more = rows.length > MOST ? [element("p", { className: "soft" }, `${count(rows.length - MOST)} more in the report`)] : [];
  return [element("section", {}, element("h3", {}, title), element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)), ...more)];
};

const eventOf = ({ publisher, events, delegate }) =>
  publisher !== null ? `${publisher}.${events.join("|")}` : events.length > 0 ? `static ${events.join("|")}` : `a static ${delegate}`;

const findings = (found) => [
  ...table("Subscribers that only an event keeps alive", found.subscriptions.subscribers, {
    "Of type": (row) => plain(row.subscriber),
    "To": (row) => plain(eventOf(row)),
    "For example": (row) => at(row.example),
    "Subscribers": (row) => [count(row.count)],
    "Retained": (row) => [bytes(row.retained)],
  }),
  ...table("Collections that are mostly room", found.collections.types, {
    "Type": (row) => plain(row.type), "Collections": (row) => [count(row.count)], "Wasted": (row) => [bytes(row.wasted)],
  }),
  ...table("Arrays of references that are mostly empty", found.empty_arrays.types, {
    "Type": (row) => plain(row.type), "Arrays": (row) => [count(row.count)], "Wasted": (row) => [bytes(row.wasted)],
  }),
  ...table("Tasks", found.tasks.types, {
    "Method or type": (row) => plain(row.method ?? row.type), "Tasks": (row) => [count(row.count)],
  }),
  ...table("What async methods wait for", found.tasks.awaits ?? [], {
    "Path": (row) => row.path.map((step) => isolated(plain(step))).join(" awaits "), "Tasks": (row) => [count(row.count)],
  }),
  ...table("Timers", found.timers.types, { "Type": (row) => plain(row.type), "Timers": (row) => [count(row.count)] }),
  ...table("Objects with a finalizer", found.finalizers.types, {
    "Type": (row) => plain(row.type), "Objects": (row) => [count(row.count)],
  }),
];

/** Shows what was found. Resolves to the holder of the largest suspect, if there is one: the details begin with it. */
export const showFound = async (found, whole) => {
  byId("found-title").hidden = found === null;
  if (found === null) return null;
  const cards = found.suspects.map((suspect) => suspectCard(suspect, whole));
  const nothing = element("p", { className: "soft" }, "No object keeps a tenth of the heap, and nothing else was found.");
  const all = [...cards, ...findings(found.findings)];
  byId("found-panel").replaceChildren(...(all.length > 0 ? all : [nothing]));
  return found.suspects.length > 0 ? objectAt(found.suspects[0].holder.address) : null;
};
