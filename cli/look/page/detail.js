// Makes what the table shows below the row of an opened tensor: all its facts, its link, and its histogram.
const svg = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};
const histogram = (t) => {
  const bins = t.stats[7];
  if (bins.length === 0) return make("p", "No number is finite and not zero.");
  const low = bins[0][0], high = bins[bins.length - 1][0];
  const room = Math.min(720, window.innerWidth - 80);
  const step = Math.min(40, room / (high - low + 1));
  const most = Math.max(...bins.map((bin) => bin[1] + bin[2]));
  const label = `Histogram of ${t.name}: numbers from 2^${low} to 2^${high}`;
  const picture = svg("svg", { viewBox: `0 0 ${room} 180`, class: "wide", role: "img", "aria-label": label, preserveAspectRatio: "xMinYMin" });
  for (const [exponent, negative, positive] of bins) {
    const x = (exponent - low) * step, width = Math.max(step - 1, 0.5);
    const n = 150 * negative / most, p = 150 * positive / most;
    const bar = svg("g", {});
    bar.append(svg("title", {}, `2^${exponent}: ${grouped(negative)} negative, ${grouped(positive)} positive`),
      svg("rect", { x, y: 155 - n, width, height: n, class: "negative" }),
      svg("rect", { x, y: 155 - n - p, width, height: p, class: "positive" }));
    picture.append(bar);
  }
  const every = Math.ceil(38 / step);
  for (let e = high; e >= low; e -= every)
    picture.append(svg("text", { x: Math.min(room - 20, Math.max(20, (e - low + 0.5) * step)), y: 173, "text-anchor": "middle" }, "2^" + e));
  const all = make("div");
  all.append(make("p", `Numbers per power of two; positive ones in colour, negative ones in grey. ${counted(t.stats[4], "zero")}.`, "note"), picture);
  return all;
};
const special = (t) => t.stats[5] + t.stats[6];
const linkOf = (t) => "#" + encodeURIComponent(t.name);
const detail = (t) => {
  const row = make("tr", undefined, "detail");
  const cell = make("td");
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
    const line = make("p", undefined, "note screen");
    const link = make("a", "Link to this tensor");
    link.href = linkOf(t);
    line.append(link);
    box.append(line);
  }
  if (t.stats) box.append(histogram(t));
  cell.append(box);
  row.append(cell);
  return row;
};
