// The tree of modules, by the parts of names between dots: a treemap, and a table of one module with parameters. A
// module with one child is joined with it.
const maxDepth = 16, maxModuleRows = 100;
const newNode = (name, tensor) => ({ name, bytes: 0, parameters: 0, count: 0, children: new Map(), tensor });
const root = newNode("", null);
const addTo = (node, t) => {
  node.bytes += t.bytes;
  node.parameters += t.parameters;
  node.count += 1;
};
for (const t of tensors) {
  const parts = t.name.split(".");
  if (parts.length > maxDepth) parts.splice(maxDepth - 1, parts.length, parts.slice(maxDepth - 1).join("."));
  let node = root;
  addTo(node, t);
  parts.forEach((part, i) => {
    const leaf = i === parts.length - 1;
    const key = (leaf ? "tensor " : "module ") + part;
    if (!node.children.has(key)) node.children.set(key, newNode(part, leaf ? t : null));
    node = node.children.get(key);
    addTo(node, t);
  });
}
const finish = (node) => {
  node.list = [...node.children.values()].map(finish).sort((a, b) => b.bytes - a.bytes);
  if (node === root || node.list.length !== 1) return node;
  return { ...node.list[0], name: node.name + "." + node.list[0].name };
};
finish(root);

// Squarified treemap (Bruls, Huizing, van Wijk 2000): rows along the shorter side, with ratios near 1.
const squarify = (list, x, y, width, height, place) => {
  const nodes = list.filter((node) => node.bytes > 0);
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
const moduleText = (node) => node.tensor ? described(node.tensor)
  : `${node.name}\n${counted(node.parameters, "parameter")}, ${size(node.bytes)}, ${share(node.bytes, dataBytes)}`;
const drawTiles = () => {
  const { context, width, height } = canvasOf(byId("tree"));
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
    tiles.push({ x, y, w, h, node, branch, depth });
    context.fillStyle = node.tensor ? colour(node.tensor.dtype, depth % 2 === 0 ? 0 : 5)
      : variable(depth % 2 === 0 ? "--line" : "--hover");
    context.fillRect(x, y, Math.max(w - 1, 0.5), Math.max(h - 1, 0.5));
    if (node.tensor) {
      if (w > 36 && h > 16) label(node.name, x + 5, y + Math.min(h / 2, 12), w - 10, false);
      return;
    }
    const titled = w > 40 && h > 34;
    if (titled) label(`${node.name}  ${size(node.bytes)}`, x + 5, y + 10, w - 10, depth === 0);
    const edge = w > 12 && h > 12 ? 2 : 0;
    const head = titled ? 19 : edge;
    if (w > 3 && h > 3) {
      squarify(node.list, x + edge, y + head, w - 2 * edge - (edge ? 1 : 0), h - head - edge - (edge ? 1 : 0),
        place(depth + 1, branch));
    }
  };
  squarify(path[path.length - 1].list, 0, 0, width, height, place(0, null));
};
const drawCrumbs = () => {
  byId("crumbs").replaceChildren(...path.flatMap((node, i) => {
    const name = i === 0 ? "all" : node.name;
    if (i === path.length - 1) return [make("span", `${name}, ${counted(node.parameters, "parameter")}, ${size(node.bytes)}`)];
    return [makeButton(name, () => { path = path.slice(0, i + 1); drawTree(); }), make("span", " / ")];
  }));
};
const drawModuleRows = (all) => {
  const node = path[path.length - 1];
  const rows = node.list.slice(0, all ? Infinity : maxModuleRows).map((child) => {
    const row = make("tr"), name = make("td", undefined, "name");
    name.append(makeButton(child.name || "(empty name)", () => open(child)));
    row.append(name, make("td", child.tensor ? "" : grouped(child.count), "number"), make("td", grouped(child.parameters), "number"),
      make("td", size(child.bytes), "number"), make("td", share(child.bytes, dataBytes), "number not-phone"));
    return row;
  });
  byId("module-rows").replaceChildren(...rows);
  byId("module-rest").hidden = rows.length === node.list.length;
  byId("module-rest").firstChild.textContent = `The largest ${grouped(rows.length)} of ${grouped(node.list.length)}.`;
  byId("more-modules").textContent = `Show all ${grouped(node.list.length)}`;
};
byId("more-modules").addEventListener("click", () => drawModuleRows(true));
const drawTree = () => {
  if (dataBytes > 0) drawTiles();
  drawCrumbs();
  drawModuleRows(false);
};
// Goes into a module, or to a tensor.
const open = (node) => {
  if (node.tensor) return visit(node.tensor);
  path.push(node);
  showTip(0, 0, null);
  drawTree();
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
  showTip(event.clientX, event.clientY, tile ? moduleText(tile.node) : null);
});
byId("tree").addEventListener("click", (event) => {
  const tile = atTree(event);
  if (tile) open(tile.branch);
});
byId("tree").addEventListener("mouseleave", () => showTip(0, 0, null));
const topTiles = () => tiles.filter((tile) => tile.depth === 0);
const treeKeys = keyboard(byId("tree"), {
  count: () => topTiles().length,
  text: (i) => moduleText(topTiles()[i].node),
  boxes: (i) => [[topTiles()[i].x, topTiles()[i].y, topTiles()[i].w, topTiles()[i].h]],
  enter: (i) => {
    const { node } = topTiles()[i];
    open(node);
    return node.tensor ? i : 0;
  },
  leave: () => {
    if (path.length === 1) return undefined;
    const left = path.pop();
    drawTree();
    return Math.max(0, topTiles().findIndex((tile) => tile.node === left));
  },
});
