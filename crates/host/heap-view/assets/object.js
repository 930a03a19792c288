// The details: of one object or of one type.

import { ask } from "./ask.js";
import { byId, bytes, count, counted, element, percent, plain } from "./text.js";
import { fill, objectButton, objectRow, objectTable, via } from "./list.js";
import { go, showType } from "./place.js";

let whole = 0;
let shown = "";
let ofInferred = "";

/** What to say of a root that nobody has seen. */
export const sayInferred = (text) => {
  ofInferred = text;
};

const fact = (name, ...value) => [element("dt", {}, name), element("dd", {}, ...value)];

const list = (title, total, question, parameters) => {
  const part = element("section", {}, element("h3", {}, title));
  if (total === 0) return part;
  const table = objectTable();
  part.append(table);
  fill(table.tBodies[0], question, parameters, objectRow);
  return part;
};

const chain = (rows, hiddenBehind, hidden) => {
  const items = rows.map((row) => element("li", {}, ...via(row), objectButton(row), element("span", { className: "size" }, bytes(row.retained))));
  if (hidden !== "") items.splice(hiddenBehind, 0, element("li", { className: "hidden-part" }, hidden));
  return element("ol", { className: "chain" }, ...items);
};

const path = (told) => {
  const part = element("section", { className: "path" }, element("h3", {}, "Why it is alive"));
  if (told.path === null) {
    part.append(element("p", { className: "warn" }, "No root reaches it: it is garbage, or not all of the heap is here."));
    return part;
  }
  const kinds = told.path.roots.map(({ kind, note }) =>
    element("span", { className: `root ${kind}` }, note === null ? kind : element("bdi", {}, `${kind}, `, element("bdi", {}, plain(note)))),
  );
  const inferred = told.path.roots.some(({ kind }) => kind === "inferred");
  const remark = inferred ? ofInferred : "";
  const hidden = told.path.hidden > 0 ? `… ${counted(told.path.hidden, "other")}` : "";
  part.append(element("p", {}, "held by a root: ", ...kinds, element("small", {}, remark)), chain(told.path.objects, 1, hidden));
  return part;
};

const above = (told) => {
  const made = element("details", {}, element("summary", {}, `What alone holds it (${told.cut ? "many" : count(told.above.length - 1)})`));
  made.append(chain(told.above, 1, told.cut ? "… others" : ""));
  return made;
};

const objectDetails = (told) => {
  const { object } = told;
  const type = element("button", { className: "link", onclick: () => showType(object.type) }, element("bdi", {}, plain(object.name)));
  return [
    element("p", { className: "what" }, "Object"),
    element("h2", { id: "details-title" }, element("bdi", {}, plain(object.name))),
    element("dl", { className: "facts" },
      ...fact("Address", element("code", {}, `@${object.address}`)),
      ...fact("Type", type),
      ...fact("Assembly", plain(told.assembly)),
      ...fact("Own", bytes(object.own)),
      ...fact("Retained", `${bytes(object.retained)} in ${counted(object.count, "object")} (${percent(object.retained, whole)} of the heap)`)),
    element("p", {}, element("button", { onclick: () => go({ map: object.id }), disabled: object.children === 0 }, "Show in the map"),
      object.children === 0 ? element("small", {}, " the map shows what an object keeps: this one keeps no other") : null),
    path(told),
    above(told),
    list(`Referred to by ${count(told.referrers)}`, told.referrers, "referrers", { id: object.id }),
    list(`Refers to ${count(told.references)}`, told.references, "references", { id: object.id }),
  ];
};

/** Types whose objects refer to those of one type. */
const referredBy = (type) => {
  const rows = element("tbody");
  const head = element("tr", {}, element("th", { scope: "col" }, "Type"), element("th", { scope: "col", className: "number" }, "References"));
  const part = element("section", { className: "referring" }, element("h3", {}, "Referenced by"), element("table", {}, element("thead", {}, head), rows));
  ask("referring", { type }).then((told) => {
    if (told === null) return;
    const name = (row) => element("button", { className: "link", title: plain(row.assembly), onclick: () => showType(row.type) }, element("bdi", {}, plain(row.name)));
    rows.replaceChildren(...told.rows.map((row) => element("tr", {}, element("td", {}, name(row)), element("td", { className: "number" }, count(row.references)))));
    if (told.more > 0) part.append(element("p", { className: "soft" }, `${count(told.more)} more types`));
    if (told.cut) part.append(element("p", { className: "soft" }, "Only the objects that retain most were looked at."));
    if (told.rows.length === 0) part.append(element("p", { className: "soft" }, "No object refers to one of these."));
  });
  return part;
};

const typeDetails = (told) => [
  element("p", { className: "what" }, "Type"),
  element("h2", { id: "details-title" }, element("bdi", {}, plain(told.name))),
  element("dl", { className: "facts" },
    ...fact("Assembly", plain(told.assembly)),
    ...fact("Objects", count(told.count)),
    ...fact("Own", bytes(told.own)),
    ...fact("Retained", `${bytes(told.retained)} (${percent(told.retained, whole)} of the heap)`)),
  referredBy(told.type),
  list("Its objects, those that retain most first", told.count, "objects", { type: told.type }),
];

const nothing = () => [
  element("p", { className: "what" }, "Details"),
  element("p", { className: "soft" }, "Choose a box, a type or an object."),
];

/** Shows `object.5`, `type.7`, or that nothing is chosen. */
export const showDetails = async (what = "", all = whole) => {
  whole = all;
  if (what === shown && what !== "") return;
  shown = what;
  const [kind, id] = what.split(".");
  const told = kind === "object" ? await ask("object", { id }) : kind === "type" ? await ask("type", { type: id }) : null;
  if (what !== shown) return;
  const made = told === null ? nothing() : kind === "object" ? objectDetails(told) : typeDetails(told);
  byId("details").replaceChildren(...made);
  byId("details").scrollTop = 0;
};
