// Finding a type by a part of its name, or an object by its address or by the static field that holds it.

import { ask } from "./ask.js";
import { byId, bytes, counted, element, plain } from "./text.js";
import { showObject, showType } from "./place.js";

/** Types that are offered. */
const OFFERED = 12;

let asked = 0;

const close = () => {
  asked++;
  byId("found").hidden = true;
};

const offer = (name, detail, choose) =>
  element("li", {}, element("button", { className: "link", title: plain(name), onclick: () => { close(); choose(); } },
    element("bdi", {}, plain(name)), element("span", { className: "size" }, detail)));

const show = async (chooses) => {
  const text = byId("search").value.trim();
  const mine = ++asked;
  if (text === "" || text === "@") return close();
  const found = await ask("search", { text, count: OFFERED });
  if (found === null || mine !== asked) return;
  const offers = [];
  if (found.object !== null) offers.push(offer(found.object.name, bytes(found.object.retained), () => showObject(found.object.id)));
  for (const row of found.types?.rows ?? []) offers.push(offer(row.name, counted(row.count, "object"), () => showType(row.type)));
  for (const row of found.held ?? []) offers.push(offer(`static ${row.held_by}`, bytes(row.retained), () => showObject(row.id)));
  const left = (found.types?.total ?? 0) - OFFERED;
  const note = found.note ?? (offers.length === 0 ? "no type and no known static field has this in its name" : left > 0 ? `and ${counted(left, "other")}: the filter of the table shows all` : "");
  byId("found").replaceChildren(element("ul", {}, ...offers), element("p", { className: "soft" }, note));
  byId("found").hidden = false;
  if (chooses) byId("found").querySelector("button")?.click();
};

export const listenToSearch = () => {
  const search = byId("search");
  search.addEventListener("input", () => show(false));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") show(true);
    if (event.key === "Escape") close();
    if (event.key === "ArrowDown") byId("found").querySelector("button")?.focus();
  });
  byId("found").addEventListener("keydown", (event) => {
    const item = event.target.closest("li");
    const next = { ArrowDown: item?.nextElementSibling, ArrowUp: item?.previousElementSibling }[event.key];
    if (event.key === "Escape") { close(); search.focus(); }
    if (next === undefined) return;
    event.preventDefault();
    (next?.querySelector("button") ?? search).focus();
  });
  document.addEventListener("pointerdown", (event) => { if (event.target.closest(".find") === null) close(); });
};
