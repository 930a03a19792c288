"use strict";
// Elements made of texts, and shares. Texts of the target only ever become text nodes.

/** An element with properties and children; children that are strings become text. */
const element = (tag, properties = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for" || name === "scope") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

const byId = (id) => document.getElementById(id);

/** `12.3 %`; what is there but too small to show is `< 0.1 %`. */
const percent = (part, whole) => {
  if (whole === 0 || part === 0) return "0\u202f%";
  const value = (100 * part) / whole;
  if (value < 0.1) return "<\u202f0.1\u202f%";
  return `${value.toFixed(value > 99.95 ? 0 : 1)}\u202f%`;
};

/** `2026-11-28 21:40:41 UTC`, of milliseconds since 1970. */
const utc = (milliseconds) => `${new Date(milliseconds).toISOString().replace("T", " ").slice(0, 19)} UTC`;

/** A text of the target without what would steer or reorder the text around it. */
const plain = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "\ufffd");

/** Scripts that are written from right to left: Hebrew, Arabic and their neighbours. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** A plain text within another one, where no element can be: whatever its script is, the text around it stays in order. */
const isolated = (text) => (RIGHT_TO_LEFT.test(text) ? `\u2066${text}\u2069` : text);
