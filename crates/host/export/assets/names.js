// Names of methods, shortened where room is short: arguments go first, then the namespace, then the type.

/** Splits at `separator` where no `<` or `(` is open. */
const splitOutside = (text, separator) => {
  const parts = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const letter = text[at];
    if (letter === "<" || letter === "(") depth++;
    else if (letter === ">" || letter === ")") depth = Math.max(0, depth - 1);
    else if (letter === separator && depth === 0) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  parts.push(text.slice(from));
  return parts;
};

/** Where the argument list of a name begins, else its end. */
const argumentsAt = (name) => {
  let depth = 0;
  for (let at = 0; at < name.length; at++) {
    if (name[at] === "<") depth++;
    else if (name[at] === ">") depth = Math.max(0, depth - 1);
    else if (name[at] === "(" && depth === 0) return at;
  }
  return name.length;
};

/** Letters of a type and of a method that a table shows at most: longer names are cut in the middle. */
const LONGEST_TYPE = 48;
const LONGEST_CALL = 64;
/** Parts that are no longer never shrink. */
const SHORT_TYPE = 8;
const SHORT_CALL = 12;

/** A text with the middle cut out if it is longer than `most`. */
const cutMiddle = (text, most) => {
  const letters = [...text];
  const side = Math.floor((most - 1) / 2);
  return letters.length <= most ? text : `${letters.slice(0, side).join("")}…${letters.slice(-side).join("")}`;
};

/** The type and the method of a name, as elements that shrink apart from each other: where room is short, both begin with what tells them apart. */
const callParts = ({ call, forms }) => {
  const own = call.endsWith(forms.at(-1)) ? forms.at(-1) : call;
  const type = call.slice(0, call.length - own.length);
  const dot = type.endsWith(".") ? "." : "";
  const method = element("span", { className: own.length > SHORT_CALL ? "own" : "own kept" }, dot, element("bdi", {}, cutMiddle(own, LONGEST_CALL)));
  if (type === dot) return [method];
  const name = cutMiddle(type.slice(0, type.length - dot.length), LONGEST_TYPE);
  return [element("bdi", { className: name.length > SHORT_TYPE ? "type" : "kept" }, name), method];
};

/** `{ space, short, call, forms }` of a name: its namespace, `Type.Method(arguments)`, the same without arguments, and all forms from the longest to the shortest. */
// Only managed names have dots that separate; `libc.so.6+0x10` stays whole.
const partsOfName = (name, managed) => {
  if (!managed) {
    const bare = name.slice(0, argumentsAt(name)) || name;
    return { space: "", short: name, call: bare, forms: bare === name ? [name] : [name, bare] };
  }
  const end = argumentsAt(name);
  const segments = splitOutside(name.slice(0, end), ".");
  if (segments.length > 2 && segments.at(-2) === "") segments.splice(-2, 2, `.${segments.at(-1)}`);
  const type = segments.slice(-2).join(".");
  const list = name.slice(end);
  const forms = [name, name.slice(0, end), type, segments.at(-1)];
  return { space: segments.slice(0, -2).join("."), short: type + list, call: type, forms: [...new Set(forms)] };
};
