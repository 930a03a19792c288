// Where one is: in the address, so that Back goes back. `map` is the node that the treemap shows, `show` what the details are of.

/** What the address says. */
export const place = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Goes elsewhere; what is not named stays. */
export const go = (changes) => {
  const next = { ...place(), ...changes };
  location.hash = new URLSearchParams(Object.entries(next)).toString();
};

export const showObject = (id) => go({ show: `object.${id}` });
export const showType = (type) => go({ show: `type.${type}` });
