// The classes _Writer and _CheckpointWriter: they write a file, or the files of a model, whose tensors come in pieces.
// Calls never wait for each other, because a caller may be a signal handler inside of another call. A call that would
// have to wait is an error instead.
#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "module.h"
#include "reader.h"
#include "requests.h"
#include "saving.h"

namespace safetensors::python {
namespace {

LayoutOptions to_layout_options(nb::handle data_alignment, nb::handle order) {
  const std::uint64_t alignment = to_unsigned(data_alignment);
  constexpr std::pair<const char*, bool> kWords[] = {{"writer", false}, {"given", true}};
  if (alignment > std::numeric_limits<std::uint32_t>::max())
    raise("data_alignment " + std::to_string(alignment) + " is too large");
  return {.data_alignment = static_cast<std::uint32_t>(alignment),
          .keep_order = parse_word("order", from_str(order, "order"), kWords)};
}

void check(const Status& status) {
  if (!status) raise_saving(status.error());
}

Header lay_out(nb::handle tensors, nb::handle metadata, const LayoutOptions& options) {
  HeaderBuilder builder;
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
  Result<Header> header = builder.build(options);
  if (!header) raise_saving(header.error());
  return *std::move(header);
}

using AnyWriter = std::variant<Writer, CheckpointWriter>;

// The writer in use. `key` identifies its calls to ReentrancyGuard. layout: only for a model of several files.
struct NewFile {
  std::vector<Header> headers;
  std::optional<CheckpointLayout> layout = std::nullopt;
  std::shared_ptr<const char> key = std::make_shared<const char>();
  std::shared_ptr<AnyWriter> writer = nullptr;
};

// Lets signals end a write. progress: a callable or None.
Callback<bool(std::uint64_t, std::uint64_t)> watched(const std::shared_ptr<const char>& key, nb::handle progress) {
  // The writer is destroyed without the GIL, so the function must not own a Python object. The class PyWriter does.
  return [key, progress](std::uint64_t done, std::uint64_t total) {
    const ReentrancyGuard guard(key.get());
    if (interrupted()) return false;
    if (progress.is_none()) return true;
    const WithGil acquired;
    const nb::object result = nb::steal(PyObject_CallFunction(
        progress.ptr(), "KK", static_cast<unsigned long long>(done), static_cast<unsigned long long>(total)));
    return result.is_valid();
  };
}

NewFile begin_file(nb::handle path, nb::handle tensors, nb::handle metadata, nb::handle durability,
                   const LayoutOptions& layout, nb::handle progress, bool replace_symlinks) {
  const std::string target = to_path(path, "path");
  WriteOptions options = to_write_options(durability);
  options.replace_symlinks = replace_symlinks;
  NewFile file{{lay_out(tensors, metadata, layout)}};
  options.progress = watched(file.key, progress);
  Result<Writer> writer = [&] {
    const WithoutGil released;
    return Writer::create(target, file.headers[0], options);
  }();
  if (!writer) raise_saving(writer.error());
  file.writer = std::make_shared<AnyWriter>(*std::move(writer));
  return file;
}

// start: makes the CheckpointWriter. It runs without the GIL.
template <class Start>
NewFile begin_files(nb::handle layout, CheckpointWriteOptions options, nb::handle progress, const Start& start) {
  NewFile file{{}, to_layout(layout)};
  for (const CheckpointFile& each : file.layout->files()) file.headers.push_back(each.header);
  options.write.progress = watched(file.key, progress);
  Result<CheckpointWriter> writer = [&] {
    const WithoutGil released;
    return start(*file.layout, options);
  }();
  if (!writer) raise_saving(writer.error());
  file.writer = std::make_shared<AnyWriter>(*std::move(writer));
  return file;
}

NewFile begin_checkpoint(nb::handle folder, nb::handle layout, const nb::kwargs& options, nb::handle progress) {
  const std::string target = to_path(folder, "folder");
  return begin_files(layout, to_checkpoint_options(options), progress,
                     [&](const CheckpointLayout& of, const CheckpointWriteOptions& given) {
                       return CheckpointWriter::create(target, of, given);
                     });
}

NewFile join_checkpoint(nb::handle ticket, nb::handle layout, nb::handle progress) {
  const std::string text(from_str(ticket, "ticket"));
  return begin_files(layout, {}, progress, [&](const CheckpointLayout& of, const CheckpointWriteOptions& given) {
    return CheckpointWriter::join(text, of, given);
  });
}

// The bytes to write. They may have a dtype and a shape of their own, which must be those of the tensor.
struct Value {
  std::span<const std::byte> bytes;
  std::optional<Dtype> dtype = std::nullopt;
  std::optional<std::vector<std::uint64_t>> shape = std::nullopt;
};

// value: (address, size in bytes, name of the dtype or None, shape or None, owner of the bytes).
Value make_value(nb::handle value) {
  const auto address = static_cast<std::uintptr_t>(to_unsigned(value[0]));
  Value made{{reinterpret_cast<const std::byte*>(address), static_cast<std::size_t>(to_unsigned(value[1]))}};
  made.dtype = to_dtype(nb::object(value[2]));
  if (const nb::object shape = value[3]; !shape.is_none()) {
    made.shape.emplace();
    for (const nb::handle dim : nb::iter(shape)) made.shape->push_back(to_unsigned(dim));
  }
  return made;
}

std::string tensor_text(const TensorInfo& tensor) {
  return "tensor `" + printable(tensor.name) + "`";
}

// rows: whether the shape is that of rows of the tensor. row_offset() checks the rest of rows.
void check_shape(const TensorInfo& tensor, ShapeView shape, bool rows) {
  if (rows && tensor.shape.empty()) return;
  const std::size_t skipped = rows ? 1 : 0;
  if (shape.size() == tensor.shape.size() &&
      std::ranges::equal(shape.subspan(skipped), ShapeView(tensor.shape).subspan(skipped)))
    return;
  std::string wanted = to_string(tensor.shape);
  if (rows) wanted.replace(1, std::to_string(tensor.shape[0]).size(), "rows");
  raise(tensor_text(tensor) + " takes shape " + wanted + ", the data has " + to_string(shape));
}

void check_dtype(const TensorInfo& tensor, const Value& value) {
  const bool packed = bits(tensor.dtype) < 8;
  if (value.dtype && *value.dtype != tensor.dtype && !(packed && *value.dtype == Dtype::U8))
    raise(tensor_text(tensor) + " has dtype " + std::string(to_string(tensor.dtype)) + ", the data " +
          std::string(to_string(*value.dtype)));
}

// Packed bytes have neither the dtype nor the shape of their tensor. Only their number is compared.
void check_value(const TensorInfo& tensor, const Value& value, bool rows) {
  check_dtype(tensor, value);
  if (value.shape && bits(tensor.dtype) >= 8) check_shape(tensor, *value.shape, rows);
  if (!rows && value.bytes.size() != tensor.nbytes())
    raise(tensor_text(tensor) + " has " + std::to_string(tensor.nbytes()) + " bytes, the data " +
          std::to_string(value.bytes.size()));
}

// Checks the data of a slice as far as the library does not: its dtype and its shape. Packed bytes have neither.
void check_slice(const TensorInfo& tensor, const Value& value, ShapeView shape) {
  check_dtype(tensor, value);
  if (value.shape && bits(tensor.dtype) >= 8 && !std::ranges::equal(*value.shape, shape))
    raise(tensor_text(tensor) + ": the slice has shape " + to_string(shape) + ", the data has " +
          to_string(*value.shape));
}

// offsets, sizes: sequences of one integer per dimension, the first element and the number of elements. The box must
// lie inside of the tensor: a slice of NumPy would be clamped.
Slice to_box(nb::handle offsets, nb::handle sizes, const TensorInfo& tensor, std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> begins;
  for (const nb::handle each : nb::iter(offsets)) begins.push_back(to_unsigned(each));
  for (const nb::handle each : nb::iter(sizes)) shape.push_back(to_unsigned(each));
  if (begins.size() != tensor.shape.size() || shape.size() != tensor.shape.size())
    raise(tensor_text(tensor) + " has " + std::to_string(tensor.shape.size()) + " dimensions, the slice has " +
          std::to_string(begins.size()) + " offsets and " + std::to_string(shape.size()) + " sizes");
  std::vector<DimSlice> dims;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::uint64_t size = tensor.shape[i];
    if (begins[i] > size || shape[i] > size - begins[i])
      raise(tensor_text(tensor) + " has shape " + to_string(tensor.shape) + ", the slice ends after it: offsets " +
            to_string(begins) + ", sizes " + to_string(shape));
    dims.push_back(
        DimSlice::range(static_cast<std::int64_t>(begins[i]), static_cast<std::int64_t>(begins[i] + shape[i])));
  }
  return Slice(std::move(dims));
}

[[noreturn]] void raise_start(const std::string& start, const TensorInfo& tensor) {
  raise("start is " + start + ": " + tensor_text(tensor) + " has " + std::to_string(tensor.shape[0]) + " rows");
}

std::uint64_t to_row(nb::handle start, const TensorInfo& tensor) {
  const nb::object number = own(PyNumber_Index(start.ptr()));
  try {
    return to_unsigned(number);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_OverflowError)) throw;
  }
  const auto text = nb::cast<std::string>(nb::str(number));
  if (text.starts_with('-')) raise("start is " + text + ": rows are counted from 0");
  if (tensor.shape.empty()) raise(tensor_text(tensor) + " is a scalar and has no rows");
  raise_start(text, tensor);
}

// The offset of a row in a tensor. size: of the rows to write, in bytes.
std::uint64_t row_offset(const TensorInfo& tensor, std::uint64_t row, std::uint64_t size) {
  if (tensor.shape.empty()) raise(tensor_text(tensor) + " is a scalar and has no rows");
  const std::uint64_t rows = tensor.shape[0];
  if (row > rows) raise_start(std::to_string(row), tensor);
  if (rows != 0 && tensor.nbytes() % rows != 0)
    raise(tensor_text(tensor) + " has rows that do not end with a byte: write it whole");
  const std::uint64_t row_bytes = rows == 0 ? 0 : tensor.nbytes() / rows;
  if (row_bytes == 0 ? size != 0 : size % row_bytes != 0)
    raise(tensor_text(tensor) + " has rows of " + std::to_string(row_bytes) + " bytes, the data " +
          std::to_string(size));
  return row * row_bytes;  // at most the size of the tensor
}

// Several threads may write at once. After close() the calls in progress complete, then the file is removed.
class PyWriter {
 public:
  // progress: the function that the writer calls, which this object keeps alive.
  explicit PyWriter(NewFile file, nb::object progress = nb::none())
      : headers_(std::move(file.headers)),
        layout_(std::move(file.layout)),
        progress_(std::move(progress)),
        key_(std::move(file.key)),
        writer_(std::move(file.writer)) {}
  PyWriter(const PyWriter&) = delete;
  PyWriter& operator=(const PyWriter&) = delete;
  ~PyWriter() { close(); }

  // start: the first row, or None for the whole tensor. value: as make_value.
  void write(nb::handle name, nb::handle start, nb::handle value) {
    const TensorInfo& tensor = find(name);
    const Value data = make_value(value);
    const bool rows = !start.is_none();
    const std::uint64_t row = rows ? to_row(start, tensor) : 0;
    check_value(tensor, data, rows);
    const std::uint64_t offset = rows ? row_offset(tensor, row, data.bytes.size()) : 0;
    check(run([&](auto& writer) { return writer.write(tensor.name, offset, data.bytes); }));
  }
  void copy(nb::handle name, nb::handle source, nb::handle source_name) {
    const std::string text(from_str(name, "name"));
    const Tensor tensor = to_reader(source)->find(source_name);
    check(run([&](auto& writer) { return writer.copy(text, tensor); }));
  }
  // A slice: offsets and sizes of each dimension. value: as make_value.
  void write_slice(nb::handle name, nb::handle offsets, nb::handle sizes, nb::handle value) {
    const TensorInfo& tensor = find(name);
    const Value data = make_value(value);
    std::vector<std::uint64_t> shape;
    const Slice box = to_box(offsets, sizes, tensor, shape);
    check_slice(tensor, data, shape);
    check(run([&](auto& writer) { return writer.write_slice(tensor.name, box, data.bytes); }));
  }
  // The functions of a model that several processes write. ticket(): the text that _join_checkpoint takes in other
  // processes. receipt() ends the part of a joined writer and returns the text that accept() takes. accept() adds what
  // a joined writer wrote.
  nb::object ticket() {
    std::string text;
    check(run_shared([&](CheckpointWriter& writer) { return take(writer.ticket(), text); }, false));
    return to_str(text);
  }
  nb::object receipt() {
    std::string text;
    check(run_shared([&](CheckpointWriter& writer) { return take(writer.receipt(), text); }, true));
    close();
    return to_str(text);
  }
  void accept(nb::handle receipt) {
    const std::string text(from_str(receipt, "receipt"));
    check(run_shared([&](CheckpointWriter& writer) { return writer.accept(text); }, false));
  }
  void commit() {
    check(run([](auto& writer) { return writer.commit(); }, true));
    close();
  }
  void close() {
    std::shared_ptr<AnyWriter> closed;
    {
      const std::lock_guard lock(mutex_);
      closed = std::move(writer_);
    }
    const WithoutGil released;  // this may remove a file
    closed.reset();
  }
  nb::object dtype(nb::handle name) const { return to_str(to_string(find(name).dtype)); }
  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t count = 0;
    for (const Header& header : headers_) count += header.size();
    return count;
  }
  // For the garbage collector: the function may own this object.
  [[nodiscard]] nb::object& progress() noexcept { return progress_; }

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

  const TensorInfo& find(nb::handle name) const {
    const std::optional<std::string_view> text = to_name(name, "name");
    const std::optional<std::size_t> file = !text     ? std::nullopt
                                            : layout_ ? layout_->file_of(*text)
                                                      : std::optional(std::size_t{0});
    const TensorInfo* const tensor = file ? headers_[*file].find(*text) : nullptr;
    if (tensor == nullptr) raise_missing("the writer has no tensor " + nb::cast<std::string>(nb::repr(name)), name);
    return *tensor;
  }

  std::shared_ptr<AnyWriter> get() const {
    {
      const std::lock_guard lock(mutex_);
      if (writer_) return writer_;
    }
    raise("the writer is closed");
  }

  static Status take(Result<std::string> result, std::string& text) {
    if (!result) return std::move(result).error();
    text = *std::move(result);
    return {};
  }

  template <class Work>
  [[nodiscard]] Status run_shared(const Work& work, bool ends) {
    if (!layout_) raise("only the files of a checkpoint can be written by several processes");
    return run_any([&](AnyWriter& writer) { return work(std::get<CheckpointWriter>(writer)); }, ends);
  }
  template <class Work>
  [[nodiscard]] Status run(const Work& work, bool commits = false) {
    return run_any([&](AnyWriter& writer) { return std::visit(work, writer); }, commits);
  }
  template <class Work>
  [[nodiscard]] Status run_any(const Work& work, bool commits) {
    if (ReentrancyGuard::of(key_.get()))
      raise(
          "the writer cannot be used by its progress function, or by the handler of a signal that came while it "
          "writes");
    std::shared_ptr<AnyWriter> writer = get();
    Status status;
    {
      const Call call(*this, commits);
      const WithoutGil released;
      status = work(*writer);
      writer.reset();  // the last reference if close() ran meanwhile: removes the file
    }
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    check_signals();
    return status;
  }

  const std::vector<Header> headers_;
  const std::optional<CheckpointLayout> layout_;
  nb::object progress_;
  std::shared_ptr<const char> key_;
  mutable std::mutex mutex_;  // guards the members below; never held while waiting for the GIL
  std::shared_ptr<AnyWriter> writer_;
  unsigned writing_ = 0;
  bool committing_ = false;
};

int visit_writer(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<PyWriter>(self)->progress().ptr());
  return 0;
}

// Nothing can call the writer any more, so it calls no function.
int clear_writer(PyObject* self) {
  if (nb::inst_ready(self)) {
    nb::inst_ptr<PyWriter>(self)->close();
    nb::inst_ptr<PyWriter>(self)->progress().reset();
  }
  return 0;
}

PyType_Slot writer_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&visit_writer)},
                              {Py_tp_clear, reinterpret_cast<void*>(&clear_writer)},
                              {0, nullptr}};

}  // namespace

void define_writer(nb::module_& module) {
  nb::class_<PyWriter>(module, "_Writer", nb::type_slots(writer_slots), "A file that is written in pieces.")
      .def(
          "__init__",
          [](nb::pointer_and_handle<PyWriter> self, nb::object path, nb::object tensors, nb::object metadata,
             nb::object durability, nb::object data_alignment, nb::object order, nb::object progress,
             bool replace_symlinks) {
            const LayoutOptions layout = to_layout_options(data_alignment, order);
            initialize(self, begin_file(path, tensors, metadata, durability, layout, progress, replace_symlinks),
                       progress);
          },
          nb::arg("path").none(), nb::arg("tensors").none(), nb::arg("metadata").none(), nb::arg("durability").none(),
          nb::arg("data_alignment").none() = 8, nb::arg("order").none() = "writer",
          nb::arg("progress").none() = nb::none(), nb::arg("replace_symlinks") = false)
      .def("write", &PyWriter::write, nb::arg("name").none(), nb::arg("start").none(), nb::arg("value"))
      .def("copy", &PyWriter::copy, nb::arg("name").none(), nb::arg("source"), nb::arg("source_name").none())
      .def("write_slice", &PyWriter::write_slice, nb::arg("name").none(), nb::arg("offsets"), nb::arg("sizes"),
           nb::arg("value"))
      .def("ticket", &PyWriter::ticket)
      .def("receipt", &PyWriter::receipt)
      .def("accept", &PyWriter::accept, nb::arg("receipt").none())
      .def("commit", &PyWriter::commit)
      .def("close", &PyWriter::close)
      .def("__len__", &PyWriter::size)
      .def("dtype", &PyWriter::dtype, nb::arg("name").none());
  module.def(
      "_checkpoint_writer",
      [](nb::object folder, nb::object layout, nb::kwargs options) {
        const nb::object progress = options["progress"];
        return new PyWriter(begin_checkpoint(folder, layout, options, progress), progress);
      },
      nb::arg("folder").none(), nb::arg("layout").none(), nb::arg("options"), nb::rv_policy::take_ownership);
  module.def(
      "_join_checkpoint",
      [](nb::object ticket, nb::object layout, nb::object progress) {
        return new PyWriter(join_checkpoint(ticket, layout, progress), progress);
      },
      nb::arg("ticket").none(), nb::arg("layout").none(), nb::kw_only(), nb::arg("progress").none(),
      nb::rv_policy::take_ownership);
}

}  // namespace safetensors::python
