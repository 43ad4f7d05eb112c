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
const fillFindings = () => {
  const none = data.findings.length === 0;
  const left = data.finding_count - data.findings.length;
  byId("findings-note").textContent = none ? "lint finds nothing in this model."
    : `What lint says about this model.${left > 0 ? ` ${counted(left, "more finding")} left out.` : ""}`;
  for (const [severity, code, file, text, advice] of data.findings) {
    const item = make("li");
    const where = file >= 0 && several ? `file ${file + 1}: ` : "";
    item.append(make("b", severity, severity === "note" ? "" : "bad"), ` ${code}: ${where}${text}`);
    if (severity !== "note") item.append(make("span", ` Advice: ${advice}`));
    byId("finding-list").append(item);
  }
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
const fillConfig = () => {
  const [bytes, text] = data.config;
  byId("config").hidden = bytes === 0;
  byId("config-text").textContent = text;
  byId("config-note").textContent = bytes > 65536 ? `The first 64 KiB of ${size(bytes)}.` : "";
};

const drawAll = () => {
  style = getComputedStyle(document.documentElement);
  colours.clear();
  drawMap();
  drawLegend();
  drawTree();
  for (const map of heatMaps) map.draw();
  mapKeys.show();
  treeKeys.show();
};
fillText();
fillFindings();
fillFiles();
fillConfig();
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
