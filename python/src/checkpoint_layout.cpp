// Splits a model into files, and saves a model whose tensors are all in memory.
#include <optional>
#include <string>

#include "module.h"
#include "requests.h"
#include "saving.h"
#include "watch.h"

namespace safetensors::python {
namespace {

struct PyCheckpointLayout {
  CheckpointLayout layout;
};

// storages: names to (number, size in bytes) of the storage of a tensor. The number is 0 if no other tensor shares it.
std::vector<CheckpointTensor> to_tensors(std::span<const TensorData> tensors, nb::handle storages) {
  std::vector<CheckpointTensor> result;
  result.reserve(tensors.size());
  for (const TensorData& tensor : tensors) {
    result.push_back({.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape});
    const nb::object storage = nb::cast<nb::dict>(storages).attr("get")(to_str(tensor.name));
    if (storage.is_none()) continue;
    result.back().storage = to_unsigned(storage[0]);
    result.back().storage_bytes = to_unsigned(storage[1]);
  }
  return result;
}

CheckpointLayout make_layout(nb::handle specs, nb::handle storages, nb::handle max_shard_size, nb::handle stem,
                             nb::handle metadata, nb::handle index_metadata) {
  const TensorsToSave tensors(specs);
  CheckpointLayoutOptions options;
  options.max_shard_size = to_count(max_shard_size, "max_shard_size");
  options.stem = from_str(stem, "stem");
  options.metadata = to_metadata(metadata).value_or(MetadataPairs());
  options.index_metadata = from_str(index_metadata, "index_metadata");
  Result<CheckpointLayout> layout = CheckpointLayout::make(to_tensors(tensors.data(), storages), options);
  if (!layout) raise_saving(layout.error());
  return *std::move(layout);
}

// [(name of the file, number of its bytes)], in the order of the files.
nb::object files_of(const PyCheckpointLayout& self) {
  nb::list files;
  for (const CheckpointFile& file : self.layout.files())
    files.append(nb::make_tuple(to_str(file.name), nb::int_(file.header.file_bytes())));
  return files;
}

// The position in files_of() of the file of a tensor.
nb::object file_of(const PyCheckpointLayout& self, nb::handle name) {
  const std::optional<std::string_view> text = to_name(name, "name");
  const std::optional<std::size_t> file = text ? self.layout.file_of(*text) : std::nullopt;
  if (!file) raise_missing("the layout has no tensor " + nb::cast<std::string>(nb::repr(name)), name);
  return nb::int_(*file);
}

void save_checkpoint(nb::object specs, nb::object folder, nb::object layout, nb::kwargs given) {
  const std::string path = to_path(folder, "folder");
  const TensorsToSave tensors(specs);
  const CheckpointLayout planned = to_layout(layout);
  const std::vector<NamedTensor> named(tensors.data().begin(), tensors.data().end());
  const nb::object progress = given["progress"];
  Watch watch(progress);
  CheckpointWriteOptions options = to_checkpoint_options(given);
  options.write.progress = watch.callback();
  Status status;
  {
    const WithoutGil released;
    status = safetensors::save_checkpoint(path, named, planned, options);
  }
  watch.rethrow();
  if (!status) raise_saving(status.error());
}

}  // namespace

const CheckpointLayout& to_layout(nb::handle object) {
  if (!nb::isinstance<PyCheckpointLayout>(object)) raise_not("layout", object, "_CheckpointLayout");
  return nb::cast<const PyCheckpointLayout&>(object).layout;
}

CheckpointWriteOptions to_checkpoint_options(const nb::kwargs& options) {
  CheckpointWriteOptions made{.write = to_write_options(nb::object(options["durability"])),
                              .new_folder = nb::cast<bool>(options["new_folder"]),
                              .remove_old_files = nb::cast<bool>(options["remove_old_files"]),
                              .shared = nb::cast<bool>(options["shared"])};
  if (made.shared) made.write.in_place_if_no_rename = false;  // several processes cannot write in place
  return made;
}

void define_checkpoint_layout(nb::module_& module) {
  nb::class_<PyCheckpointLayout>(module, "_CheckpointLayout", "Which tensors of a model go into which file.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<PyCheckpointLayout> self, nb::object tensors, nb::object storages,
             nb::object max_shard_size, nb::object stem, nb::object metadata, nb::object index_metadata) {
            initialize(self, PyCheckpointLayout{
                                 make_layout(tensors, storages, max_shard_size, stem, metadata, index_metadata)});
          },
          nb::arg("tensors").none(), nb::arg("storages"), nb::arg("max_shard_size").none(), nb::arg("stem").none(),
          nb::arg("metadata").none(), nb::arg("index_metadata").none())
      .def("files", &files_of)
      .def("file_of", &file_of, nb::arg("name").none())
      .def("total_size", [](const PyCheckpointLayout& self) { return self.layout.total_size(); })
      .def("index_name", [](const PyCheckpointLayout& self) { return to_str(self.layout.index_name()); })
      .def("index_text", [](const PyCheckpointLayout& self) { return to_str(self.layout.index_text()); });
  module.def("_save_checkpoint", &save_checkpoint, nb::arg("tensor_dict").none(), nb::arg("folder").none(),
             nb::arg("layout").none(), nb::arg("options"));
}

}  // namespace safetensors::python
