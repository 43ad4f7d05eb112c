// The table of the tensors. Only the rows in its window and a few around them exist: 50,000 tensors scroll like 50.
// All rows have one height. Rows that are opened have a second row below, whose height is measured.
const maxRows = 500000;  // browsers limit the height of a page
const maxPrinted = 1000;
const maxTail = 26;  // characters
const columns = [
  { title: "Name", key: (t) => t.sortName, name: "name", width: 0 },
  { title: "Dtype", key: (t) => t.dtype, width: 6 },
  { title: "Shape", key: (t) => t.shape, name: "shape wide-only", width: 8 },
  { title: "Size", key: (t) => t.bytes, text: (t) => size(t.bytes), name: "number", width: 10 },
  { title: "Offset", key: (t) => t.start, text: (t) => grouped(t.offset), name: "number wide-only", width: 7 },
];
if (several) columns.push({ title: "File", key: (t) => t.file, text: (t) => String(t.file + 1), name: "number wide-only", width: 5 });
if (data.stats) {
  ["Min", "Max", "Mean", "Std"].forEach((title, i) => columns.push({
    title, key: (t) => (typeof t.stats[i] === "number" ? t.stats[i] : Infinity), text: (t) => number(t.stats[i]),
    name: "number " + (i < 2 ? "not-phone" : "wide-only"), width: 9.5,
  }));
  columns.push({ title: "Zeros", key: (t) => t.stats[4], text: (t) => grouped(t.stats[4]), name: "number wide-only", width: 7 });
  columns.push({ title: "NaN, Inf", key: special, text: (t) => grouped(special(t)), name: "number not-phone", bad: (t) => special(t) > 0, width: 8 });
}
for (const t of tensors) t.sortName = naturalKey(t.name);
// The widths follow the data, so that they do not change while rows come and go.
for (const [title, text] of [["Dtype", (t) => t.dtype], ["Shape", (t) => t.shape]]) {
  const column = columns.find((one) => one.title === title);
  column.width = Math.min(18, tensors.reduce((most, t) => Math.max(most, text(t).length + 0.5), column.width));
}
for (const column of columns.filter((one) => one.title === "Offset" || one.title === "Zeros")) {
  const largest = tensors.reduce((most, t) => Math.max(most, column.title === "Offset" ? t.offset : t.stats[4]), 0);
  column.width = Math.max(column.width, grouped(largest).length + 0.5);
}
byId("columns").replaceChildren(...columns.map((column) => {
  const element = make("col", undefined, column.name);
  if (column.width > 0) element.style.width = `calc(${column.width}ch + 14px)`;
  return element;
}));

const box = byId("scroll"), rows = byId("rows");
const order = { column: columns[0], down: false };
let sorted = tensors;
let list = [];
let placeIn = new Int32Array(0);  // the position in `list` per tensor, or -1
let rowHeight = 30;
let printing = false;
let marked = null;
const opened = new Map();  // tensor: the height of its detail
const made = new Map();  // tensor: { row, detail }

const nameCell = (t) => {
  const cell = make("td", undefined, "name");
  // The end of a name is never cut: it tells tensors apart.
  const least = Math.max(0, t.name.length - maxTail), dot = t.name.indexOf(".", least);
  const cut = dot < 0 || dot > t.name.length - 12 || least === 0 ? least : dot + 1;
  const button = makeButton(undefined, () => toggle(t));
  if (t.name === "") button.append("(empty name)");
  else button.append(make("span", t.name.slice(0, cut), "head"), make("span", t.name.slice(cut), "tail"));
  button.title = t.name;
  button.setAttribute("aria-expanded", String(opened.has(t)));
  cell.append(button);
  return cell;
};
const rowOf = (t) => {
  const row = make("tr");
  for (const column of columns) {
    if (column === columns[0]) {
      row.append(nameCell(t));
      continue;
    }
    const cell = make("td", (column.text || column.key)(t), column.name);
    if (column.bad && column.bad(t)) cell.classList.add("bad");
    if (column.title === "Shape") cell.title = t.shape;
    if (column.title === "File") cell.title = data.files[t.file].name;
    row.append(cell);
  }
  if (t === marked) {
    row.classList.add("marked");
    row.setAttribute("aria-current", "true");
  }
  return row;
};
const openedHere = () => [...opened.keys()].filter((t) => placeIn[t.index] >= 0)
  .sort((a, b) => placeIn[a.index] - placeIn[b.index]);
// The distance of a row from the top of the rows, in pixels.
const topOf = (place) => place * rowHeight
  + openedHere().reduce((sum, t) => sum + (placeIn[t.index] < place ? opened.get(t) : 0), 0);
// The row at a distance from the top.
const placeAt = (y) => {
  let extra = 0;
  for (const t of openedHere()) {
    const end = (placeIn[t.index] + 1) * rowHeight + extra;
    if (y < end) break;
    if (y < end + opened.get(t)) return placeIn[t.index];
    extra += opened.get(t);
  }
  return Math.floor((y - extra) / rowHeight);
};
const shownCount = () => Math.min(list.length, printing ? maxPrinted : maxRows);
const around = 8;  // rows above and below the window
const render = () => {
  const count = shownCount();
  const first = printing ? 0 : Math.max(0, Math.min(placeAt(box.scrollTop), count) - around);
  const last = printing ? count : Math.min(count, placeAt(box.scrollTop + box.clientHeight) + 1 + around);
  const wanted = [];
  const heads = [...byId("head").querySelectorAll("th")];
  const span = heads.filter((cell) => printing || cell.offsetWidth > 0).length;
  for (const t of list.slice(first, last)) {
    if (!made.has(t)) made.set(t, { row: rowOf(t), detail: null });
    const one = made.get(t);
    one.row.setAttribute("aria-rowindex", String(placeIn[t.index] + 2));
    wanted.push(one.row);
    if (!opened.has(t)) continue;
    one.detail = one.detail || detail(t);
    one.detail.firstChild.colSpan = span;
    wanted.push(one.detail);
  }
  const focused = rows.contains(document.activeElement);
  const keep = new Set(wanted);
  for (const child of [...rows.children]) if (!keep.has(child)) child.remove();
  let at = rows.firstChild;
  for (const node of wanted) {
    if (node === at) at = at.nextSibling;
    else rows.insertBefore(node, at);
  }
  for (const [t, one] of made) if (!keep.has(one.row)) made.delete(t);
  if (focused && !rows.contains(document.activeElement)) box.focus({ preventScroll: true });
  const end = topOf(count) - topOf(last);
  byId("above").style.height = (printing ? 0 : topOf(first)) + "px";
  byId("below").style.height = (printing ? 0 : end) + "px";
  byId("table").setAttribute("aria-rowcount", String(list.length + 1));
  return measure();
};
// Learns the heights of rows and details. Returns whether one was wrong.
const measure = () => {
  let wrong = false;
  const heightOf = (element) => element.getBoundingClientRect().height;
  for (const [t, one] of made) {
    if (printing) break;
    const height = heightOf(one.row);
    if (height > 0 && Math.abs(height - rowHeight) > 0.01) [rowHeight, wrong] = [height, true];
    if (!opened.has(t) || !one.detail || !one.detail.isConnected) continue;
    if (heightOf(one.detail) !== opened.get(t)) wrong = true;
    opened.set(t, heightOf(one.detail));
  }
  return wrong;
};
const draw = () => {
  for (let tries = 0; tries < 4; ++tries) {
    const height = box.clientHeight;  // it grows with the rows
    if (!render() && box.clientHeight === height) return;
  }
};

const toggle = (t) => {
  if (!opened.delete(t)) opened.set(t, 300);
  const one = made.get(t);
  if (one) {
    one.detail = null;
    one.row.querySelector("button").setAttribute("aria-expanded", String(opened.has(t)));
  }
  draw();
};
const message = (text) => {
  byId("search-error").hidden = text === "";
  byId("search-error").textContent = text;
};
const update = () => {
  const query = parseQuery(byId("search").value);
  byId("search").setAttribute("aria-invalid", String(query.error !== undefined));
  if (query.error) return message(query.error);
  const { found, stopped } = runQuery(query, sorted);
  list = found;
  message(stopped ? `Stopped after a second, at ${grouped(stopped)} of ${counted(tensors.length, "name")}.`
    : list.length === 0 && query.globs && query.globs.length > 0 ? `A pattern is for the whole name: try *${query.globs[0]}*` : "");
  placeIn = new Int32Array(tensors.length).fill(-1);
  list.forEach((t, place) => { placeIn[t.index] = place; });
  box.scrollTop = 0;
  draw();
  const bytes = list.reduce((sum, t) => sum + t.bytes, 0);
  byId("count").textContent = `${grouped(list.length)} of ${counted(tensors.length, "tensor")}, ${size(bytes)}`
    + (list.length > maxRows ? `; the first ${grouped(maxRows)} are shown` : "");
};
const sort = () => {
  const { key } = order.column, sign = order.down ? -1 : 1;
  sorted = [...tensors].sort((a, b) => {
    const x = key(a), y = key(b);
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a.index - b.index;
  });
};
const drawHead = () => {
  const row = make("tr");
  for (const column of columns) {
    const cell = make("th", undefined, column.name === "name" ? "" : column.name);
    cell.scope = "col";
    if (column === order.column) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    cell.append(makeButton(column.title, () => {
      order.down = order.column === column ? !order.down : (column.name || "").includes("number");
      order.column = column;
      drawHead();
      byId("head").querySelectorAll("button")[columns.indexOf(column)].focus();
      sort();
      update();
    }));
    row.append(cell);
  }
  byId("head").replaceChildren(row);
};

// Opens a tensor, marks its row, and scrolls to it.
const reveal = (t) => {
  const before = marked;
  marked = t;
  for (const one of [before, t]) if (one) made.delete(one);
  if (placeIn[t.index] < 0 || placeIn[t.index] >= shownCount()) {
    byId("search").value = placeIn[t.index] < 0 ? "" : "/^" + t.name.replace(/[^\w\s]/g, "\\$&") + "$/";
    update();
  }
  if (!opened.has(t)) opened.set(t, 300);
  const go = () => { box.scrollTop = Math.max(0, topOf(placeIn[t.index]) - 2 * rowHeight); };
  draw();
  go();
  draw();
  go();
  byId("tensors").scrollIntoView({ block: "start" });
  const one = made.get(t);
  if (one) one.row.querySelector("button").focus({ preventScroll: true });
};
// Goes to a tensor and names it in the address.
const visit = (t) => {
  showTip(0, 0, null);
  reveal(t);
  if (t.name !== "" && location.hash !== linkOf(t)) location.hash = linkOf(t);
};
// The name in the address, as the page shows it or as it is in the file.
const followAddress = () => {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* not encoded */ }
  if (name === "") return;
  const escaped = name.replace(/\\/g, "\\\\")
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  const found = tensors.find((t) => t.name === name) || tensors.find((t) => t.name === escaped);
  if (found) reveal(found);
};

byId("search").addEventListener("input", update);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && rows.querySelector("button")) {
    event.preventDefault();
    rows.querySelector("button").focus();
  }
  if (event.key !== "Escape") return;
  byId("search").value = "";
  update();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || document.activeElement === byId("search")) return;
  event.preventDefault();
  byId("search").focus();
  byId("search").select();
});
// The arrow keys go from name to name.
rows.addEventListener("keydown", (event) => {
  const way = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const at = [...made].find(([, one]) => one.row.contains(document.activeElement));
  if (way === 0 || !at) return;
  const place = placeIn[at[0].index] + way;
  event.preventDefault();
  if (place < 0 || place >= shownCount()) return;
  const top = topOf(place);
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + 3 * rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + 3 * rowHeight - box.clientHeight;
  draw();
  const next = made.get(list[place]);
  if (next) next.row.querySelector("button").focus({ preventScroll: true });
});
box.addEventListener("scroll", draw);
