// The class _Writer: writes a file whose tensors come in pieces. Calls never wait for each other, because a caller may
// be a signal handler inside of another call. A call that would have to wait is an error instead.
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint.h"
#include "module.h"
#include "requests.h"
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
    const TensorSpec& tensor = to_spec(spec, "tensors");
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

// A file that is being written. `key` identifies its calls to ReentrancyGuard.
struct NewFile {
  Header header;
  std::shared_ptr<const char> key = std::make_shared<const char>();
  std::shared_ptr<Writer> writer = nullptr;
};

NewFile begin_file(nb::handle path, nb::handle tensors, nb::handle metadata, nb::handle durability) {
  const std::string target = to_path(path);
  WriteOptions options{.durability = to_durability(durability)};
  NewFile file{lay_out(tensors, metadata)};
  options.progress = [key = file.key](std::uint64_t, std::uint64_t) {
    const ReentrancyGuard guard(key.get());
    return !interrupted();
  };
  Result<Writer> writer = [&] {
    const WithoutGil released;
    return Writer::create(target, file.header, options);
  }();
  if (!writer) raise_saving(writer.error());
  file.writer = std::make_shared<Writer>(*std::move(writer));
  return file;
}

// Several threads may write at once. After close() the calls in progress complete, then the file is removed.
class PyWriter {
 public:
  explicit PyWriter(NewFile file)
      : header_(std::move(file.header)), key_(std::move(file.key)), writer_(std::move(file.writer)) {}
  PyWriter(const PyWriter&) = delete;
  PyWriter& operator=(const PyWriter&) = delete;
  ~PyWriter() { close(); }

  void write(nb::handle name, nb::handle offset, nb::handle address, nb::handle size) {
    const std::span bytes(reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(to_unsigned(address))),
                          static_cast<std::size_t>(to_unsigned(size)));
    const std::string text(from_str(name, "name"));
    const std::uint64_t begin = to_unsigned(offset);
    run([&](Writer& writer) { return writer.write(text, begin, bytes); });
  }
  void copy(nb::handle name, const PyCheckpoint& source, nb::handle source_name) {
    const std::string text(from_str(name, "name"));
    const Tensor tensor = find_tensor(source.get(), source_name);
    run([&](Writer& writer) { return writer.copy(text, tensor); });
  }
  void commit() {
    run([](Writer& writer) { return writer.commit(); }, true);
    close();
  }
  void close() {
    std::shared_ptr<Writer> closed;
    {
      const std::lock_guard lock(mutex_);
      closed = std::move(writer_);
    }
    const WithoutGil released;  // this may remove a file
    closed.reset();
  }
  nb::object meta(nb::handle name) const {
    const std::optional<std::string_view> text = to_name(name, "name");
    const TensorInfo* const tensor = text ? header_.find(*text) : nullptr;
    if (tensor == nullptr) raise_key_error(name);
    return nb::make_tuple(to_str(to_string(tensor->dtype)), to_list(tensor->shape), tensor->nbytes());
  }

 private:
  // A call in progress: one of many that write, or the only one that commits. It raises an error instead of waiting.
  class Call {
   public:
    Call(PyWriter& writer, bool commits) : writer_(writer), commits_(commits) {
      {
        const std::lock_guard lock(writer_.mutex_);
        if (!writer_.committing_ && !(commits && writer_.writing_ != 0)) {
          if (commits)
            writer_.committing_ = true;
          else
            ++writer_.writing_;
          return;
        }
      }
      raise(commits ? "the writer cannot be committed while another call writes or commits"
                    : "the writer is being committed by another call");
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      const std::lock_guard lock(writer_.mutex_);
      if (commits_)
        writer_.committing_ = false;
      else
        --writer_.writing_;
    }

   private:
    PyWriter& writer_;
    bool commits_;
  };

  std::shared_ptr<Writer> get() const {
    {
      const std::lock_guard lock(mutex_);
      if (writer_) return writer_;
    }
    raise("the writer is closed");
  }

  template <class Work>
  void run(const Work& work, bool commits = false) {
    if (ReentrancyGuard::of(key_.get()))
      raise("the writer cannot be used by the handler of a signal that came while it writes");
    std::shared_ptr<Writer> writer = get();
    Status status;
    {
      const Call call(*this, commits);
      const WithoutGil released;
      status = work(*writer);
      writer.reset();  // the last reference if close() ran meanwhile: removes the file
    }
    if (PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!status) raise_saving(status.error());
  }

  Header header_;
  std::shared_ptr<const char> key_;
  mutable std::mutex mutex_;  // guards the members below; never held while waiting for the GIL
  std::shared_ptr<Writer> writer_;
  unsigned writing_ = 0;
  bool committing_ = false;
};

}  // namespace

void define_writer(nb::module_& module) {
  nb::class_<PyWriter>(module, "_Writer", "A file that is written in pieces.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<PyWriter> self, nb::object path, nb::object tensors, nb::object metadata,
             nb::object durability) { initialize(self, begin_file(path, tensors, metadata, durability)); },
          nb::arg("path").none(), nb::arg("tensors").none(), nb::arg("metadata").none(), nb::arg("durability").none())
      .def("write", &PyWriter::write, nb::arg("name").none(), nb::arg("offset"), nb::arg("address"), nb::arg("size"))
      .def("copy", &PyWriter::copy, nb::arg("name").none(), nb::arg("source"), nb::arg("source_name").none())
      .def("commit", &PyWriter::commit)
      .def("close", &PyWriter::close)
      .def("meta", &PyWriter::meta, nb::arg("name").none(), "(dtype, shape, number of bytes) of a tensor.");
}

}  // namespace safetensors::python
