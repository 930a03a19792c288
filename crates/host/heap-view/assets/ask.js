// Questions to the server, and whether any is open.

import { byId } from "./text.js";

let open = 0;
let waiting = [];

/** Something has begun that questions follow from. */
export const begun = () => {
  open++;
};

/** It has led to all of its questions, or a question has its answer. */
export const closed = () => {
  open--;
  // What comes of the answer is drawn first.
  requestAnimationFrame(() => {
    if (open > 0) return;
    for (const resolve of waiting.splice(0)) resolve(true);
  });
};

/** Resolves when no question is open. */
export const idle = () => new Promise((resolve) => {
  if (open === 0) requestAnimationFrame(() => (open === 0 ? resolve(true) : waiting.push(resolve)));
  else waiting.push(resolve);
});

/** Says what went wrong; nothing takes it away. */
export const failed = (text) => {
  byId("failure").textContent = text;
  byId("failure").hidden = text === "";
};

/** The answer to a question; of one that failed, null, and it is said. */
export const ask = async (question, parameters = {}) => {
  begun();
  try {
    const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
    const answer = await fetch(`api/${question}?${new URLSearchParams(given)}`);
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error);
    failed("");
    return told;
  } catch (error) {
    const gone = error instanceof TypeError;
    failed(gone ? "The server does not answer: has `remora heap view` been ended? Start it again, and open the address that it then prints." : error.message);
    return null;
  } finally {
    closed();
  }
};
