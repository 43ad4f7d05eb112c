// The function _load: returns all tensors of a file in memory, as copies or as views of the caller's buffer.
#include "module.h"
#include "opened.h"
#include "requests.h"

namespace safetensors::python {
namespace {

// Returns arrays over the buffer itself. They keep it alive.
nb::object load_views(const File& file, Framework framework, const std::shared_ptr<const Buffer>& buffer) {
  const std::shared_ptr<Maker> maker = make_maker(framework, {});
  const MemoryKind kind = buffer->read_only() ? MemoryKind::borrowed : MemoryKind::owned;
  nb::dict result;
  for (const TensorInfo& tensor : file.header().tensors()) {
    check_signals(result.size());
    const std::span<std::byte> bytes = buffer->bytes().subspan(static_cast<std::size_t>(tensor.file_offset),
                                                               static_cast<std::size_t>(tensor.nbytes()));
    result[to_str(tensor.name)] = maker->make(Array(tensor.dtype, Shape(tensor.shape), bytes, buffer, kind));
  }
  return result;
}

nb::object load_buffer(nb::handle data, nb::handle framework, bool copy) {
  const Framework wanted = parse_framework(from_str(framework, "framework"));
  const std::shared_ptr<const Buffer> buffer = Buffer::share(data);
  Result<File> file =
      open_watched([&](const ParseOptions& parse) { return File::from_memory(buffer->bytes(), buffer, parse); });
  if (!file) raise_read_error(file.error(), "Error while deserializing: ", "");
  if (!copy) return load_views(*file, wanted, buffer);
  return Opened(*std::move(file), "", wanted, {}, Backend::pread).tensors();
}

}  // namespace

void define_load(nb::module_& module) {
  module.def("_load", &load_buffer, nb::arg("buffer").none(), nb::arg("framework").none(), nb::kw_only(),
             nb::arg("copy") = true,
             "All tensors of a file in memory, in a dict in the order of their bytes.\n\n"
             "buffer: any object with the buffer protocol. copy=False: tensors whose bytes are aligned are views\n"
             "of the buffer, read-only in NumPy if the buffer is.");
}

}  // namespace safetensors::python
