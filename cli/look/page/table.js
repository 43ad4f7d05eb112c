// The table of the tensors. Rows are made as the table is scrolled: a page of 50,000 tensors opens as fast as one of 1,000.
const rowStep = 1000;
const maxTail = 26;  // characters
const columns = [
  { title: "Name", key: (t) => t.name, name: "name" },
  { title: "Dtype", key: (t) => t.dtype },
  { title: "Shape", key: (t) => t.shape, name: "shape wide-only", hint: (t) => t.shape },
  { title: "Size", key: (t) => t.bytes, text: (t) => size(t.bytes), name: "number" },
  { title: "Offset", key: (t) => t.index, text: (t) => grouped(t.offset), name: "number wide-only" },
];
if (several) {
  columns.push({ title: "File", key: (t) => t.file, text: (t) => String(t.file + 1), name: "number wide-only",
    hint: (t) => data.files[t.file].name });
}
if (data.stats) {
  ["Min", "Max", "Mean", "Std"].forEach((title, i) => columns.push({
    title, key: (t) => t.stats[i] ?? Infinity, text: (t) => number(t.stats[i]),
    name: "number " + (i < 2 ? "not-phone" : "wide-only"),
  }));
  columns.push({ title: "Zeros", key: (t) => t.stats[4], text: (t) => grouped(t.stats[4]), name: "number wide-only" });
  columns.push({ title: "NaN, Inf", key: special, text: (t) => grouped(special(t)), name: "number not-phone", bad: (t) => special(t) > 0 });
}

const box = byId("scroll"), rows = byId("rows");
const order = { column: columns[0], down: false };
let sorted = tensors;
let query = parseQuery("");
let list = [];
let first = 0;  // place in the list of the first row that is made
let marked = null;
const opened = new Set();
const made = new Map();  // tensor: its row

const nameButton = (t) => {
  // The end of a name is never cut: it tells tensors apart.
  const least = Math.max(0, t.name.length - maxTail), dot = t.name.indexOf(".", least);
  const cut = dot < 0 || dot > t.name.length - 12 || least === 0 ? least : dot + 1;
  const button = makeButton(undefined, () => {
    if (!opened.delete(t)) opened.add(t);
    button.setAttribute("aria-expanded", String(opened.has(t)));
    if (opened.has(t)) made.get(t).after(detail(t));
    else made.get(t).nextSibling.remove();
  });
  if (t.name === "") button.append("(empty name)");
  else button.append(make("span", t.name.slice(0, cut), "head"), make("span", t.name.slice(cut), "tail"));
  button.title = t.name;
  button.setAttribute("aria-expanded", String(opened.has(t)));
  return button;
};
const rowOf = (t) => {
  const row = makeRow(columns.map(({ key, text, name = "", bad }) => [
    name === "name" ? nameButton(t) : (text || key)(t), bad && bad(t) ? name + " bad" : name]));
  columns.forEach(({ hint }, i) => { if (hint) row.cells[i].title = hint(t); });
  if (t === marked) {
    row.className = "marked";
    row.setAttribute("aria-current", "true");
  }
  return row;
};
// Makes the rows of a part of the list, before or behind those that are made.
const addRows = (begin, end) => {
  const part = document.createDocumentFragment();
  list.slice(begin, end).forEach((t, i) => {
    const row = rowOf(t);
    row.setAttribute("aria-rowindex", String(begin + i + 2));  // the head is row 1
    made.set(t, row);
    part.append(row);
    if (opened.has(t)) part.append(detail(t));
  });
  if (begin < first) rows.prepend(part);
  else rows.append(part);
  first = Math.min(first, begin);
  byId("printed").textContent = made.size === list.length ? ""
    : `${grouped(made.size)} of ${counted(list.length, "tensor")}, from number ${grouped(first + 1)} on. To print others, search for them first.`;
};
// Makes the rows around a place in the list.
const draw = (place) => {
  made.clear();
  rows.replaceChildren();
  box.scrollTop = 0;
  byId("table").setAttribute("aria-rowcount", String(list.length + 1));
  first = place < rowStep ? 0 : place - rowStep / 2;
  addRows(first, first + rowStep);
};

const message = (text) => {
  byId("search-error").hidden = text === "";
  byId("search-error").textContent = text;
};
const update = () => {
  const { error, ...parsed } = parseQuery(byId("search").value);
  byId("search").setAttribute("aria-invalid", String(error !== undefined));
  if (error === undefined) query = parsed;
  const { found, stopped } = runQuery(query, sorted);
  list = found;
  const glob = list.length === 0 && query.globs ? query.globs[0] : undefined;
  message(error ? error : stopped ? `Stopped after a second, at ${grouped(stopped)} of ${counted(tensors.length, "name")}.`
    : glob && !/^\*.*\*$/.test(glob) ? `A pattern is for the whole name: try *${glob}*` : "");
  draw(0);
  const bytes = list.reduce((sum, t) => sum + t.bytes, 0);
  byId("count").textContent = `${grouped(list.length)} of ${counted(tensors.length, "tensor")}, ${size(bytes)}`;
};
// Numbers in names compare as numbers.
const collator = new Intl.Collator("en", { numeric: true });
const sort = () => {
  const { key } = order.column, sign = order.down ? -1 : 1;
  const compare = (x, y) => typeof x === "string" ? collator.compare(x, y) : x - y;
  sorted = [...tensors].sort((a, b) => sign * compare(key(a), key(b)) || a.index - b.index);
};
const drawHead = () => {
  const row = make("tr");
  for (const column of columns) {
    const cell = make("th", undefined, column.name);
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
  marked = t;
  opened.add(t);
  if (!list.includes(t)) {
    byId("search").value = "";
    update();
  }
  draw(list.indexOf(t));
  made.get(t).scrollIntoView({ block: "center" });
  made.get(t).querySelector("button").focus({ preventScroll: true });
};
// Goes to a tensor and names it in the address.
const visit = (t) => {
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
  const names = [...rows.querySelectorAll("td.name button")], at = names.indexOf(document.activeElement);
  if (way === 0 || at < 0) return;
  event.preventDefault();
  if (at + way in names) names[at + way].focus();
});
box.addEventListener("scroll", () => {
  if (box.scrollTop + 2 * box.clientHeight > box.scrollHeight) addRows(first + made.size, first + made.size + rowStep);
  if (first === 0 || box.scrollTop > box.clientHeight) return;
  const height = box.scrollHeight;
  addRows(Math.max(0, first - rowStep), first);
  box.scrollTop += box.scrollHeight - height;
});
