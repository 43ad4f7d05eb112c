// The functions serialize, serialize_file and deserialize. They check the arguments and hold the
// objects that own the bytes. Then they release the GIL and copy or write.
#include <cstring>
#include <optional>
#include <string>

#include "module.h"
#include "saving.h"
#include "watch.h"

namespace safetensors::python {
namespace {

constexpr const char* kLoading = "Error while deserializing: ";

nb::object serialize(nb::handle tensor_dict, nb::handle metadata) {
  const TensorsToSave tensors(tensor_dict);
  const Result<Header> header = layout(tensors.data(), to_metadata(metadata));
  if (!header) raise_saving(header.error());
  const Result<std::string> text = header->text();
  if (!text) raise_saving(text.error());
  const std::uint64_t start = 8 + text->size();
  const std::uint64_t limit = static_cast<std::uint64_t>(PY_SSIZE_T_MAX) - start;
  if (header->data_bytes() > limit) PyErr_NoMemory(), throw nb::python_error();
  nb::object result = own(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(start + header->data_bytes())));
  char* const out = PyBytes_AsString(result.ptr());

  const WithoutGil released;
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(text->size() >> (8 * i) & 0xFF);
  std::memcpy(out + 8, text->data(), text->size());
  for (const TensorData& tensor : tensors.data()) {
    if (!tensor.bytes.empty())
      std::memcpy(out + start + header->find(tensor.name)->begin, tensor.bytes.data(), tensor.bytes.size());
  }
  return result;
}

void serialize_file(nb::handle tensor_dict, nb::handle filename, nb::handle metadata, nb::handle durability,
                    nb::handle progress) {
  const std::string path = to_path(filename);
  const TensorsToSave tensors(tensor_dict);
  const std::optional<MetadataPairs> pairs = to_metadata(metadata);
  WriteOptions options = to_write_options(durability);
  Watch watch(progress);
  options.progress = watch.callback();
  Status status;
  {
    const WithoutGil released;
    status = save(path, tensors.data(), pairs, options);
  }
  watch.rethrow();
  if (!status) raise_saving(status.error());
}

nb::object deserialize(nb::handle buffer) {
  const Buffer held(buffer);
  const Result<File> file =
      open_watched([&](const ParseOptions& parse) { return File::from_memory(held.bytes(), nullptr, parse); });
  if (!file) raise_read_error(file.error(), kLoading, "");
  nb::list result;
  for (const TensorInfo& tensor : file->header().tensors()) {
    check_signals(result.size());
    nb::dict info;
    info["shape"] = to_list(tensor.shape);
    info["dtype"] = to_str(to_string(tensor.dtype));
    const std::span<std::byte> bytes =
        held.bytes().subspan(static_cast<std::size_t>(tensor.file_offset), static_cast<std::size_t>(tensor.nbytes()));
    info["data"] = own(PyByteArray_FromStringAndSize(reinterpret_cast<const char*>(bytes.data()),
                                                     static_cast<Py_ssize_t>(bytes.size())));
    result.append(nb::make_tuple(to_str(tensor.name), info));
  }
  return result;
}

}  // namespace

std::optional<MetadataPairs> to_metadata(nb::handle metadata) {
  if (metadata.is_none()) return std::nullopt;
  if (!PyDict_Check(metadata.ptr())) raise_not("metadata", metadata, "dict");
  MetadataPairs pairs;
  for (const auto& [key, value] : dict_items(metadata)) {
    const std::string_view name = from_str(key, "metadata");
    if (!PyUnicode_Check(value.ptr()))
      raise_type_error("argument 'metadata': '" + name_of_type(value) + "' object is not an instance of 'str' (key `" +
                       printable(name) + "`)");
    pairs.emplace_back(name, from_str(value, "metadata"));
  }
  return pairs;
}

void raise_saving(const Error& error) {
  if (error.code == Errc::out_of_memory) PyErr_NoMemory(), throw nb::python_error();
  std::string text = kSaving + error.message;
  if (!error.path.empty()) text += ": \"" + printable(error.path) + "\"";
  raise(text, &error);
}

WriteOptions to_write_options(nb::handle durability) {
  return {.durability = to_durability(durability),
          .in_place_if_no_rename = in_place_if_no_rename(),
          .replace_symlinks = true};
}

bool in_place_if_no_rename() {
  constexpr const char* kVariable = "SAFETENSORS_IN_PLACE_IF_NO_RENAME";
  const nb::object given = import_module("os").attr("environ").attr("get")(kVariable, "");
  const std::string_view text = from_str(given, kVariable);
  if (text.empty() || text == "0") return false;
  if (text == "1") return true;
  raise(std::string("environment variable ") + kVariable + " is \"" + printable(text) + "\", expected \"0\" or \"1\"");
}

Durability to_durability(nb::handle name) {
  constexpr std::pair<const char*, Durability> kWords[] = {
      {"full", Durability::full}, {"file", Durability::file}, {"none", Durability::none}};
  return parse_word("durability", from_str(name, "durability"), kWords);
}

void define_serialize(nb::module_& module) {
  // The package documents them (_functions.py). progress: a function that gets the bytes written and those of the file,
  // or None.
  module.def("serialize", &serialize, nb::arg("tensor_dict").none(), nb::arg("metadata") = nb::none());
  module.def("serialize_file", &serialize_file, nb::arg("tensor_dict").none(), nb::arg("filename").none(),
             nb::arg("metadata") = nb::none(), nb::kw_only(), nb::arg("durability").none() = "full",
             nb::arg("progress").none() = nb::none());
  module.def("deserialize", &deserialize, nb::arg("bytes").none());
}

}  // namespace safetensors::python
