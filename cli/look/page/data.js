// Reads the data of the page, and has the functions that make texts and elements. Text comes from strangers: it only goes into
// text nodes, titles and labels. embed.cmake joins the files of this folder into one function, in its order.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const tensors = data.tensors.map((t, index) => ({
  index, name: t[0], lower: t[0].toLowerCase(), dtype: t[1], lowerDtype: t[1].toLowerCase(), shape: t[2], bytes: t[3],
  parameters: t[4], file: t[5], offset: t[6], stats: t[7],
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
// A row of a table. Each cell is a text or an element, and a class.
const makeRow = (cells) => {
  const row = make("tr");
  for (const [content, name] of cells) {
    const cell = make("td", undefined, name);
    cell.append(content);
    row.append(cell);
  }
  return row;
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
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return grouped(value);
  const short = Number(value.toPrecision(4));
  return short !== 0 && (Math.abs(short) < 1e-4 || Math.abs(short) >= 1e7) ? short.toExponential() : String(short);
};
const share = (part, whole) => (whole === 0 ? "0.0" : (100 * part / whole).toFixed(1)) + " %";

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
const paint = (element, dtype) => {
  element.classList.add("dtype");
  element.style.setProperty("--hue", hues[dtypes.indexOf(dtype) % hues.length]);
};
