// Fills the other parts of the page and draws everything. Draws it again if the size or the colours change, and for paper.
const fillText = () => {
  document.title = data.path;
  byId("title").textContent = data.path;
  byId("summary").textContent = [counted(tensors.length, "tensor"), counted(data.parameters, "parameter"), size(total),
    several ? counted(data.files.length, "file") : ""].filter(Boolean).join(" \u00b7 ");
  byId("modules").hidden = tensors.length === 0;
  byId("tree-frame").hidden = dataBytes === 0;
  byId("metadata").hidden = data.metadata.length === 0;
  for (const [key, value] of data.metadata) byId("pairs").append(make("dt", key), make("dd", value));
};
const fillFiles = () => {
  byId("files").hidden = !several;
  if (!several) return;
  const counts = data.files.map(() => 0);
  for (const t of tensors) counts[t.file] += 1;
  byId("file-rows").replaceChildren(...data.files.map((file, i) => {
    const row = make("tr");
    row.append(make("td", String(i + 1), "number"), make("td", file.name, "name"), make("td", grouped(counts[i]), "number"),
      make("td", size(file.bytes), "number"), make("td", size(file.header), "number"));
    return row;
  }));
};
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

const drawAll = () => {
  style = getComputedStyle(document.documentElement);
  colours.clear();
  drawLegend();
  drawTree();
  treeKeys.show();
};
fillText();
fillFiles();
drawHead();
sort();
update();
drawAll();
followAddress();
window.addEventListener("hashchange", followAddress);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  draw();
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  drawAll();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

// On paper the table does not scroll: its first rows are printed, in light colours and in the width of A4.
const print = (now) => {
  if (printing === now) return;
  printing = now;
  document.documentElement.classList.toggle("paper", now);
  byId("printed").textContent = list.length > maxPrinted
    ? `The first ${grouped(maxPrinted)} of ${counted(list.length, "tensor")}. To print others, search for them first.` : "";
  made.clear();
  drawAll();
  draw();
};
window.addEventListener("beforeprint", () => print(true));
window.addEventListener("afterprint", () => print(false));
