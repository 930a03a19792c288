// Rows of tables, a page at a time: the server has the rest.

import { ask } from "./ask.js";
import { bytes, count, element, percent, plain, short, shortField } from "./text.js";
import { showObject } from "./place.js";

/** Rows that are asked for at once. */
const ROWS = 50;

/** A number in a cell, with a bar behind it if it is a part of something. */
export const number = (text, part, whole) => {
  const cell = element("td", { className: "number" }, text);
  if (whole > 0) {
    const bar = element("span", { className: "share" });
    bar.style.width = `${Math.min(100, (100 * part) / whole)}%`;
    cell.append(bar);
    cell.title = percent(part, whole);
  }
  return cell;
};

/** The static field that holds it, if one is known. */
const heldBy = (row) =>
  row.held_by === undefined ? [] : [element("span", { className: "field", title: plain(row.held_by) }, "static ", element("bdi", {}, shortField(row.held_by)))];

/** The field or element by which it refers, or is referred to, if it is known. */
export const via = (row) => (row.field === undefined ? [] : [element("small", { className: "via" }, "via ", element("bdi", {}, plain(row.field)))]);

/** The name of an object, as a button that shows it. */
export const objectButton = (row) =>
  row.address === null
    ? element("span", { className: "virtual" }, row.name)
    : element("button", { className: "link", title: plain(row.name), onclick: () => showObject(row.id) },
        element("bdi", {}, short(row.name)), element("span", { className: "address" }, `@${row.address}`),
        ...heldBy(row));

/** An object in a table. */
export const objectRow = (row) =>
  element("tr", {}, element("td", {}, objectButton(row), ...via(row)), number(bytes(row.own)), number(bytes(row.retained)));

/** A table of objects. */
export const objectTable = () =>
  element("table", {},
    element("thead", {}, element("tr", {},
      element("th", { scope: "col" }, "Object"),
      element("th", { scope: "col", className: "number" }, "Own"),
      element("th", { scope: "col", className: "number" }, "Retained"))),
    element("tbody"));

/**
 * Fills `body` with the answers to a question, a page at a time, and a button for the next one at the end.
 * `isWanted` says whether anyone still wants them. Resolves to how many there are in all.
 */
export const fill = async (body, question, parameters, toRow, isWanted = () => true) => {
  let from = 0;
  const more = async () => {
    const page = await ask(question, { ...parameters, from, count: ROWS });
    if (page === null || !isWanted()) return null;
    if (from === 0) body.replaceChildren();
    body.querySelector(":scope > .more")?.remove();
    const rows = page.rows.map(toRow);
    body.append(...rows);
    const focus = from > 0;
    from += page.rows.length;
    if (from < page.total && page.rows.length > 0) {
      const button = element("button", { className: "link", onclick: more }, `${count(page.total - from)} more…`);
      body.append(element("tr", { className: "more" }, element("td", { colSpan: body.parentElement.tHead.rows[0].cells.length }, button)));
    }
    if (focus) rows[0]?.querySelector("button")?.focus();
    return page.total;
  };
  return more();
};
