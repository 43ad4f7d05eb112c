// The search: words, patterns as in a shell, and regular expressions.

// Matches a name against a pattern: * any text, ? one character, [a-z] one of a set, \ takes the next character
// literally. After a mismatch only the last star takes one more character, so a hostile name or pattern costs at most
// the product of their lengths.
const globMatch = (glob, name) => {
  const one = (p, character) => {  // the length of the pattern that matches, or 0
    if (glob[p] === "?") return 1;
    if (glob[p] === "[") {
      const negated = glob[p + 1] === "!" || glob[p + 1] === "^";
      const first = p + (negated ? 2 : 1), end = glob.indexOf("]", first + 1);
      if (end >= 0) {
        let found = false;
        for (let i = first; i < end; ++i) {
          const range = glob[i + 1] === "-" && i + 2 < end;
          found = found || (range ? glob[i] <= character && character <= glob[i + 2] : glob[i] === character);
          if (range) i += 2;
        }
        return found !== negated ? end + 1 - p : 0;
      }
    }
    const escaped = glob[p] === "\\" && p + 1 < glob.length ? 1 : 0;
    return glob[p + escaped] === character ? escaped + 1 : 0;
  };
  let p = 0, star = -1, after = 0;
  for (let n = 0; n < name.length;) {
    if (glob[p] === "*") {
      star = ++p;
      after = n;
      continue;
    }
    const matched = p < glob.length ? one(p, name[n]) : 0;
    if (matched > 0) {
      p += matched;
      n += 1;
    } else if (star >= 0) {
      p = star;
      n = ++after;
    } else {
      return false;
    }
  }
  while (glob[p] === "*") ++p;
  return p === glob.length;
};

// Returns { test }, or { error }. A text between slashes is a regular expression, also with the flag i. Otherwise all
// words must match: a pattern the whole name, a word any part of the name or the begin of the dtype.
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
  return {
    globs,
    test: (t) => plain.every((word) => t.lower.includes(word) || t.dtype.toLowerCase().startsWith(word))
      && globs.every((glob) => globMatch(glob, t.lower) || t.lower.includes(glob)),
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
