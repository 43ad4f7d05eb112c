// Makes what the table shows below the row of an opened tensor: all its facts, its link, and its histogram.
const histogram = (t) => {
  const bins = new Map(t.stats[7].map(([exponent, ...counts]) => [exponent, counts]));
  if (bins.size === 0) return make("p", "No number is finite and not zero.");
  const low = Math.min(...bins.keys()), high = Math.max(...bins.keys());
  const wide = Math.ceil((high - low + 1) / 150);  // powers of two per bar
  const sums = Array.from({ length: Math.ceil((high - low + 1) / wide) }, () => [0, 0]);  // negative and positive numbers per bar
  for (const [exponent, [negative, positive]] of bins) {
    const sum = sums[Math.floor((exponent - low) / wide)];
    sum[0] += negative;
    sum[1] += positive;
  }
  const most = Math.max(...sums.map(([negative, positive]) => negative + positive));
  const every = Math.ceil(sums.length / 12);  // a label
  const bars = make("div", undefined, "bars");
  bars.setAttribute("role", "img");
  bars.setAttribute("aria-label", `Histogram of ${t.name}: numbers from 2^${low} to 2^${high}`);
  sums.forEach(([negative, positive], i) => {
    const from = low + i * wide, bar = make("div");
    bar.title = `2^${from}${wide === 1 ? "" : ` to 2^${from + wide - 1}`}: ${grouped(negative)} negative, ${grouped(positive)} positive`;
    for (const [count, name] of [[positive, "positive"], [negative, "negative"]]) {
      const piece = make("i", undefined, name);
      piece.style.height = 100 * count / most + "%";
      if (count > 0) bar.append(piece);
    }
    if ((sums.length - 1 - i) % every === 0) bar.append(make("span", "2^" + from));
    bars.append(bar);
  });
  const all = make("div");
  all.append(make("p", `Numbers per power of two; positive ones in colour, negative ones in grey. ${counted(t.stats[4], "zero")}.`, "note"), bars);
  return all;
};
const special = (t) => t.stats[5] + t.stats[6];
const linkOf = (t) => "#" + encodeURIComponent(t.name);
const detail = (t) => {
  const facts = [`${t.dtype} ${t.shape}, ${counted(t.parameters, "parameter")}, ${grouped(t.bytes)} bytes from byte ${grouped(t.offset)}`];
  if (several) facts.push(`in file ${t.file + 1}, ${data.files[t.file].name}`);
  const box = make("div");
  box.append(make("p", t.name, "whole"), make("p", facts.join(" "), "note"));
  if (t.stats) {
    const words = ["min", "max", "mean", "std"].map((word, i) => `${word} ${number(t.stats[i])}`);
    words.push(counted(t.stats[4], "zero"), `${grouped(t.stats[5])} NaN`, `${grouped(t.stats[6])} infinite`);
    box.append(make("p", words.join(", "), "note"));
  }
  if (t.name !== "") {
    const line = make("p", undefined, "note");
    const link = make("a", "Link to this tensor");
    link.href = linkOf(t);
    line.append(link);
    box.append(line);
  }
  if (t.stats) box.append(histogram(t));
  const row = makeRow([[box, ""]]);
  row.className = "detail";
  row.firstChild.colSpan = columns.length;
  return row;
};
