// Reads the data of the page, and has the functions that make texts and elements. Text comes from strangers: it only goes into
// textContent and fillText(). embed.cmake joins the files of this folder into one function, in its order.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const tensors = data.tensors.map((t, index) => ({
  index, name: t[0], lower: t[0].toLowerCase(), dtype: data.dtypes[t[1]], lowerDtype: data.dtypes[t[1]].toLowerCase(),
  shape: t[2], bytes: t[3], file: t[4], offset: t[5], start: t[6], stats: t[7],
  parameters: t[3] * 8 / data.bits[t[1]],
}));
const total = data.files.reduce((sum, file) => sum + file.bytes, 0);
const dataBytes = tensors.reduce((sum, t) => sum + t.bytes, 0);
const several = data.files.length > 1;

const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const makeButton = (text, act) => {
  const button = make("button", text);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
};
const groups = new Intl.NumberFormat("en-US");
const grouped = (number) => groups.format(number);
const counted = (number, noun) => grouped(number) + " " + noun + (number === 1 ? "" : "s");
const size = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  for (; bytes >= 1024 && unit < units.length - 1; ++unit) bytes /= 1024;
  return (unit === 0 ? bytes : bytes.toFixed(1)) + " " + units[unit];
};
const number = (value) => {
  if (value === null) return "-";
  if (typeof value === "string") return value;
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return grouped(value);
  const short = Number(value.toPrecision(4));
  return short !== 0 && (Math.abs(short) < 1e-4 || Math.abs(short) >= 1e7) ? short.toExponential() : String(short);
};
const share = (part, whole) => (whole === 0 ? "0.0" : (100 * part / whole).toFixed(1)) + " %";
// Numbers in names compare as numbers: each run of digits gets its length before it.
const naturalKey = (name) => name.replace(/\d+/g, (digits) => {
  const bare = digits.replace(/^0+(?=.)/, "");
  return "0" + String.fromCharCode(bare.length) + bare;
});

// Colours: one hue per dtype, from the largest dtype on.
const byDtype = new Map();
for (const t of tensors) {
  const sum = byDtype.get(t.dtype) || { bytes: 0, count: 0 };
  sum.bytes += t.bytes;
  sum.count += 1;
  byDtype.set(t.dtype, sum);
}
const dtypes = [...byDtype.keys()].sort((a, b) => byDtype.get(b).bytes - byDtype.get(a).bytes);
const hues = [212, 28, 150, 330, 265, 55, 185, 0, 95, 300];
let style = getComputedStyle(document.documentElement);
const variable = (name) => style.getPropertyValue(name).trim();
const colours = new Map();  // of the current style
const colour = (dtype, shift = 0) => {
  const key = dtype + shift;
  if (!colours.has(key)) {
    const hue = hues[dtypes.indexOf(dtype) % hues.length], lightness = parseInt(variable("--lightness"), 10) + shift;
    colours.set(key, `hsl(${hue} ${variable("--saturation")} ${lightness}%)`);
  }
  return colours.get(key);
};

// A canvas in device pixels, drawn in CSS pixels.
const canvasOf = (canvas) => {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
};
const tip = byId("tip");
// Shows a text at a point of the window, or hides it.
const showTip = (x, y, text) => {
  tip.hidden = text === null;
  if (text === null) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 4)) + "px";
  tip.style.top = Math.max(4, y + box.height + 24 > window.innerHeight ? y - box.height - 10 : y + 16) + "px";
};
const described = (t) => `${t.name}\n${t.dtype} ${t.shape}, ${size(t.bytes)}, ${share(t.bytes, dataBytes)}`;

// Makes a canvas usable with the keyboard and a screen reader, as a slider over its items. `map` has:
// count() items, text(i) for people, boxes(i): its rectangles in the canvas, step(i, key): the item that a key leads to, or
// undefined, and enter(i), leave(). The second canvas over the first one marks the item.
const keyboard = (canvas, map) => {
  const mark = canvas.nextElementSibling;
  let at = 0;
  const clear = () => {
    mark.width = mark.width;
    showTip(0, 0, null);
  };
  const show = () => {
    const count = map.count();
    if (count === 0) return clear();
    at = Math.max(0, Math.min(count - 1, at));
    canvas.setAttribute("aria-valuemin", "1");
    canvas.setAttribute("aria-valuemax", String(count));
    canvas.setAttribute("aria-valuenow", String(at + 1));
    canvas.setAttribute("aria-valuetext", map.text(at));
    if (document.activeElement !== canvas || !canvas.matches(":focus-visible")) return clear();
    const { context } = canvasOf(mark);
    context.strokeStyle = variable("--text");
    context.lineWidth = 2;
    const boxes = map.boxes(at);
    for (const [x, y, w, h] of boxes) context.strokeRect(x + 1, y + 1, Math.max(w - 2, 2), Math.max(h - 2, 2));
    const place = canvas.getBoundingClientRect();
    const last = boxes[boxes.length - 1] || [0, 0, 0, 0];
    showTip(place.left + last[0], place.top + last[1] + last[3], map.text(at));
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || map.count() === 0) return;
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: Infinity };
    const own = map.step ? map.step(at, event.key) : undefined;
    if (own !== undefined) at = own;
    else if (event.key in steps) at = steps[event.key];
    else if (event.key === "Enter" && map.enter) at = map.enter(at) ?? at;
    else if ((event.key === "Escape" || event.key === "Backspace") && map.leave) at = map.leave() ?? at;
    else return;
    event.preventDefault();
    show();
  });
  canvas.addEventListener("focus", show);
  canvas.addEventListener("blur", clear);
  show();
  return { show, first: () => { at = 0; show(); } };
};
