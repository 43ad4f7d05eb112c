// The map of the bytes: lines of equal length, which the files fill one after the other, and the legend. A dark line
// and a number mark where each file begins.
const lineHeight = 15, barHeight = 13;
const headers = data.files.map((file) => ({ begin: file.begin, end: file.begin + file.header }));
const placed = tensors.filter((t) => t.bytes > 0).sort((a, b) => a.start - b.start);
const placeOf = new Map(placed.map((t, i) => [t, i]));

// The rectangles [x, y, width, height] of a range of bytes.
const boxesOf = (begin, end) => {
  const canvas = byId("map"), boxes = [];
  const width = canvas.clientWidth, lines = Math.max(1, Math.floor(canvas.clientHeight / lineHeight));
  const scale = total === 0 ? 0 : lines * width / total;
  const last = end * scale;
  for (let x = begin * scale; x < last;) {
    const line = Math.floor(x / width + 1e-9);
    const stop = Math.min(last, (line + 1) * width);
    boxes.push([x - line * width, line * lineHeight, stop - x, barHeight]);
    if (stop <= x) break;
    x = stop;
  }
  return boxes;
};
const drawMap = () => {
  const { context, width: whole } = canvasOf(byId("map"));
  const fill = (begin, end, paint, gap) => {
    context.fillStyle = paint;
    const boxes = boxesOf(begin, end);
    boxes.forEach(([x, y, w, h], i) =>
      context.fillRect(x, y, Math.max(gap && i === boxes.length - 1 && w > 3 ? w - 1 : w, 0.25), h));
  };
  fill(0, total, variable("--line"), false);
  placed.forEach((t, i) => fill(t.start, t.start + t.bytes, colour(t.dtype, i % 2 === 0 ? 0 : 7), true));
  for (const header of headers) fill(header.begin, header.end, variable("--header"), true);
  if (!several) return;
  context.font = "600 11px system-ui, sans-serif";
  context.textBaseline = "middle";
  let free = -1;  // where the last number ends, on the same line
  data.files.forEach((file, i) => {
    const [[x, y]] = [...boxesOf(file.begin, file.begin + file.bytes), [0, 0]];
    context.fillStyle = variable("--text");
    context.fillRect(x, y - 1, 2, lineHeight);
    const text = String(i + 1), width = context.measureText(text).width, at = y * 1e5 + x;
    if (at < free) return;
    context.fillText(text, x + 6 + width > whole ? x - 4 - width : x + 5, y + 7);
    free = at + width + 12;
  });
};
// Returns the tensor or the index of the header at a point of the map.
const atMap = (x, y) => {
  const canvas = byId("map");
  const width = canvas.clientWidth, lines = Math.max(1, Math.floor(canvas.clientHeight / lineHeight));
  const byte = (Math.floor(y / lineHeight) * width + x) * total / (lines * width);
  const header = headers.findIndex((one) => byte >= one.begin && byte < one.end);
  if (header >= 0) return { header };
  let low = 0, high = placed.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (placed[middle].start + placed[middle].bytes > byte) high = middle; else low = middle + 1;
  }
  return low < placed.length && placed[low].start <= byte ? { tensor: placed[low] } : {};
};
byId("map").addEventListener("mousemove", (event) => {
  const { tensor, header } = atMap(event.offsetX, event.offsetY);
  const file = data.files[header];
  showTip(event.clientX, event.clientY, tensor ? described(tensor)
    : file ? `header${several ? " of " + file.name : ""}\n${size(file.header)}` : null);
});
byId("map").addEventListener("click", (event) => {
  const { tensor } = atMap(event.offsetX, event.offsetY);
  if (tensor) visit(tensor);
});
byId("map").addEventListener("mouseleave", () => showTip(0, 0, null));
const mapKeys = keyboard(byId("map"), {
  count: () => placed.length,
  text: (i) => described(placed[i]) + (several ? `, file ${placed[i].file + 1}` : ""),
  boxes: (i) => boxesOf(placed[i].start, placed[i].start + placed[i].bytes),
  step: (i, key) => {
    if (key === "ArrowUp" || key === "ArrowDown") {  // the tensor on the next line, at the same place
      const boxes = boxesOf(placed[i].start, placed[i].start + placed[i].bytes);
      const [x, y, w] = boxes[key === "ArrowUp" ? 0 : boxes.length - 1];
      const { tensor } = atMap(x + w / 2, y + (key === "ArrowUp" ? -lineHeight : lineHeight) + 1);
      return tensor ? placeOf.get(tensor) : undefined;
    }
    if (key === "PageDown" || key === "PageUp") {  // the next file
      const way = key === "PageDown" ? 1 : -1, found = placed.findIndex((t) => t.file === placed[i].file + way);
      return found < 0 ? i : found;
    }
    return undefined;
  },
  enter: (i) => visit(placed[i]),
});

const drawLegend = () => {
  const entry = (paint, name, bytes, count) => {
    const item = make("li");
    const swatch = make("i");
    swatch.style.background = paint;
    item.append(swatch, name + " ", make("span", [size(bytes), share(bytes, total), count].filter(Boolean).join(", ")));
    return item;
  };
  const headerBytes = data.files.reduce((sum, file) => sum + file.header, 0);
  byId("legend").replaceChildren(
    ...dtypes.map((d) => entry(colour(d), d, byDtype.get(d).bytes, counted(byDtype.get(d).count, "tensor"))),
    entry(variable("--header"), several ? "headers" : "header", headerBytes, ""));
};
