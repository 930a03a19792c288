// Puts the parts together. What is shown follows from the address.

import { ask, idle } from "./ask.js";
import { byId } from "./text.js";
import { listenToPlace, place } from "./place.js";
import { showHeader } from "./header.js";
import { listenToMap, showMap, up } from "./treemap.js";
import { listenToTree, showTree } from "./tree.js";
import { showTypes } from "./types.js";
import { showFound } from "./found.js";
import { showDetails } from "./object.js";
import { listenToSearch } from "./search.js";

const follow = () => {
  const { map, show } = place();
  return Promise.all([showMap(map ?? String(all.id)), showDetails(show)]);
};

let all = null;

const choose = (chosen) => {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const isIt = tab === chosen;
    tab.setAttribute("aria-selected", String(isIt));
    tab.tabIndex = isIt ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isIt;
  }
  const ofTypes = chosen.id === "types-title";
  byId("filter-label").hidden = !ofTypes;
  byId("types-count").hidden = !ofTypes;
};

const listenToTabs = () => {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const [at, tab] of tabs.entries()) {
    tab.onclick = () => choose(tab);
    tab.onkeydown = (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      const step = event.key === "ArrowRight" ? 1 : tabs.length - 1;
      const next = tabs[(at + step) % tabs.length];
      choose(next);
      next.focus();
    };
  }
};

const listenToKeys = () =>
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") byId("search").focus();
    else if (event.key === "Backspace") up();
    else return;
    event.preventDefault();
  });

const begin = async () => {
  listenToTabs();
  listenToKeys();
  listenToMap();
  listenToTree();
  listenToSearch();
  const [told, here] = await Promise.all([ask("about"), showMap(place().map)]);
  if (told === null || here === null) return;
  all = here.id === told.all ? here : (await ask("map"))?.here;
  if (!all) return;
  showHeader(told, all);
  requestAnimationFrame(() => setTimeout(() => { document.documentElement.dataset.drawn = performance.now().toFixed(0); }));
  listenToPlace(follow);
  const suspect = await showFound(told.about.found, all.retained);
  if (suspect !== null) choose(byId("found-title"));
  const first = place().show ?? (suspect === null ? undefined : `object.${suspect.id}`);
  await Promise.all([showTypes(all), showTree(all), showDetails(first, all.retained)]);
};

window.remora = { idle };
begin();
