// The table of types: the server sorts and filters it.

import { byId, bytes, count, element, plain } from "./text.js";
import { fill, number } from "./list.js";
import { showType } from "./place.js";

const order = { sort: "retained", turned: "" };
let whole = 0;
let asked = 0;

const typeRow = (row) =>
  element("tr", { "data-type": row.type },
    element("td", {}, element("button", { className: "link", title: plain(row.assembly), onclick: () => showType(row.type) }, element("bdi", {}, plain(row.name)))),
    number(count(row.count)), number(bytes(row.own), row.own, whole), number(bytes(row.retained), row.retained, whole));

const show = async () => {
  const mine = ++asked;
  const filter = byId("filter").value.trim();
  const total = await fill(byId("types").tBodies[0], "types", { ...order, filter }, typeRow, () => mine === asked);
  if (total !== null && mine === asked) byId("types-count").textContent = filter === "" ? `${count(total)} types` : `${count(total)} fit`;
};

const sortBy = (name) => {
  order.turned = order.sort === name && order.turned === "" ? "1" : "";
  order.sort = name;
  for (const head of byId("types").querySelectorAll("th")) {
    const isIt = head.querySelector("button").dataset.by === name;
    const ascends = (name === "name") === (order.turned === "");
    if (isIt) head.setAttribute("aria-sort", ascends ? "ascending" : "descending");
    else head.removeAttribute("aria-sort");
  }
  return show();
};

export const showTypes = (all) => {
  whole = all.retained;
  for (const button of byId("types").querySelectorAll("th button")) button.onclick = () => sortBy(button.dataset.by);
  byId("filter").addEventListener("input", show);
  return show();
};
