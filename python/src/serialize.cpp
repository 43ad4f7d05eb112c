// The functions serialize, serialize_file, _serialize_stream and deserialize. They check the arguments and hold the
// objects that own the bytes. Then they release the GIL and copy or write.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "module.h"
#include "requests.h"
#include "saving.h"
#include "tensor_spec.h"

namespace safetensors::python {
namespace {

constexpr const char* kSaving = "Error while serializing: ";
constexpr const char* kLoading = "Error while deserializing: ";

[[noreturn]] void raise_not(const char* argument, nb::handle object, const char* wanted) {
  raise_type_error("argument '" + std::string(argument) + "': '" + name_of_type(object) +
                   "' object is not an instance of '" + wanted + "'");
}

// The tensors of a dict, and the objects that own their bytes and names.
class Tensors {
 public:
  explicit Tensors(nb::handle dict) {
    if (!PyDict_Check(dict.ptr())) raise_not("tensor_dict", dict, "dict");
    items_ = dict_items(dict);
    data_.reserve(items_.size());
    specs_.reserve(items_.size());
    for (const auto& [name, value] : items_) {
      check_signals(data_.size());
      add(from_str(name, "tensor_dict"), value);
    }
  }
  [[nodiscard]] std::span<const TensorData> data() const noexcept { return data_; }

 private:
  void add(std::string_view name, nb::handle value) {
    const TensorSpec* spec = nullptr;
    if (PyDict_Check(value.ptr())) {
      specs_.push_back(from_dict(name, value));
      spec = &specs_.back();
    } else {
      spec = &to_spec(value, "tensor_dict");
    }
    if (spec->data == 0 && spec->size != 0)
      raise(std::string(kSaving) + "tensor `" + printable(name) + "` has " + std::to_string(spec->size) +
            " bytes at a null data_ptr");
    const auto* const bytes = reinterpret_cast<const std::byte*>(spec->data);
    data_.push_back({name, spec->dtype, spec->shape, {bytes, spec->size}});
  }

  // value: {"dtype", "shape", "data": buffer}, the form of releases before 0.8. Works on a copy: the `__eq__` of its
  // keys and the `__index__` of its dimensions run here and may change the dict.
  TensorSpec from_dict(std::string_view name, nb::handle value) {
    const nb::object copy = own(PyDict_Copy(value.ptr()));
    const nb::object data = find_item(copy, "data");
    if (!data.is_valid()) raise_not("tensor_dict", value, "TensorSpec");
    const nb::object dtype = find_item(copy, "dtype");
    const nb::object shape = find_item(copy, "shape");
    if (!dtype.is_valid()) raise(std::string(kSaving) + "missing `dtype`");
    if (!shape.is_valid()) raise(std::string(kSaving) + "missing `shape`");
    buffers_.emplace_back(data, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT);
    const Buffer& buffer = buffers_.back();
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.bytes().data());
    TensorSpec spec = make_spec(from_str(dtype, "dtype"), shape, address, buffer.bytes().size());
    check_elements(name, spec.dtype, buffer);
    return spec;
  }

  std::vector<std::pair<nb::object, nb::object>> items_;  // own the names and TensorSpecs that data_ refers to
  std::vector<Buffer> buffers_;
  std::vector<TensorSpec> specs_;  // reserved: elements never move
  std::vector<TensorData> data_;
};

nb::object serialize(nb::handle tensor_dict, nb::handle metadata) {
  const Tensors tensors(tensor_dict);
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

// A symlink at the path is replaced, as in the reference: the file behind it may be a blob that other links share.
WriteOptions to_write_options(nb::handle durability) {
  return {.durability = to_durability(durability), .replace_symlinks = true};
}

void serialize_file(nb::handle tensor_dict, nb::handle filename, nb::handle metadata, nb::handle durability) {
  const std::string path = to_path(filename);
  const Tensors tensors(tensor_dict);
  const std::optional<MetadataPairs> pairs = to_metadata(metadata);
  WriteOptions options = to_write_options(durability);
  bool stopped = false;
  options.progress = [&stopped](std::uint64_t, std::uint64_t) { return !(stopped = interrupted()); };
  Status status;
  {
    const WithoutGil released;
    status = write_file(path, tensors.data(), pairs, options);
  }
  if (stopped) throw nb::python_error();
  if (!status) raise_saving(status.error());
}

Result<Header> lay_out(const Tensors& tensors, const std::optional<MetadataPairs>& metadata) {
  HeaderBuilder builder;
  for (const TensorData& tensor : tensors.data()) {
    if (Status status = builder.add(tensor.name, tensor.dtype, tensor.shape); !status) return std::move(status).error();
  }
  if (metadata) {
    if (Status status = builder.metadata_present(); !status) return std::move(status).error();
    for (const auto& [key, value] : *metadata) {
      if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
    }
  }
  return builder.build();
}

// Writes a tensor whose bytes come from fetch(name): (data_ptr, data_len, owner of the bytes). Writes 16 MiB at a time
// and looks for signals in between.
void write_fetched(Writer& writer, const TensorInfo& tensor, nb::handle fetch) {
  constexpr std::size_t kChunkBytes = std::size_t{16} << 20;
  const nb::object fetched = fetch(to_str(tensor.name));
  const nb::object owner = fetched[2];
  const auto address = static_cast<std::uintptr_t>(to_unsigned(fetched[0]));
  const std::span bytes(reinterpret_cast<const std::byte*>(address), static_cast<std::size_t>(to_unsigned(fetched[1])));
  if (bytes.size() != tensor.nbytes())
    raise(kSaving + ("tensor `" + printable(tensor.name)) + "`: " + std::to_string(bytes.size()) + " bytes given, " +
          std::to_string(tensor.nbytes()) + " needed");
  for (std::size_t begin = 0; begin < bytes.size(); begin += kChunkBytes) {
    Status status;
    {
      const WithoutGil released;
      status = writer.write(tensor.name, begin, bytes.subspan(begin, std::min(kChunkBytes, bytes.size() - begin)));
    }
    if (!status) raise_saving(status.error());
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

void serialize_stream(nb::handle tensor_dict, nb::handle filename, nb::handle metadata, nb::handle fetch,
                      nb::handle durability) {
  const std::string path = to_path(filename);
  const Tensors tensors(tensor_dict);
  const WriteOptions options = to_write_options(durability);
  const Result<Header> header = lay_out(tensors, to_metadata(metadata));
  if (!header) raise_saving(header.error());
  Result<Writer> writer = Writer::create(path, *header, options);
  if (!writer) raise_saving(writer.error());
  for (const TensorInfo& tensor : header->tensors()) write_fetched(writer.value(), tensor, fetch);
  Status status;
  {
    const WithoutGil released;
    status = writer.value().commit();
  }
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
  for (const auto& [key, value] : dict_items(metadata))
    pairs.emplace_back(from_str(key, "metadata"), from_str(value, "metadata"));
  return pairs;
}

void raise_saving(const Error& error) {
  if (error.code == Errc::out_of_memory) PyErr_NoMemory(), throw nb::python_error();
  std::string text = kSaving + error.message;
  if (!error.path.empty()) text += ": \"" + printable(error.path) + "\"";
  raise(text, &error);
}

Durability to_durability(nb::handle name) {
  const std::string_view text = from_str(name, "durability");
  if (text == "full") return Durability::full;
  if (text == "file") return Durability::file;
  if (text == "none") return Durability::none;
  raise("durability \"" + std::string(text) + "\" is invalid (expected one of: \"full\", \"file\", \"none\")");
}

bool interrupted() {
  const WithGil acquired;
  return PyErr_CheckSignals() != 0;
}

void define_serialize(nb::module_& module) {
  module.def("serialize", &serialize, nb::arg("tensor_dict").none(), nb::arg("metadata") = nb::none(),
             "Returns the bytes of a file that holds these tensors.\n\n"
             "tensor_dict: names to TensorSpec. metadata: a dict of str to str, or None for no metadata. Raises\n"
             "SafetensorError for tensors or metadata that no file can hold. The GIL is released while bytes are\n"
             "copied.");
  module.def("serialize_file", &serialize_file, nb::arg("tensor_dict").none(), nb::arg("filename").none(),
             nb::arg("metadata") = nb::none(), nb::kw_only(), nb::arg("durability").none() = "full",
             "Writes a file that holds these tensors. It replaces a file that exists at filename.\n\n"
             "Other programs see the old file or the new one, never a mix. After an error, KeyboardInterrupt\n"
             "included, the old file is unchanged. durability: after a power cut, \"full\" guarantees the new file,\n"
             "\"file\" guarantees the old file or the new one, \"none\" guarantees nothing. Raises SafetensorError.\n"
             "Its attribute errno is set for an error of the system. The GIL is released.");
  module.def("_serialize_stream", &serialize_stream, nb::arg("tensor_dict").none(), nb::arg("filename").none(),
             nb::arg("metadata").none(), nb::arg("fetch"), nb::kw_only(), nb::arg("durability").none() = "full",
             "serialize_file with one tensor in memory at a time. fetch(name) returns (data_ptr, data_len, owner).\n\n"
             "tensor_dict: names to TensorSpec, whose data_ptr and data_len are ignored.");
  module.def("deserialize", &deserialize, nb::arg("bytes").none(),
             "Returns a list of (name, {\"shape\", \"dtype\", \"data\"}) in the order of their bytes.\n\n"
             "bytes: any object with the buffer protocol. data: a new bytearray. Raises SafetensorError.");
}

}  // namespace safetensors::python
