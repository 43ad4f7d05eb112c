// The search: words, patterns as in a shell, and regular expressions.

// Compiles a pattern for whole names: * any text, ? one character, [a-z] one of a set, [!a-z] one outside of a set, \ takes
// the next character literally. Each part between stars becomes an expression without repetition, which matches a fixed
// number of characters. The leftmost match of each part is enough, so no pattern or name makes it slow.
const compileGlob = (glob) => {
  const literal = (text) => text.replace(/[^\w\s]/g, "\\$&");
  const parts = [{ source: "", length: 0 }];
  for (let i = 0; i < glob.length; ++i) {
    const part = parts[parts.length - 1];
    const negated = glob[i + 1] === "!" || glob[i + 1] === "^";
    const first = i + (negated ? 2 : 1), end = glob[i] === "[" ? glob.indexOf("]", first + 1) : -1;
    if (glob[i] === "*") {
      parts.push({ source: "", length: 0 });
      continue;
    }
    part.length += 1;
    if (glob[i] === "?") {
      part.source += "[^]";
    } else if (end >= 0) {
      let set = "";
      for (let k = first; k < end; ++k) {
        const range = glob[k + 1] === "-" && k + 2 < end;
        if (!range) set += literal(glob[k]);
        else if (glob[k] <= glob[k + 2]) set += `${literal(glob[k])}-${literal(glob[k + 2])}`;
        if (range) k += 2;
      }
      part.source += `[${negated ? "^" : ""}${set}]`;
      i = end;
    } else {
      if (glob[i] === "\\" && i + 1 < glob.length) i += 1;
      part.source += literal(glob[i]);
    }
  }
  const at = parts.map((part) => new RegExp(part.source, "y")), search = parts.map((part) => new RegExp(part.source, "g"));
  const last = parts.length - 1;
  return (name) => {
    const matches = (expression, place) => {
      expression.lastIndex = place;
      return expression.test(name);
    };
    if (!matches(at[0], 0)) return false;
    if (last === 0) return name.length === parts[0].length;
    let place = parts[0].length;
    for (let i = 1; i < last; ++i) {
      if (!matches(search[i], place)) return false;
      place = search[i].lastIndex;
    }
    const end = name.length - parts[last].length;
    return end >= place && matches(at[last], end);
  };
};

// Returns { test }, or { error }. A text between slashes is a regular expression, also with the flag i. Otherwise all
// words must match: a pattern the whole name, another word any part of the name or the beginning of the dtype.
const parseQuery = (text) => {
  const trimmed = text.trim();
  const regular = /^\/([^]+)\/(i?)$/.exec(trimmed);
  if (regular) {
    try {
      const expression = new RegExp(regular[1], regular[2]);
      return { test: (t) => expression.test(t.name), slow: true };
    } catch (error) {
      return { error: `Wrong regular expression: ${String(error.message).split(": ").pop()}` };
    }
  }
  const words = trimmed.toLowerCase().split(/\s+/).filter(Boolean);
  const globs = words.filter((word) => /[*?[]/.test(word));
  const plain = words.filter((word) => !globs.includes(word));
  const compiled = globs.map((glob) => ({ glob, matches: compileGlob(glob) }));
  return {
    globs,
    test: (t) => plain.every((word) => t.lower.includes(word) || t.lowerDtype.startsWith(word))
      && compiled.every(({ glob, matches }) => matches(t.lower) || t.lower.includes(glob)),
  };
};

// Returns the tensors of `all` that a query finds, and whether a slow expression was stopped after a second.
const runQuery = (query, all) => {
  const found = [], end = performance.now() + 1000;
  for (let i = 0; i < all.length; ++i) {
    if (query.slow && i % 64 === 63 && performance.now() > end) return { found, stopped: i };
    if (query.test(all[i])) found.push(all[i]);
  }
  return { found };
};
