// Writer: a file whose tensors come in pieces.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint.h"
#include "module.h"
#include "saving.h"
#include "tensor_spec.h"

namespace safetensors::python {
namespace {

Header lay_out(nb::handle tensors, nb::handle metadata) {
  HeaderBuilder builder;
  const auto check = [](const Status& status) {
    if (!status) raise_saving(status.error());
  };
  for (const nb::handle pair : nb::iter(tensors.attr("items")())) {
    const nb::object name = pair[0];
    const nb::object spec = pair[1];
    const TensorSpec& tensor = nb::cast<const TensorSpec&>(spec);
    check(builder.add(from_str(name, "tensors"), tensor.dtype, tensor.shape));
  }
  if (const std::optional<MetadataPairs> pairs = to_metadata(metadata)) {
    check(builder.metadata_present());
    for (const auto& [key, value] : *pairs) check(builder.metadata(key, value));
  }
  Result<Header> header = builder.build();
  if (!header) raise_saving(header.error());
  return *std::move(header);
}

// Several threads may write at once; close and commit wait for them.
class PyWriter {
 public:
  PyWriter(nb::handle path, nb::handle tensors, nb::handle metadata, nb::handle durability) {
    const std::string target = to_path(path);
    WriteOptions options{.durability = to_durability(durability)};
    options.progress = [this](std::uint64_t, std::uint64_t) { return !stopped_ && !(stopped_ = interrupted()); };
    const Header header = lay_out(tensors, metadata);
    Result<Writer> writer = [&] {
      const WithoutGil released;
      return Writer::create(target, header, options);
    }();
    if (!writer) raise_saving(writer.error());
    writer_ = std::make_shared<Writer>(*std::move(writer));
  }
  PyWriter(const PyWriter&) = delete;
  PyWriter& operator=(const PyWriter&) = delete;

  void write(nb::handle name, nb::handle offset, nb::handle address, nb::handle size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(to_unsigned(address))),
                          static_cast<std::size_t>(to_unsigned(size)));
    const std::string text(from_str(name, "name"));
    const std::uint64_t begin = to_unsigned(offset);
    run([&](Writer& writer) { return writer.write(text, begin, bytes); });
  }
  void copy(nb::handle name, const PyCheckpoint& source, nb::handle source_name) {
    const std::string text(from_str(name, "name"));
    const Tensor tensor = source.find(source_name);
    run([&](Writer& writer) { return writer.copy(text, tensor); });
  }
  void commit() {
    run([](Writer& writer) { return writer.commit(); });
    close();
  }
  void close() {
    std::shared_ptr<Writer> closed;
    {
      const std::lock_guard lock(mutex_);
      closed = std::move(writer_);
    }
    const WithoutGil released;  // what was written may have to be removed
    closed.reset();
  }
  nb::object meta(nb::handle name) const {
    const std::shared_ptr<Writer> writer = get();
    const TensorInfo* const tensor = writer->header().find(from_str(name, "name"));
    if (tensor == nullptr) {
      PyErr_SetObject(PyExc_KeyError, name.ptr());
      throw nb::python_error();
    }
    return nb::make_tuple(to_str(to_string(tensor->dtype)), to_list(tensor->shape), tensor->nbytes());
  }

 private:
  std::shared_ptr<Writer> get() const {
    {
      const std::lock_guard lock(mutex_);
      if (writer_) return writer_;
    }
    raise("the writer is closed");
  }

  template <class Work>
  void run(const Work& work) {
    const std::shared_ptr<Writer> writer = get();
    Status status;
    {
      const WithoutGil released;
      status = work(*writer);
    }
    if (PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!status) raise_saving(status.error());
  }

  std::atomic<bool> stopped_{false};
  mutable std::mutex mutex_;  // of what follows; never held while the GIL is asked for
  std::shared_ptr<Writer> writer_;
};

}  // namespace

void define_writer(nb::module_& module) {
  nb::class_<PyWriter>(module, "_Writer", "A file whose tensors come in pieces.")
      .def(
          "__init__",
          [](PyWriter* self, nb::object path, nb::object tensors, nb::object metadata, nb::object durability) {
            new (self) PyWriter(path, tensors, metadata, durability);
          },
          nb::arg("path"), nb::arg("tensors"), nb::arg("metadata").none(), nb::arg("durability"))
      .def("write", &PyWriter::write, nb::arg("name"), nb::arg("offset"), nb::arg("address"), nb::arg("size"))
      .def("copy", &PyWriter::copy, nb::arg("name"), nb::arg("source"), nb::arg("source_name"))
      .def("commit", &PyWriter::commit)
      .def("close", &PyWriter::close)
      .def("meta", &PyWriter::meta, nb::arg("name"), "(dtype, shape, bytes) of a tensor.");
}

}  // namespace safetensors::python
