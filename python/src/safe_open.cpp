// The classes that read files: safe_open, _Checkpoint, PySafeSlice and TensorMeta, and the function _load. They parse
// arguments. Reader does the reading.
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "module.h"
#include "reader.h"
#include "requests.h"
#include "watch.h"

namespace safetensors::python {
namespace {

// The text as Python shows it: in quotes, with escapes.
std::string quoted(std::string_view text) {
  return nb::cast<std::string>(nb::repr(to_str(text)));
}

constexpr const char* kOpening = "Error while deserializing header: ";

// Holds the open files until close(). Slices, streams and loaders keep their own reference to the Reader.
template <bool kSingle>
class Handle {
 public:
  explicit Handle(std::shared_ptr<Reader> reader) : path_(reader->path()), reader_(std::move(reader)) {}

  [[nodiscard]] std::shared_ptr<Reader> get() const {
    if (std::shared_ptr<Reader> reader = if_open()) return reader;
    raise(kSingle ? "File is closed" : "the checkpoint is closed");
  }
  [[nodiscard]] std::shared_ptr<Reader> if_open() const {
    const std::lock_guard lock(mutex_);
    return reader_;
  }
  void close() {
    std::shared_ptr<Reader> closed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    closed = std::move(reader_);
  }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  const std::string path_;
  mutable std::mutex mutex_;
  std::shared_ptr<Reader> reader_;
};
using SafeOpen = Handle<true>;
using PyCheckpoint = Handle<false>;

// "safe_open('a.safetensors', framework='numpy', backend='mmap', 3 tensors)"
std::string repr_of_file(const SafeOpen& self) {
  const std::shared_ptr<Reader> reader = self.if_open();
  const std::string head = "safe_open(" + quoted(self.path()) + ", ";
  if (!reader) return head + "closed)";
  return head + "framework='" + name_of(reader->options().framework) + "', backend='" +
         name_of(reader->options().backend) + "', " +
         nb::cast<std::string>(import_own("_base.options").attr("count_text")(reader->list().size())) + ")";
}

constexpr const char* kBackendVariable = "SAFETENSORS_BACKEND";

// "mmap" is the default, and programs that pass it mean no more than the default. So it asks for a map only where a map
// is safe. The environment variable replaces it, for programs that cannot be changed. The other words are kept.
// nullopt: the file system decides.
std::optional<Backend> choose_backend(Backend argument) {
  if (argument != Backend::mmap) return argument;
  const nb::object given = import_module("os").attr("environ").attr("get")(kBackendVariable, "");
  const std::string_view name = from_str(given, kBackendVariable);
  if (name.empty()) return std::nullopt;
  return parse_backend(name, std::string("environment variable ") + kBackendVariable + ": ");
}

// open: returns a Result<File>. It gets OpenOptions and runs without the GIL.
template <class Open>
std::shared_ptr<Reader> open_file(const std::string& path, ReaderOptions options, const Open& open) {
  options.index_errors = options.backend == Backend::mmap ? IndexErrors::torch : IndexErrors::reference;
  const std::optional<Backend> backend = choose_backend(options.backend);
  const Access access = !backend ? Access::automatic : *backend == Backend::mmap ? Access::map : Access::read;
  Result<File> file = open_watched([&](ParseOptions parse) {
    parse.accept = options.accept;
    return open(OpenOptions{.access = access, .parse = std::move(parse)});
  });
  if (!file) raise_read_error(file.error(), kOpening, path);
  options.backend = backend ? *backend : file->access() == Access::map ? Backend::mmap : Backend::pread;
  return std::make_shared<Reader>(*std::move(file), std::move(options), path);
}

std::shared_ptr<Reader> open_path(nb::handle filename, nb::handle framework, nb::handle device, nb::handle backend,
                                  nb::handle accept) {
  const std::string path = to_path(filename);
  return open_file(path, ReaderOptions(framework, device, backend, accept),
                   [&](const OpenOptions& options) { return File::open(path, options); });
}

std::unique_ptr<SafeOpen> open_handle(nb::object f, nb::object framework, nb::object device, nb::object backend) {
  ReaderOptions options(framework, device, backend, nb::none());
  const auto descriptor = nb::cast<int>(f.attr("fileno")());
  const nb::object name = f.attr("name");
  const std::string path = PyLong_Check(name.ptr()) ? nb::cast<std::string>(nb::str(name)) : to_path(name);
  return std::make_unique<SafeOpen>(
      open_file(path, std::move(options), [&](const OpenOptions& open) { return File::from_fd(descriptor, open); }));
}

std::shared_ptr<Reader> open_checkpoint(nb::handle paths, nb::handle framework, nb::handle device, nb::handle backend,
                                        nb::handle accept) {
  ReaderOptions options(framework, device, backend, accept);
  const std::vector<std::string> list = to_paths(paths);
  const Access access = options.backend == Backend::mmap    ? Access::map
                        : options.backend == Backend::pread ? Access::read
                                                            : Access::automatic;
  Result<Checkpoint> opened = open_watched([&](ParseOptions parse) {
    parse.accept = options.accept;
    return Checkpoint::open(list, OpenOptions{.access = access, .parse = std::move(parse)});
  });
  if (!opened) raise_read_error(opened.error(), "", "");
  return std::make_shared<Reader>(*std::move(opened), std::move(options));
}

// The names in the order of list(), or sorted.
template <class T, bool kSorted = false>
nb::list names(const T& self) {
  const std::shared_ptr<Reader> reader = self.get();
  std::vector<std::string_view> found;
  for (const Tensor& tensor : reader->list()) found.push_back(tensor.name());
  if (kSorted && !std::ranges::is_sorted(found)) std::ranges::stable_sort(found);  // sorted if all have one dtype
  nb::list names = nb::steal<nb::list>(own(PyList_New(static_cast<Py_ssize_t>(found.size()))).release());
  for (std::size_t i = 0; i < found.size(); ++i) {
    check_signals(i);
    if (PyList_SetItem(names.ptr(), static_cast<Py_ssize_t>(i), to_str(found[i]).release().ptr()) != 0)
      throw nb::python_error();
  }
  return names;
}

// That of the first file.
nb::object metadata_of(const Reader& reader) {
  const Metadata pairs = reader.files().empty() ? Metadata() : reader.files()[0].metadata();
  if (!pairs.present()) return nb::none();
  nb::dict result;
  for (const auto& [key, value] : pairs) {
    check_signals(result.size());
    result[to_str(key)] = to_str(value);
  }
  return result;
}

// The faults of all files together.
nb::dict tolerated(const Reader& reader) {
  Tolerated sum;
  for (const File& file : reader.files()) {
    const Tolerated found = file.header().tolerated();
    sum.unknown_dtypes += found.unknown_dtypes;
    sum.unused_bytes += found.unused_bytes;
  }
  nb::dict result;
  if (!sum.any()) return result;
  result["unknown_dtypes"] = sum.unknown_dtypes;
  result["unused_bytes"] = sum.unused_bytes;
  return result;
}

nb::object dtype_of(const Tensor& tensor) {
  const File file = tensor.file();
  return to_str(file.header().dtype_name(tensor.info()));
}

// (dtype, shape, number of bytes) of a tensor, or of the slice of it that `index` gives.
nb::object meta(const PyCheckpoint& self, nb::handle name, nb::handle index) {
  const Tensor tensor = self.get()->find(name);
  if (tensor.dtype() == Dtype::UNKNOWN && index.is_none())
    return nb::make_tuple(dtype_of(tensor), to_list(tensor.shape()), tensor.nbytes());
  const ResolvedSlice part = resolve(tensor, index);
  return nb::make_tuple(dtype_of(tensor), to_list(part.shape()), part.nbytes());
}

// A tensor of an open file, to be read in slices.
struct PySafeSlice {
  std::shared_ptr<Reader> reader;
  Tensor tensor;

  [[nodiscard]] std::string repr() const {
    return "PySafeSlice(" + quoted(tensor.name()) + ", " + printable(nb::cast<std::string>(dtype_of(tensor))) + ", " +
           to_string(tensor.shape()) + ")";
  }
};

// The entry of one tensor in the header. Its repr is that of the reference.
struct TensorMeta {
  Tensor tensor;

  [[nodiscard]] std::string repr() const {
    const TensorInfo& info = tensor.info();
    std::string shape;
    for (const std::uint64_t dim : info.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(dim);
    return "TensorMeta { dtype: \"" + printable(nb::cast<std::string>(dtype_of(tensor))) + "\", shape: [" + shape +
           "], data_offsets: (" + std::to_string(info.begin) + ", " + std::to_string(info.end) + ") }";
  }
};

void define_tensor_meta(nb::module_& module) {
  nb::class_<TensorMeta>(module, "TensorMeta", nb::type_slots(refuse_new_slots),
                         "The entry of a tensor in the header. It stays valid after the file is closed.")
      .def_prop_ro(
          "dtype", [](const TensorMeta& meta) { return dtype_of(meta.tensor); },
          "The dtype in the file, such as \"F32\".")
      .def_prop_ro(
          "shape", [](const TensorMeta& meta) { return to_list(meta.tensor.shape()); },
          "The shape in the file, in elements.")
      .def_prop_ro(
          "data_offsets",
          [](const TensorMeta& meta) { return nb::make_tuple(meta.tensor.info().begin, meta.tensor.info().end); },
          "(begin, end) in bytes from the start of the data.")
      .def("__repr__", &TensorMeta::repr);
}

void define_slice(nb::module_& module) {
  nb::class_<PySafeSlice>(
      module, "PySafeSlice", nb::type_slots(refuse_new_slots),
      "A tensor of an open file, read in slices: `slice[2:4, ..., -1]` reads these elements only.\n\n"
      "It stays valid after the file is closed. Any thread may use it.")
      .def(
          "get_shape", [](const PySafeSlice& self) { return to_list(self.tensor.shape()); },
          "The tensor's shape, in elements.")
      .def(
          "get_dtype", [](const PySafeSlice& self) { return dtype_of(self.tensor); },
          "The tensor's dtype in the file, such as \"F32\".")
      .def("__repr__", &PySafeSlice::repr)
      .def(
          "__getitem__",
          [](const PySafeSlice& self, nb::object index) { return self.reader->slice(self.tensor, index); },
          nb::arg("index").none(),
          "A slice of the tensor. For torch, any index of torch. For other frameworks, integers, slices of any\n"
          "step and one Ellipsis, where an index past the end is an error. Raises SafetensorError.");
}

// Defines the methods that safe_open and _Checkpoint have in common.
template <class T>
void define_tensors(nb::class_<T>& type) {
  type.def(
          "tolerated", [](const T& self) { return tolerated(*self.get()); },
          "The faults that `accept` allowed: a dict with the numbers unknown_dtypes and unused_bytes,\n"
          "or an empty dict if the file has none.")
      .def(
          "metadata", [](const T& self) { return metadata_of(*self.get()); },
          "The metadata of the header as a dict, or None if the header has none.")
      .def(
          "get_tensor",
          [](const T& self, nb::object name) {
            const std::shared_ptr<Reader> reader = self.get();
            return reader->tensor(reader->find(name));
          },
          nb::arg("name").none(), "Returns one tensor. Raises SafetensorError for a name that is not in the file.")
      .def(
          "get_slice",
          [](const T& self, nb::object name) {
            std::shared_ptr<Reader> reader = self.get();
            Tensor tensor = reader->find(name);
            return PySafeSlice{std::move(reader), std::move(tensor)};
          },
          nb::arg("name").none(), "Returns an object that reads slices of one tensor. Nothing is read yet.")
      .def(
          "get_tensor_meta",
          [](const T& self, nb::object name) {
            if constexpr (std::is_same_v<T, SafeOpen>) (void)from_name(name);
            return TensorMeta{self.get()->find(name)};
          },
          nb::arg("name").none(), "Returns the entry of one tensor in the header. Nothing is read.")
      .def("__len__", [](const T& self) { return self.get()->list().size(); })
      .def(
          "__contains__",
          [](const T& self, nb::handle name) {
            const std::shared_ptr<Reader> reader = self.get();
            if (!PyUnicode_Check(name.ptr())) return false;
            const std::optional<std::string_view> text = to_name(name, "name");
            return text && reader->contains(*text);
          },
          nb::arg("name").none());
}

void define_prefetching(nb::class_<SafeOpen>& type) {
  type.def(
      "prefetch",
      [](const SafeOpen& self, nb::object plan, nb::object device, nb::object threads) {
        return start_prefetch(plan, device, threads, [&] { return self.get(); });
      },
      nb::arg("plan").none() = nb::none(), nb::kw_only(), nb::arg("device").none() = nb::none(),
      nb::arg("threads").none() = 8,
      "Begins to read tensors in the background and returns a PrefetchLoader.\n\n"
      "plan: a dict of names to None (the whole tensor), a slice of rows, or a tuple with a list of slices for\n"
      "each of the first dimensions. The slices of a list are joined. Their step is 1, and their bounds lie\n"
      "within the tensor. None plans every tensor. device: where tensors go (torch and paddle). None is\n"
      "the device of this file. threads: number of reader threads. 0 chooses it. It reads 256 MiB\n"
      "ahead of the tensors that are taken. Raises SafetensorError for an invalid plan. Read errors come with the "
      "tensors.");
}

void define_file(nb::module_& module) {
  nb::class_<SafeOpen> type(
      module, "safe_open",
      "safe_open(filename, framework, device='cpu', *, backend='mmap', accept=())\n--\n\n"
      "An open file. Each tensor is loaded on request.\n\n"
      "filename: str, bytes or os.PathLike. framework: \"pt\", \"np\", \"tf\", \"jax\", \"mlx\" or\n"
      "\"paddle\". device: where tensors go (torch and paddle). backend: \"mmap\" (tensors are views\n"
      "of a map of the file, and a page is read on first access), \"pread\" (tensors own their memory,\n"
      "read through the page cache) or \"auto\" (past it if the files and the tensors do not fit into half\n"
      "of the memory). On network and FUSE file systems, \"mmap\" is \"pread\". The environment variable\n"
      "SAFETENSORS_BACKEND replaces \"mmap\"; if it is \"mmap\", all file systems are mapped. accept: faults\n"
      "of the file that are no errors, \"unknown_dtypes\" and \"unused_bytes\", or one of them.\n\n"
      "Also a context manager. Tensors and slices stay valid after the file is closed or removed.\n"
      "Any number of threads may use it at once.");
  type.def(
          "__init__",
          [](nb::pointer_and_handle<SafeOpen> self, nb::object filename, nb::object framework, nb::object device,
             nb::object backend,
             nb::object accept) { initialize(self, open_path(filename, framework, device, backend, accept)); },
          nb::arg("filename").none(), nb::arg("framework").none(), nb::arg("device").none() = "cpu", nb::kw_only(),
          nb::arg("backend").none() = "mmap", nb::arg("accept").none() = nb::tuple())
      .def(
          "__enter__", [](nb::pointer_and_handle<SafeOpen> self) { return nb::borrow(self.h); }, "Returns the object.")
      .def(
          "__exit__", [](SafeOpen& self, nb::args) { self.close(); }, "Closes the file.")
      .def("__repr__", &repr_of_file)
      .def("__iter__", [](const SafeOpen& self) { return nb::iter(names<SafeOpen, true>(self)); })
      .def("keys", &names<SafeOpen, true>, "The tensors' names, sorted by their bytes.")
      .def("offset_keys", &names<SafeOpen>, "The tensors' names, in the order of their bytes in the file.")
      .def(
          "get_tensors", [](const SafeOpen& self) { return self.get()->tensors(); },
          "All tensors, in a dict in the order of their bytes.")
      .def("_checkpoint", [](const SafeOpen& self) { return std::make_unique<PyCheckpoint>(self.get()); });
  define_tensors(type);
  define_prefetching(type);
  module.def("_safe_open_handle", &open_handle, nb::arg("f").none(), nb::arg("framework").none(),
             nb::arg("device").none() = "cpu", nb::kw_only(), nb::arg("backend").none() = "mmap");
}

void define_checkpoint(nb::module_& module) {
  nb::class_<PyCheckpoint> type(module, "_Checkpoint", "Files opened as one set of tensors. Any thread may use it.");
  type.def(
          "__init__",
          [](nb::pointer_and_handle<PyCheckpoint> self, nb::object paths, nb::object framework, nb::object device,
             nb::object backend,
             nb::object accept) { initialize(self, open_checkpoint(paths, framework, device, backend, accept)); },
          nb::arg("paths").none(), nb::arg("framework").none(), nb::arg("device").none(), nb::arg("backend").none(),
          nb::arg("accept").none() = nb::none())
      .def("close", &PyCheckpoint::close)
      .def("names", &names<PyCheckpoint>)
      .def("files",
           [](const PyCheckpoint& self) {
             const std::shared_ptr<Reader> reader = self.get();
             nb::list list;
             for (const File& file : reader->files()) list.append(from_path(file.path()));
             return list;
           })
      .def("framework", [](const PyCheckpoint& self) { return name_of(self.get()->options().framework); })
      .def("device", [](const PyCheckpoint& self) { return to_str(self.get()->options().device.name); })
      .def("backend", [](const PyCheckpoint& self) { return name_of(self.get()->options().backend); })
      .def("index_metadata",
           [](const PyCheckpoint& self) {
             const std::shared_ptr<Reader> reader = self.get();
             return to_str(reader->checkpoint() ? reader->checkpoint()->index_metadata() : "");
           })
      .def("meta", &meta, nb::arg("name").none(), nb::arg("index") = nb::none())
      .def(
          "views", [](const PyCheckpoint& self, nb::object requests) { return self.get()->views(requests); },
          nb::arg("requests").none())
      // requests: as make_requests(). None loads all tensors, into a dict.
      .def(
          "load",
          [](const PyCheckpoint& self, nb::object requests, nb::kwargs given) -> nb::object {
            const LoadOptions options = make_load_options(given);
            if (requests.is_none()) return self.get()->read_all(options.read, options.progress);
            return load_tensors(*self.get(), requests, options);
          },
          nb::arg("requests").none(), nb::arg("options"))
      .def(
          "stream",
          [](const PyCheckpoint& self, nb::object requests, nb::kwargs options) {
            return start_stream(*self.get(), requests, make_load_options(options));
          },
          nb::arg("requests").none(), nb::arg("options"));
  define_tensors(type);
}

// Returns arrays over the buffer itself. They keep it alive.
nb::object load_views(const File& file, Framework framework, const std::shared_ptr<const Buffer>& buffer) {
  const std::shared_ptr<Maker> maker = make_maker(framework, {});
  const MemoryKind kind = buffer->read_only() ? MemoryKind::borrowed : MemoryKind::owned;
  maker->check();
  nb::dict result;
  for (const TensorInfo& tensor : file.header().tensors()) {
    check_signals(result.size());
    const std::span<std::byte> bytes = buffer->bytes().subspan(static_cast<std::size_t>(tensor.file_offset),
                                                               static_cast<std::size_t>(tensor.nbytes()));
    result[to_str(tensor.name)] = maker->make_checked(Array(tensor.dtype, Shape(tensor.shape), bytes, buffer, kind));
  }
  return result;
}

nb::object load_buffer(nb::object data, nb::object framework, bool copy) {
  ReaderOptions options;
  options.framework = parse_framework(from_str(framework, "framework"));
  const std::shared_ptr<const Buffer> buffer = Buffer::share(data);
  Result<File> file =
      open_watched([&](const ParseOptions& parse) { return File::from_memory(buffer->bytes(), buffer, parse); });
  if (!file) raise_read_error(file.error(), "Error while deserializing: ", "");
  if (!copy) return load_views(*file, options.framework, buffer);
  return Reader(*std::move(file), options).tensors();
}

}  // namespace

std::shared_ptr<Reader> to_reader(nb::handle checkpoint) {
  return nb::cast<const PyCheckpoint&>(checkpoint).get();
}

void define_reading(nb::module_& module) {
  define_slice(module);
  define_tensor_meta(module);
  define_file(module);
  define_stream(module);
  define_checkpoint(module);
  // All tensors of a file in memory, in a dict in the order of their bytes. buffer: any object with the buffer
  // protocol. copy=False: tensors whose bytes are aligned are views of the buffer, read-only in NumPy if the buffer is.
  module.def("_load", &load_buffer, nb::arg("buffer").none(), nb::arg("framework").none(), nb::kw_only(),
             nb::arg("copy") = true);
}

}  // namespace safetensors::python
