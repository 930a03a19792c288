// What snapshot it is, and what is to be known before anything is believed.

import { sayInferred } from "./object.js";
import { byId, bytes, count, element, isolated, plain, utc } from "./text.js";

const tile = (name, value) => element("div", { className: "tile" }, element("dt", {}, name), element("dd", {}, value));

const when = (nanoseconds) => (nanoseconds > 0 ? utc(nanoseconds / 1e6) : "");

export const showHeader = (told, all) => {
  const { about } = told;
  const name = plain(about.application) || plain(told.file);
  byId("title").textContent = about.process_id > 0 ? `${isolated(name)} (${about.process_id})` : name;
  document.title = `${isolated(name)} · heap · Remora`;
  const facts = [plain(about.runtime), when(about.taken_unix_nanoseconds), plain(told.file)].filter((fact) => fact !== "");
  byId("facts").replaceChildren(...facts.map((fact) => element("bdi", { className: "fact" }, fact)));
  byId("tiles").replaceChildren(
    tile("In objects", bytes(all.retained)),
    tile("Objects", count(told.objects)),
    tile("References", count(told.references)),
    tile("Types", count(told.types)),
    about.has_garbage ? tile("Garbage", "included") : tile("Free between", bytes(about.free_bytes)));
  byId("incomplete").hidden = about.complete;
  byId("incomplete").textContent = "NOT all of the heap: the notes below say why. What is here is right as far as it goes; what objects retain may be shown too small.";
  const inferred = about.roots.inferred ?? 0;
  const seen = Object.entries(about.roots).filter(([kind]) => kind !== "inferred").map(([kind, roots]) => `${count(roots)} ${kind}`);
  byId("facts").append(element("span", { className: "fact" }, `roots: ${[...seen, `${count(inferred)} inferred`].join(", ")}`));
  byId("inferred").hidden = !about.has_garbage;
  byId("inferred").textContent = "No collection was made: garbage is among these objects, and what is not held by others may be garbage.";
  sayInferred(about.has_garbage
    ? "nobody has seen a root here; no object outside refers to what follows, which may be garbage"
    : "nobody has seen this root; it is inferred, since no object outside refers to what follows");
  byId("notes").hidden = about.notes.length === 0;
  byId("notes").replaceChildren(...about.notes.map((note) => element("li", {}, plain(note))));
};
