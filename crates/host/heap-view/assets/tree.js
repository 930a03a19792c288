// The dominator tree as a table whose rows open.

import { ask } from "./ask.js";
import { byId, bytes, count, element, isolated, plain } from "./text.js";
import { number, objectButton } from "./list.js";

/** Children that are asked for at once. */
const ROWS = 30;

let whole = 0;

const level = (row) => Number(row.getAttribute("aria-level"));

/** Everything below a row. */
const below = (row) => {
  const found = [];
  for (let next = row.nextElementSibling; next !== null && level(next) > level(row); next = next.nextElementSibling) found.push(next);
  return found;
};

const indented = (depth, ...children) => {
  const cell = element("td", { className: "branch" }, ...children);
  // Deep trees stay in sight.
  cell.style.paddingLeft = `${8 + 16 * Math.min(depth - 1, 24)}px`;
  return cell;
};

const treeRow = (told, depth) => {
  const toggle = element("button", { className: "toggle", "aria-label": `what ${isolated(plain(told.name))} keeps` });
  toggle.hidden = told.children === 0;
  const row = element("tr", { "aria-level": depth, "data-id": told.id },
    indented(depth, element("span", { className: "hold" }, toggle), objectButton(told)),
    number(count(told.count)), number(bytes(told.own)), number(bytes(told.retained), told.retained, whole));
  if (told.children > 0) row.setAttribute("aria-expanded", "false");
  toggle.onclick = () => turn(row, told);
  return row;
};

/** Puts the next children of a row behind `after`. */
const more = async (row, told, from, after) => {
  const page = await ask("children", { id: told.id, from, count: ROWS });
  if (page === null || row.getAttribute("aria-expanded") !== "true") return;
  const depth = level(row) + 1;
  const rows = page.rows.map((child) => treeRow(child, depth));
  const next = from + page.rows.length;
  if (next < page.total && page.rows.length > 0) {
    const button = element("button", { className: "link" }, `${count(page.total - next)} more…`);
    const last = element("tr", { className: "more", "aria-level": depth }, indented(depth, button));
    last.firstElementChild.colSpan = 4;
    button.onclick = async () => {
      await more(row, told, next, last);
      last.remove();
    };
    rows.push(last);
  }
  after.after(...rows);
  if (from > 0) rows[0]?.querySelector("button:not([hidden])")?.focus();
};

const turn = async (row, told) => {
  if (told.children === 0) return;
  const opens = row.getAttribute("aria-expanded") !== "true";
  row.setAttribute("aria-expanded", String(opens));
  if (opens) await more(row, told, 0, row);
  else below(row).forEach((lower) => lower.remove());
};

/** Shows the tree, open at its root. */
export const showTree = async (all) => {
  whole = all.retained;
  const row = treeRow(all, 1);
  byId("tree").tBodies[0].replaceChildren(row);
  await turn(row, all);
};

export const listenToTree = () => {
  byId("tree").addEventListener("keydown", (event) => {
    const row = event.target.closest("tbody tr");
    if (row === null) return;
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const open = row.getAttribute("aria-expanded");
    if (step !== undefined) row[step]?.querySelector("button:not([hidden])")?.focus();
    else if ((event.key === "ArrowRight" && open === "false") || (event.key === "ArrowLeft" && open === "true")) row.querySelector(".toggle").click();
    else return;
    event.preventDefault();
  });
};
