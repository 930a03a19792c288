// Which methods a search means: a part of the name or of the module, in any case, or a /regular expression/.

/** `{ matches, methods }`, `{ problem }` for a pattern that is none, `null` for an empty search. */
const searchMethods = (model, wanted) => {
  if (wanted === "") return null;
  let fits;
  const pattern = /^\/(.+)\/$/.exec(wanted);
  if (pattern !== null) {
    try {
      const expression = new RegExp(pattern[1], "i");
      fits = (text) => expression.test(text);
    } catch (error) {
      return { problem: error.message };
    }
  } else {
    const part = wanted.toLowerCase();
    fits = (text) => text.toLowerCase().includes(part);
  }
  const matches = new Uint8Array(model.methods.length);
  let methods = 0;
  model.methods.forEach(({ name, module }, at) => {
    if (!fits(name) && !fits(module)) return;
    matches[at] = 1;
    methods++;
  });
  return { matches, methods };
};
