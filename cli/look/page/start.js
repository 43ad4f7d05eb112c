// Fills the other parts of the page.
document.title = data.path;
byId("title").textContent = data.path;
byId("summary").textContent = [counted(tensors.length, "tensor"), counted(root.parameters, "parameter"), size(total),
  several ? counted(data.files.length, "file") : ""].filter(Boolean).join(" \u00b7 ");
byId("modules").hidden = tensors.length === 0;
byId("files").hidden = !several;
byId("metadata").hidden = data.metadata.length === 0;
for (const [key, value] of data.metadata) byId("pairs").append(make("dt", key), make("dd", value));

const counts = data.files.map(() => 0);
for (const t of tensors) counts[t.file] += 1;
data.files.forEach((file, i) => byId("file-rows").append(makeRow([[String(i + 1), "number"], [file.name, "name"],
  [grouped(counts[i]), "number"], [size(file.bytes), "number"], [size(file.header), "number"]])));

const addLegend = (name, bytes, count) => {
  const item = make("li"), swatch = make("i");
  if (byDtype.has(name)) paint(swatch, name);
  item.append(swatch, name + " ", make("span", [size(bytes), share(bytes, total), count].filter(Boolean).join(", ")));
  byId("legend").append(item);
};
for (const d of dtypes) addLegend(d, byDtype.get(d).bytes, counted(byDtype.get(d).count, "tensor"));
addLegend(several ? "headers" : "header", data.files.reduce((sum, file) => sum + file.header, 0), "");

drawModule();
drawHead();
sort();
update();
followAddress();
window.addEventListener("hashchange", followAddress);
