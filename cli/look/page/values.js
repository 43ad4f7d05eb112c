// The heat maps of --values: one square per sampled value. Blue is negative, red is positive, grey is not a number.
const heatColour = (value, most) => {
  if (Number.isNaN(value)) return variable("--header");
  const part = most === 0 ? 0 : Math.max(-1, Math.min(1, value / most));
  const dark = variable("--dark") === "1";
  const light = dark ? 16 + 50 * Math.abs(part) : 96 - 50 * Math.abs(part);
  return `hsl(${part < 0 ? 214 : 12} ${Math.round(75 * Math.min(1, 0.2 + Math.abs(part)))}% ${light.toFixed(1)}%)`;
};
// The value that has the full colour: 99 % of the sampled ones are not larger.
const fullValue = (values) => {
  const sizes = values.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
  return sizes.length === 0 ? 0 : sizes[Math.floor(0.99 * (sizes.length - 1))] || sizes[sizes.length - 1];
};
const toNumber = (value) => (value === null ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : value);
const shownValue = (value) => (Number.isNaN(value) ? "NaN" : Number.isFinite(value) ? number(value) : value > 0 ? "inf" : "-inf");
const heatMap = ([tensor, shape, allRows, allColumns, given]) => {
  const t = tensors[tensor], values = given.map(toNumber);
  const n = Math.min(allRows, 128), m = Math.min(allColumns, 128);
  const spaced = (i, all, count) => Math.floor((2 * i + 1) * all / (2 * count));
  const most = fullValue(values);
  const figure = make("figure"), caption = make("figcaption");
  const link = make("a", t.name || "(empty name)");
  link.href = linkOf(t);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    visit(t);
  });
  caption.append(link, make("span", ` ${t.dtype} ${shape === t.shape ? shape : `${shape} of ${t.shape}`}: `
    + (values.length === 0 ? "no elements" : `${grouped(n)} of ${counted(allRows, "row")}, ${grouped(m)} of ${counted(allColumns, "column")}`
      + `; full colour from ${number(most)} on`)));
  figure.append(caption);
  if (values.length === 0) return { figure, draw: () => {} };
  const frame = make("div", undefined, "frame"), canvas = make("canvas"), mark = make("canvas", undefined, "mark");
  // Squares of a whole number of pixels, as large as the page allows.
  const side = Math.max(1, Math.min(24, Math.floor(Math.min(384, window.innerWidth - 60) / m), Math.floor(384 / n) || 1));
  frame.style.width = m * side + "px";
  canvas.style.height = n * side + "px";
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "slider");
  canvas.setAttribute("aria-label", `Heat map of ${t.name}`);
  mark.setAttribute("aria-hidden", "true");
  frame.append(canvas, mark);
  figure.append(frame);
  const text = (i) => `row ${grouped(spaced(Math.floor(i / m), allRows, n))}, column ${grouped(spaced(i % m, allColumns, m))}: ${shownValue(values[i])}`;
  canvas.addEventListener("mousemove", (event) => {
    const row = Math.floor(event.offsetY / side), column = Math.floor(event.offsetX / side);
    const inside = row >= 0 && row < n && column >= 0 && column < m;
    showTip(event.clientX, event.clientY, inside ? text(row * m + column) : null);
  });
  canvas.addEventListener("mouseleave", () => showTip(0, 0, null));
  const draw = () => {
    const { context } = canvasOf(canvas);
    values.forEach((value, i) => {
      context.fillStyle = heatColour(value, most);
      context.fillRect((i % m) * side, Math.floor(i / m) * side, side, side);
    });
  };
  return {
    figure,
    draw,
    listen: () => keyboard(canvas, {
      count: () => values.length,
      text,
      boxes: (i) => [[(i % m) * side, Math.floor(i / m) * side, side, side]],
      step: (i, key) => {
        const next = key === "ArrowDown" ? i + m : key === "ArrowUp" ? i - m : -1;
        return next >= 0 && next < values.length ? next : key === "ArrowDown" || key === "ArrowUp" ? i : undefined;
      },
    }),
  };
};
const heatMaps = data.maps.map(heatMap);
byId("maps").replaceChildren(...heatMaps.map((map) => map.figure));
byId("values").hidden = heatMaps.length === 0;
byId("values-note").textContent = data.more_maps > 0 ? `${counted(data.more_maps, "more tensor")} of --values left out.` : "";
for (const map of heatMaps) if (map.listen) map.listen();
