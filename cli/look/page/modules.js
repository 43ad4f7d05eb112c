// The tree of modules, by the parts of names between dots: a map of one module, and a table of it with parameters. A module
// with one child is joined with it.
const maxDepth = 16, fewRows = 100, moreRows = 1000;
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

let path = [root];
const nameOf = (node) => node === root ? "all" : node.name || "(empty name)";
// A label that begins with a name. The name may be written from right to left, the rest is not.
const makeLabel = (name, rest) => {
  const label = make("span");
  label.append(make("bdi", name), rest);
  return label;
};
const moduleText = ({ name, tensor, parameters, bytes }) => (tensor
  ? `${tensor.name}\n${tensor.dtype} ${tensor.shape}, ` : `${name || "(empty name)"}\n${counted(parameters, "parameter")}, `)
  + `${size(bytes)}, ${share(bytes, dataBytes)}`;
// The map of a list of modules with bytes: it is cut into two parts of nearly equal sizes, along its longer side, until a part
// is one module. Areas are sizes. Parts that are too small to see stay together. ratio: width / height.
const minPart = 1 / 2000, minModule = 1 / 300;  // of the map
const drawPart = (list, bytes, ratio, depth) => {
  const whole = path[path.length - 1].bytes;
  if (list.length === 1) return drawTile(list[0], bytes / whole, ratio, depth);
  if (bytes < minPart * whole) {
    const tile = make("div", undefined, "tile");
    tile.title = `${counted(list.length, "module")}, ${size(bytes)}`;
    return tile;
  }
  let end = 1, sum = list[0].bytes;
  while (2 * (sum + list[end].bytes) <= bytes) sum += list[end++].bytes;
  const wide = ratio > 1, part = make("div", undefined, wide ? "part wide" : "part");
  for (const [some, size] of [[list.slice(0, end), sum], [list.slice(end), bytes - sum]]) {
    const inside = drawPart(some, size, wide ? ratio * size / bytes : ratio * bytes / size, depth);
    inside.style.flexGrow = size / bytes;
    part.append(inside);
  }
  return part;
};
const drawMap = (node, ratio, depth) => drawPart(node.list.filter((child) => child.bytes > 0), node.bytes, ratio, depth);
const drawTile = (node, area, ratio, depth) => {
  const tile = make("div", undefined, depth % 2 === 0 ? "tile" : "tile odd");
  tile.title = moduleText(node);
  tile.append(makeLabel(nameOf(node), node.tensor ? "" : `  ${size(node.bytes)}`));
  if (node.tensor) paint(tile, node.tensor.dtype);
  else if (area > minModule) tile.append(drawMap(node, ratio, depth + 1));
  if (depth === 0) tile.addEventListener("click", () => open(node));
  return tile;
};
const drawCrumbs = () => {
  byId("crumbs").replaceChildren(...path.flatMap((node, i) => {
    if (i === path.length - 1) return [makeLabel(nameOf(node), `, ${counted(node.parameters, "parameter")}, ${size(node.bytes)}`)];
    return [makeButton(nameOf(node), () => { path = path.slice(0, i + 1); drawModule(); }), make("span", " / ")];
  }));
};
const drawModuleRows = (count) => {
  const node = path[path.length - 1];
  const rows = node.list.slice(0, count).map((child) => makeRow([
    [makeButton(nameOf(child), () => open(child)), "name"],
    [child.tensor ? "" : grouped(child.count), "number"], [grouped(child.parameters), "number"], [size(child.bytes), "number"],
    [share(child.bytes, dataBytes), "number not-phone"]]));
  byId("module-rows").replaceChildren(...rows);
  byId("module-rest").hidden = rows.length === node.list.length;
  byId("module-rest").firstChild.textContent = `The largest ${grouped(rows.length)} of ${grouped(node.list.length)}.`;
  byId("more-modules").textContent = `Show ${grouped(Math.min(moreRows, node.list.length - rows.length))} more`;
};
byId("more-modules").addEventListener("click", () => drawModuleRows(byId("module-rows").children.length + moreRows));
const drawModule = () => {
  const node = path[path.length - 1], tree = byId("tree");
  tree.hidden = node.bytes === 0;
  if (!tree.hidden) tree.replaceChildren(drawMap(node, tree.clientWidth / tree.clientHeight, 0));
  drawCrumbs();
  drawModuleRows(fewRows);
};
// Goes into a module, or to a tensor.
const open = (node) => {
  if (node.tensor) return visit(node.tensor);
  path.push(node);
  drawModule();
};
