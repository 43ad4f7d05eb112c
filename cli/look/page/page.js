"use strict";
// Draws the data of the page. Text comes from strangers: it only goes into textContent and fillText().
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const tensors = data.tensors.map((t, index) => ({
    index, name: t[0], dtype: data.dtypes[t[1]], shape: t[2], bytes: t[3], file: t[4], offset: t[5], start: t[6], stats: t[7],
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
  const grouped = (number) => number.toLocaleString("en-US");
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
  const colour = (dtype, shift = 0) => {
    const hue = hues[dtypes.indexOf(dtype) % hues.length];
    return `hsl(${hue} ${variable("--saturation")} ${parseInt(variable("--lightness"), 10) + shift}%)`;
  };

  // A canvas in device pixels, drawn in CSS pixels.
  const canvasOf = (id) => {
    const canvas = byId(id);
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
  const showTip = (event, text) => {
    tip.hidden = text === null;
    if (text === null) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, window.innerWidth - box.width - 4)) + "px";
    tip.style.top = (event.clientY + box.height + 24 > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 16) + "px";
  };
  const described = (t) => `${t.name}\n${t.dtype} ${t.shape}, ${size(t.bytes)}, ${share(t.bytes, dataBytes)}`;

  // The map: lines of equal length, which the files fill one after the other.
  const headers = data.files.map((file) => ({ begin: file.begin, end: file.begin + file.header }));
  const placed = tensors.filter((t) => t.bytes > 0).sort((a, b) => a.start - b.start);
  const drawMap = () => {
    const { context, width, height } = canvasOf("map");
    const lines = Math.max(1, Math.floor(height / 15));
    const scale = total === 0 ? 0 : lines * width / total;
    const fill = (begin, end, paint, gap) => {
      context.fillStyle = paint;
      const last = end * scale;
      for (let x = begin * scale; x < last;) {
        const line = Math.floor(x / width + 1e-9);
        const stop = Math.min(last, (line + 1) * width);
        const space = gap && stop === last && stop - x > 3 ? 1 : 0;
        context.fillRect(x - line * width, line * 15, Math.max(stop - x - space, 0.25), 13);
        if (stop <= x) break;
        x = stop;
      }
    };
    fill(0, total, variable("--line"), false);
    placed.forEach((t, i) => fill(t.start, t.start + t.bytes, colour(t.dtype, i % 2 === 0 ? 0 : 7), true));
    for (const header of headers) fill(header.begin, header.end, variable("--header"), true);
  };
  const atMap = (event) => {
    const canvas = byId("map");
    const width = canvas.clientWidth, lines = Math.max(1, Math.floor(canvas.clientHeight / 15));
    const byte = (Math.floor(event.offsetY / 15) * width + event.offsetX) * total / (lines * width);
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
    const { tensor, header } = atMap(event);
    if (tensor) return showTip(event, described(tensor));
    if (header === undefined) return showTip(event, null);
    const file = data.files[header];
    showTip(event, `header${several ? " of " + file.name : ""}\n${size(file.header)}`);
  });
  byId("map").addEventListener("click", (event) => {
    const { tensor } = atMap(event);
    if (tensor) search(tensor.name);
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

  // The tree of modules, by the parts of names between dots. A module with one child is joined with it.
  const maxDepth = 16;
  const root = { name: "", bytes: 0, children: new Map() };
  for (const t of tensors) {
    if (t.bytes === 0) continue;
    const parts = t.name.split(".");
    if (parts.length > maxDepth) parts.splice(maxDepth - 1, parts.length, parts.slice(maxDepth - 1).join("."));
    let node = root;
    node.bytes += t.bytes;
    parts.forEach((part, i) => {
      const leaf = i === parts.length - 1;
      const key = (leaf ? "tensor " : "module ") + part;
      if (!node.children.has(key)) node.children.set(key, { name: part, bytes: 0, children: new Map(), tensor: leaf ? t : null });
      node = node.children.get(key);
      node.bytes += t.bytes;
    });
  }
  const finish = (node) => {
    node.list = [...node.children.values()].map(finish).sort((a, b) => b.bytes - a.bytes);
    if (node === root || node.list.length !== 1) return node;
    return { ...node.list[0], name: node.name + "." + node.list[0].name };
  };
  finish(root);

  // Squarified treemap (Bruls, Huizing, van Wijk 2000): rows along the shorter side, with ratios near 1.
  const squarify = (nodes, x, y, width, height, place) => {
    let rest = nodes.reduce((sum, node) => sum + node.bytes, 0);
    let first = 0;
    while (first < nodes.length && rest > 0 && width > 0 && height > 0) {
      const side = Math.min(width, height), area = width * height / rest;
      let sum = 0, worst = Infinity, end = first;
      for (; end < nodes.length; ++end) {
        const next = sum + nodes[end].bytes;
        const thickness = next * area / side;
        const large = nodes[first].bytes * area / thickness, small = nodes[end].bytes * area / thickness;
        const now = Math.max(large / thickness, thickness / small);
        if (now > worst) break;
        worst = now;
        sum = next;
      }
      if (end === first) sum = nodes[end++].bytes;
      const thickness = sum * area / side;
      let along = 0;
      for (let i = first; i < end; ++i) {
        const length = nodes[i].bytes * area / thickness;
        if (width >= height) place(nodes[i], x, y + along, thickness, length);
        else place(nodes[i], x + along, y, length, thickness);
        along += length;
      }
      if (width >= height) { x += thickness; width -= thickness; } else { y += thickness; height -= thickness; }
      rest -= sum;
      first = end;
    }
  };

  let path = [root];
  let tiles = [];
  const drawTree = () => {
    const { context, width, height } = canvasOf("tree");
    tiles = [];
    context.textBaseline = "middle";
    const label = (text, x, y, space, strong) => {
      context.font = (strong ? "600 " : "") + "12px system-ui, sans-serif";
      context.fillStyle = variable("--text");
      if (context.measureText(text).width > space) {
        let keep = Math.floor(text.length * space / context.measureText(text).width) - 1;
        while (keep > 1 && context.measureText(text.slice(0, keep) + "\u2026").width > space) --keep;
        if (keep < 2) return;
        text = text.slice(0, keep) + "\u2026";
      }
      context.fillText(text, x, y);
    };
    const place = (depth, top) => (node, x, y, w, h) => {
      const branch = depth === 0 ? node : top;
      tiles.push({ x, y, w, h, node, branch });
      if (node.tensor) {
        context.fillStyle = colour(node.tensor.dtype, depth % 2 === 0 ? 0 : 5);
        context.fillRect(x, y, Math.max(w - 1, 0.5), Math.max(h - 1, 0.5));
        if (w > 36 && h > 16) label(node.name, x + 5, y + Math.min(h / 2, 12), w - 10, false);
        return;
      }
      context.fillStyle = variable(depth % 2 === 0 ? "--line" : "--hover");
      context.fillRect(x, y, Math.max(w - 1, 0.5), Math.max(h - 1, 0.5));
      const titled = w > 40 && h > 34;
      if (titled) label(`${node.name}  ${size(node.bytes)}`, x + 5, y + 10, w - 10, depth === 0);
      const edge = w > 12 && h > 12 ? 2 : 0;
      const head = titled ? 19 : edge;
      if (w > 3 && h > 3) squarify(node.list, x + edge, y + head, w - 2 * edge - (edge ? 1 : 0), h - head - edge - (edge ? 1 : 0), place(depth + 1, branch));
    };
    squarify(path[path.length - 1].list, 0, 0, width, height, place(0, null));
    byId("crumbs").replaceChildren(...path.flatMap((node, i) => {
      const name = i === 0 ? "all" : node.name;
      if (i === path.length - 1) return [make("span", `${name}, ${size(node.bytes)}`)];
      const button = make("button", name);
      button.type = "button";
      button.addEventListener("click", () => { path = path.slice(0, i + 1); drawTree(); });
      return [button, make("span", " / ")];
    }));
  };
  const atTree = (event) => {
    for (let i = tiles.length - 1; i >= 0; --i) {
      const tile = tiles[i];
      if (event.offsetX >= tile.x && event.offsetX < tile.x + tile.w && event.offsetY >= tile.y && event.offsetY < tile.y + tile.h) return tile;
    }
    return null;
  };
  byId("tree").addEventListener("mousemove", (event) => {
    const tile = atTree(event);
    if (!tile) return showTip(event, null);
    showTip(event, tile.node.tensor ? described(tile.node.tensor) : `${tile.node.name}\n${size(tile.node.bytes)}, ${share(tile.node.bytes, dataBytes)}`);
  });
  byId("tree").addEventListener("click", (event) => {
    const tile = atTree(event);
    if (!tile) return;
    if (tile.branch.tensor) return search(tile.branch.tensor.name);
    path.push(tile.branch);
    showTip(event, null);
    drawTree();
  });
  for (const id of ["map", "tree"]) byId(id).addEventListener("mouseleave", (event) => showTip(event, null));

  // The table. Rows are made 200 at a time.
  const collator = new Intl.Collator("en", { numeric: true });
  const special = (t) => t.stats[5] + t.stats[6];
  const columns = [
    { title: "Name", key: (t) => t.name, name: "name" },
    { title: "Dtype", key: (t) => t.dtype },
    { title: "Shape", key: (t) => t.shape, name: "wide-only" },
    { title: "Size", key: (t) => t.bytes, text: (t) => size(t.bytes), name: "number" },
    { title: "Offset", key: (t) => t.start, text: (t) => grouped(t.offset), name: "number wide-only" },
  ];
  if (several) columns.push({ title: "File", key: (t) => data.files[t.file].name, name: "wide-only" });
  if (data.stats) {
    ["Min", "Max", "Mean", "Std"].forEach((title, i) => columns.push(
      { title, key: (t) => (typeof t.stats[i] === "number" ? t.stats[i] : Infinity), text: (t) => number(t.stats[i]), name: "number" }));
    columns.push({ title: "Zeros", key: (t) => t.stats[4], text: (t) => grouped(t.stats[4]), name: "number wide-only" });
    columns.push({ title: "NaN, Inf", key: special, text: (t) => grouped(special(t)), name: "number", bad: (t) => special(t) > 0 });
  }
  const order = { column: columns[0], down: false };
  let list = [];
  let shown = 0;
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
    const picture = svg("svg", { viewBox: `0 0 ${room} 180`, class: "wide", role: "img", "aria-label": "Histogram", preserveAspectRatio: "xMinYMin" });
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
  const detail = (t) => {
    const row = make("tr", undefined, "detail");
    const cell = make("td");
    cell.colSpan = columns.length;
    const facts = [`${t.dtype} ${t.shape}, ${grouped(t.bytes)} bytes from byte ${grouped(t.offset)}`];
    if (several) facts.push("in " + data.files[t.file].name);
    const box = make("div");
    box.append(make("p", t.name, "whole"), make("p", facts.join(" "), "note"));
    if (data.stats) box.append(histogram(t));
    cell.append(box);
    row.append(cell);
    return row;
  };
  const rowOf = (t) => {
    const row = make("tr");
    for (const column of columns) {
      const cell = make("td", undefined, column.name);
      if (column === columns[0]) {
        const button = make("button");
        if (t.name === "") button.append("(empty name)");
        (t.name.match(/[^.]*\.|[^.]+$/g) || []).forEach((part, i) => button.append(...(i === 0 ? [part] : [make("wbr"), part])));
        button.type = "button";
        button.setAttribute("aria-expanded", "false");
        button.addEventListener("click", () => {
          const open = button.getAttribute("aria-expanded") === "true";
          button.setAttribute("aria-expanded", String(!open));
          if (open) row.nextSibling.remove(); else row.after(detail(t));
        });
        cell.append(button);
      } else {
        cell.textContent = (column.text || column.key)(t);
        if (column.bad && column.bad(t)) cell.classList.add("bad");
      }
      row.append(cell);
    }
    return row;
  };
  const addRows = () => {
    byId("rows").append(...list.slice(shown, shown + 200).map(rowOf));
    shown = Math.min(list.length, shown + 200);
    byId("more").hidden = shown === list.length;
  };
  const update = () => {
    const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    list = tensors.filter((t) => words.every((word) => t.name.toLowerCase().includes(word) || t.dtype.toLowerCase().startsWith(word)));
    const { key } = order.column;
    const sign = order.down ? -1 : 1;
    list.sort((a, b) => {
      const x = key(a), y = key(b);
      return sign * (typeof x === "string" ? collator.compare(x, y) : x - y || 0) || a.index - b.index;
    });
    byId("rows").replaceChildren();
    shown = 0;
    addRows();
    const bytes = list.reduce((sum, t) => sum + t.bytes, 0);
    byId("count").textContent = `${grouped(list.length)} of ${counted(tensors.length, "tensor")}, ${size(bytes)}`;
  };
  const drawHead = () => {
    const row = make("tr");
    for (const column of columns) {
      const cell = make("th", undefined, column.name === "name" ? "" : column.name);
      cell.scope = "col";
      if (column === order.column) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      const button = make("button", column.title);
      button.type = "button";
      button.addEventListener("click", () => {
        order.down = order.column === column ? !order.down : (column.name || "").includes("number");
        order.column = column;
        drawHead();
        update();
      });
      cell.append(button);
      row.append(cell);
    }
    byId("head").replaceChildren(row);
  };
  const search = (text) => {
    byId("search").value = text;
    update();
    byId("search").scrollIntoView({ block: "start", behavior: "smooth" });
  };
  byId("search").addEventListener("input", update);
  byId("more").addEventListener("click", addRows);

  document.title = data.path;
  byId("title").textContent = data.path;
  byId("summary").textContent = [counted(tensors.length, "tensor"), counted(data.parameters, "parameter"), size(total),
    several ? counted(data.files.length, "file") : ""].filter(Boolean).join(" \u00b7 ");
  byId("modules").hidden = dataBytes === 0;
  byId("metadata").hidden = data.metadata.length === 0;
  for (const [key, value] of data.metadata) byId("pairs").append(make("dt", key), make("dd", value));
  const drawAll = () => {
    style = getComputedStyle(document.documentElement);
    drawMap();
    drawLegend();
    if (dataBytes > 0) drawTree();
  };
  drawHead();
  update();
  drawAll();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    drawAll();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
