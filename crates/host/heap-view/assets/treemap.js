// The treemap: a node of the dominator tree, what hangs under it, and what hangs under that, some levels deep. Boxes are buttons.

import { ask } from "./ask.js";
import { byId, bytes, count, counted, element, hue, isolated, plain, short, shortField } from "./text.js";
import { go } from "./place.js";

/** Pixels of a box's heading, at its edge, between boxes, and below which a box has no text, no size or is not there. */
const HEADING = 17;
const EDGE = 2;
const GAP = 1;
const READABLE = 34;
const SIZED = 96;
const VISIBLE = 3;

let shown = null;

/** Rectangles as square as can be for weights, which descend. */
export const squarified = (weights, x, y, width, height) => {
  const places = [];
  const sum = weights.reduce((all, weight) => all + weight, 0);
  const scale = sum > 0 ? (width * height) / sum : 0;
  let from = 0;
  while (from < weights.length) {
    const side = Math.max(Math.min(width, height), 1e-9);
    let to = from;
    let area = 0;
    let worst = Infinity;
    for (; to < weights.length; to++) {
      const next = area + weights[to] * scale;
      const square = (side * side) / (next * next);
      const ratio = Math.max(square * weights[from] * scale, 1 / (square * weights[to] * scale));
      if (ratio > worst) break;
      worst = ratio;
      area = next;
    }
    to = Math.max(to, from + 1);
    const thick = area / side;
    let along = 0;
    for (const weight of weights.slice(from, to)) {
      const long = thick > 0 ? (weight * scale) / thick : 0;
      places.push(width >= height
        ? { x, y: y + along, width: thick, height: long }
        : { x: x + along, y, width: long, height: thick });
      along += long;
    }
    if (width >= height) [x, width] = [x + thick, Math.max(0, width - thick)];
    else [y, height] = [y + thick, Math.max(0, height - thick)];
    from = to;
  }
  return places;
};

const put = (made, { x, y, width, height }) => {
  made.style.left = `${x}px`;
  made.style.top = `${y}px`;
  made.style.width = `${Math.max(0, width - GAP)}px`;
  made.style.height = `${Math.max(0, height - GAP)}px`;
  return made;
};

/** Down into a node; one that keeps nothing else is only shown. */
const enter = (row) => {
  const show = row.address === null ? {} : { show: `object.${row.id}` };
  go(row.children > 0 ? { map: row.id, ...show } : show);
};

const box = (row, at, isInner) => {
  const text = at.width > READABLE && at.height > HEADING - 3;
  const name = element("bdi", { className: "name" }, short(row.name));
  const field = row.held_by === undefined ? "" : `\nheld by static ${isolated(plain(row.held_by))}`;
  const held = text && field !== "" && at.width > 2 * SIZED ? [element("span", { className: "held" }, "static ", element("bdi", {}, shortField(row.held_by)))] : [];
  const made = element("button", {
    className: isInner ? "box inner" : "box",
    title: `${plain(row.name)}${row.address === null ? "" : `\n@${row.address}`}\n${bytes(row.retained)} in ${counted(row.count, "object")}${field}`,
    onclick: () => enter(row),
    tabIndex: -1,
    "data-id": row.id,
    "aria-label": `${plain(row.name)}, ${bytes(row.retained)} in ${counted(row.count, "object")}`,
  }, ...(text ? [name] : []), ...(text && at.width > SIZED ? [element("span", { className: "size" }, bytes(row.retained))] : []), ...held);
  made.style.setProperty("--hue", row.address === null ? 220 : hue(row.name));
  made.classList.toggle("virtual", row.address === null);
  return put(made, at);
};

/** Those without a box, by type, as fillers: `left` nodes with `bytes`. The groups may be samples: then the numbers follow from their parts. */
const smaller = ({ groups, about }, left, all) => {
  const sum = (of) => groups.reduce((sum, group) => sum + group[of], 0);
  const [nodes, weights] = [Math.max(1, sum("nodes")), Math.max(1, sum("bytes"))];
  return groups.map((group) => {
    const weight = Math.round((all * group.bytes) / weights);
    const name = group.name === "" ? "others" : isolated(short(group.name));
    return { weight, label: `${about ? "about " : ""}${count(Math.round((left * group.nodes) / nodes))} × ${name} ${bytes(weight)}` };
  });
};

/** What is no node: what a node takes itself, and what has no box of its own. */
const filler = (label, at) => put(element("div", { className: "filler", title: label }, at.width > READABLE && at.height > HEADING - 3 ? label : ""), at);

const inside = (row, at) => {
  const heading = Math.min(HEADING, at.height);
  const area = { x: at.x + EDGE, y: at.y + heading, width: at.width - 2 * EDGE - GAP, height: at.height - heading - EDGE - GAP };
  if (row.children === 0 || area.width < READABLE || area.height < HEADING - 4) return [];
  const told = row.inside.reduce((sum, inner) => sum + inner.retained, 0);
  // Without a box inside, everything that it keeps; else the other children.
  const left = row.inside.length === 0 ? row.count - 1 : row.children - row.inside.length;
  const fillers = [
    { weight: row.own, label: `itself ${bytes(row.own)}` },
    ...(left > 0 ? smaller(row, left, row.retained - told - row.own) : []),
  ];
  const items = [...row.inside.map((inner) => ({ inner, weight: Math.max(1, inner.retained) })), ...fillers]
    .filter(({ weight }) => weight > 0).sort((one, other) => other.weight - one.weight);
  const places = squarified(items.map(({ weight }) => weight), area.x, area.y, area.width, area.height);
  return items.flatMap(({ inner, label }, item) => {
    const place = places[item];
    if (place.width <= VISIBLE || place.height <= VISIBLE) return [];
    return inner === undefined ? [filler(label, place)] : [box(inner, place, true), ...inside(inner, place)];
  });
};

const draw = () => {
  if (shown === null) return;
  const stage = byId("stage");
  const { here, boxes, rest } = shown;
  const items = boxes.map((row) => ({ weight: row.retained, row }));
  if (here.own > 0) items.push({ weight: here.own, label: `itself ${bytes(here.own)}` });
  if (rest.nodes > 0) items.push(...smaller(rest, rest.nodes, rest.retained).filter(({ weight }) => weight > 0));
  items.sort((one, other) => other.weight - one.weight);
  const weights = items.map((item) => Math.max(1, item.weight));
  const places = squarified(weights, 0, 0, stage.clientWidth, stage.clientHeight);
  const focused = stage.contains(document.activeElement);
  stage.replaceChildren(...items.flatMap(({ row, label }, place) => {
    const at = places[place];
    if (at.width <= VISIBLE || at.height <= VISIBLE) return [];
    return row === undefined ? [filler(label, at)] : [box(row, at, false), ...inside(row, at)];
  }));
  const first = stage.querySelector(".box:not(.inner)");
  if (first !== null) first.tabIndex = 0;
  if (focused) (first ?? byId("stage")).focus();
};

const crumbs = ({ above, cut, here }) => {
  const crumb = (row, isLast) => {
    const name = row.address === null ? row.name : short(row.name);
    const made = isLast
      ? element("span", { "aria-current": "location" }, element("bdi", {}, name))
      : element("button", { className: "link", title: plain(row.name), onclick: () => go({ map: row.id, ...(row.address === null ? {} : { show: `object.${row.id}` }) }) }, element("bdi", {}, name));
    return element("li", {}, made);
  };
  const list = above.map((row) => crumb(row, false));
  if (cut) list.splice(1, 0, element("li", {}, "…"));
  byId("crumbs").replaceChildren(...list, crumb(here, true));
  byId("crumbs").scrollLeft = byId("crumbs").scrollWidth;
};

/** Shows a node; without one, all of the heap. Resolves to what it is. */
export const showMap = async (id) => {
  if (shown !== null && String(shown.here.id) === id) return shown.here;
  const told = await ask("map", { id });
  if (told === null) return null;
  shown = told;
  crumbs(told);
  draw();
  return told.here;
};

/** One up; from all of the heap nowhere. */
export const up = () => {
  const above = shown?.above.at(-1);
  if (above !== undefined) go({ map: above.id });
};

/** The box next to one, in a direction. */
const beside = (from, key) => {
  const middle = (made) => [made.offsetLeft + made.offsetWidth / 2, made.offsetTop + made.offsetHeight / 2];
  const [x, y] = middle(from);
  const [right, down] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[key];
  const distance = (made) => {
    const [otherX, otherY] = middle(made);
    const ahead = (otherX - x) * right + (otherY - y) * down;
    const aside = Math.abs((otherX - x) * down) + Math.abs((otherY - y) * right);
    return ahead > 1 ? ahead + 2 * aside : Infinity;
  };
  const others = [...byId("stage").querySelectorAll(".box:not(.inner)")].filter((made) => distance(made) < Infinity);
  return others.sort((one, other) => distance(one) - distance(other))[0];
};

export const listenToMap = () => {
  byId("stage").addEventListener("keydown", (event) => {
    if (!event.key.startsWith("Arrow") || !event.target.classList.contains("box")) return;
    event.preventDefault();
    const next = beside(event.target, event.key);
    if (next === undefined) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
  new ResizeObserver(draw).observe(byId("stage"));
};
