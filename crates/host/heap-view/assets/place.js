// Where one is: in the address, so that Back goes back. `map` is the node that the treemap shows, `show` what the details are of.

import { begun, closed } from "./ask.js";

/** Ways that have begun here and have not arrived. */
let onTheWay = 0;

/** What the address says. */
export const place = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Goes elsewhere; what is not named stays. */
export const go = (changes) => {
  const next = `#${new URLSearchParams({ ...place(), ...changes })}`;
  if (next === location.hash) return;
  onTheWay++;
  begun();
  location.hash = next;
};

/** Calls `arrive` wherever the way leads, also that of the browser's own buttons. */
export const listenToPlace = (arrive) =>
  addEventListener("hashchange", () => {
    arrive();
    if (onTheWay === 0) return;
    onTheWay--;
    closed();
  });

export const showObject = (id) => go({ show: `object.${id}` });
export const showType = (type) => go({ show: `type.${type}` });
