// The search: words, patterns as in a shell, and regular expressions.

// Compiles a pattern for whole names: * any text, ? one character, [a-z] one of a set, [!a-z] one outside of a set, \ takes
// the next character literally. The leftmost match of each part between two stars is enough. A group in a look-ahead, which
// is not tried again, finds it, so no pattern or name makes the expression slow.
const literal = (text) => text.replace(/[^\w\s]/g, "\\$&");
const expressionOf = (glob) => {
  const parts = [""];
  for (const [token, negated, set] of glob.matchAll(/\[((?![!^])|[!^])([^][^\]]*)\]|\\[^]|[^]/g)) {
    if (token === "*") {
      parts.push("");
    } else if (set === undefined) {
      parts[parts.length - 1] += token === "?" ? "[^]" : literal(token.length > 1 ? token[1] : token);
    } else {
      const ranges = set.replace(/([^])-([^])|[^]/g, (all, first, last) => first === undefined ? literal(all)
        : first <= last ? `${literal(first)}-${literal(last)}` : "");
      parts[parts.length - 1] += `[${negated ? "^" : ""}${ranges}]`;
    }
  }
  const [first, ...rest] = parts, last = rest.pop();
  const middle = rest.map((part, i) => `(?=([^]*?${part}))\\${i + 1}`).join("");
  return new RegExp(last === undefined ? `^${first}$` : `^${first}${middle}[^]*${last}$`);
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
  const compiled = globs.map((glob) => ({ glob, expression: expressionOf(glob) }));
  return {
    globs,
    test: (t) => plain.every((word) => t.lower.includes(word) || t.lowerDtype.startsWith(word))
      && compiled.every(({ glob, expression }) => expression.test(t.lower) || t.lower.includes(glob)),
  };
};

// Returns the tensors of `all` that a query finds, and whether a slow expression was stopped after a second.
const runQuery = (query, all) => {
  const found = [], end = performance.now() + 1000;
  for (let i = 0; i < all.length; ++i) {
    if (query.slow && performance.now() > end) return { found, stopped: i };
    if (query.test(all[i])) found.push(all[i]);
  }
  return { found };
};
