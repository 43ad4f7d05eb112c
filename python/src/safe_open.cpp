// The classes safe_open and PySafeSlice. They parse arguments. Opened does the reading.
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>

#include "accept.h"
#include "module.h"
#include "opened.h"
#include "prefetch.h"
#include "prefetch_plan.h"
#include "requests.h"
#include "tensor_meta.h"

namespace safetensors::python {
namespace {

// The text as Python shows it: in quotes, with escapes.
std::string quoted(const std::string& text) {
  return nb::cast<std::string>(nb::repr(to_str(text)));
}

constexpr const char* kOpening = "Error while deserializing header: ";

// Holds the open file until close(). Slices and loaders keep their own reference to it.
class SafeOpen {
 public:
  explicit SafeOpen(std::shared_ptr<Opened> opened) : path_(opened->path()), opened_(std::move(opened)) {}

  [[nodiscard]] std::shared_ptr<Opened> get() const {
    if (std::shared_ptr<Opened> opened = if_open()) return opened;
    raise("File is closed");
  }
  // "safe_open('a.safetensors', framework='numpy', backend='mmap', 3 tensors)"
  [[nodiscard]] std::string repr() const {
    const std::shared_ptr<Opened> opened = if_open();
    const std::string head = "safe_open(" + quoted(path_) + ", ";
    if (!opened) return head + "closed)";
    return head + "framework='" + name_of(opened->framework()) + "', backend='" + name_of(opened->backend()) + "', " +
           nb::cast<std::string>(import_own("_base.options").attr("count_text")(opened->header().size())) + ")";
  }
  void close() {
    std::shared_ptr<Opened> closed;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    closed = std::move(opened_);
  }

 private:
  [[nodiscard]] std::shared_ptr<Opened> if_open() const {
    const std::lock_guard lock(mutex_);
    return opened_;
  }

  const std::string path_;
  mutable std::mutex mutex_;
  std::shared_ptr<Opened> opened_;
};

constexpr const char* kBackendVariable = "SAFETENSORS_BACKEND";

struct Wanted {
  Framework framework;
  Device device;
  std::optional<Backend> backend;  // nullopt: the file system decides
  IndexErrors index_errors;
  Accept accept;
};

// "mmap" is the default, and programs that pass it mean no more than the default. So it asks for a map only where a map
// is safe. The environment variable replaces it, for programs that cannot be changed. The other words are kept.
std::optional<Backend> choose_backend(Backend argument) {
  if (argument != Backend::mmap) return argument;
  const nb::object given = import_module("os").attr("environ").attr("get")(kBackendVariable, "");
  const std::string_view name = from_str(given, kBackendVariable);
  if (name.empty()) return std::nullopt;
  return parse_backend(name, std::string("environment variable ") + kBackendVariable + ": ");
}

Wanted parse_wanted(nb::handle framework, nb::handle device, nb::handle backend, nb::handle accept) {
  const Framework chosen = parse_framework(from_str(framework, "framework"));
  Device parsed = parse_device(device);
  const Backend argument = parse_backend(from_str(backend, "backend"));
  const Wanted wanted{chosen, std::move(parsed), choose_backend(argument),
                      argument == Backend::mmap ? IndexErrors::torch : IndexErrors::reference, parse_accept(accept)};
  check_device(wanted.framework, wanted.device);
  return wanted;
}

std::shared_ptr<Opened> finish(Result<File> file, const std::string& path, const Wanted& wanted) {
  if (!file) raise_read_error(file.error(), kOpening, path);
  const Backend backend = wanted.backend ? *wanted.backend : backend_for(*file);
  return std::make_shared<Opened>(*std::move(file), path, wanted.framework, wanted.device, backend,
                                  wanted.index_errors);
}

OpenOptions options_of(const Wanted& wanted, ParseOptions parse) {
  parse.accept = wanted.accept;
  if (!wanted.backend) return {.access = Access::automatic, .parse = parse};
  return {.access = *wanted.backend == Backend::mmap ? Access::map : Access::read, .parse = parse};
}

std::shared_ptr<Opened> open_path(nb::handle filename, nb::handle framework, nb::handle device, nb::handle backend,
                                  nb::handle accept) {
  const std::string path = to_path(filename);
  const Wanted wanted = parse_wanted(framework, device, backend, accept);
  Result<File> file =
      open_watched([&](const ParseOptions& parse) { return File::open(path, options_of(wanted, parse)); });
  return finish(std::move(file), path, wanted);
}

std::shared_ptr<Opened> open_handle(nb::handle f, nb::handle framework, nb::handle device, nb::handle backend) {
  const Wanted wanted = parse_wanted(framework, device, backend, nb::none());
  const auto descriptor = nb::cast<int>(f.attr("fileno")());
  const nb::object name = f.attr("name");
  const std::string path = PyLong_Check(name.ptr()) ? nb::cast<std::string>(nb::str(name)) : to_path(name);
  Result<File> file =
      open_watched([&](const ParseOptions& parse) { return File::from_fd(descriptor, options_of(wanted, parse)); });
  return finish(std::move(file), path, wanted);
}

nb::list names_of(const TensorList& tensors) {
  nb::list names = nb::steal<nb::list>(own(PyList_New(static_cast<Py_ssize_t>(tensors.size()))).release());
  Py_ssize_t i = 0;
  for (const TensorInfo& tensor : tensors) {
    check_signals(static_cast<std::size_t>(i));
    if (PyList_SetItem(names.ptr(), i++, to_str(tensor.name).release().ptr()) != 0) throw nb::python_error();
  }
  return names;
}

nb::list keys(const SafeOpen& self) {
  const std::shared_ptr<Opened> opened = self.get();
  const Result<TensorList> tensors = opened->header().tensors_by_name();
  if (!tensors) raise_read_error(tensors.error(), "", "");
  return names_of(*tensors);
}

nb::object metadata_of(const SafeOpen& self) {
  const std::shared_ptr<Opened> opened = self.get();
  const Metadata pairs = opened->header().metadata();
  if (!pairs.present()) return nb::none();
  nb::dict result;
  for (const auto& [key, value] : pairs) {
    check_signals(result.size());
    result[to_str(key)] = to_str(value);
  }
  return result;
}

bool contains_name(const SafeOpen& self, nb::handle name) {
  const std::shared_ptr<Opened> opened = self.get();
  if (!PyUnicode_Check(name.ptr())) return false;
  const std::optional<std::string_view> text = to_name(name, "name");
  return text && opened->header().find(*text) != nullptr;
}

// A tensor of an open file, to be read in slices.
struct PySafeSlice {
  std::shared_ptr<Opened> opened;
  Tensor tensor;

  [[nodiscard]] std::string repr() const {
    return "PySafeSlice(" + quoted(std::string(tensor.name())) + ", " +
           printable(opened->header().dtype_name(tensor.info())) + ", " + to_string(tensor.shape()) + ")";
  }
};

}  // namespace

nb::object make_slice(std::shared_ptr<Opened> opened, Tensor tensor) {
  return nb::cast(PySafeSlice{std::move(opened), std::move(tensor)});
}

namespace {

void define_slice(nb::module_& module) {
  nb::class_<PySafeSlice>(
      module, "PySafeSlice", nb::type_slots(refuse_new_slots),
      "A tensor of an open file, read in slices: `slice[2:4, ..., -1]` reads these elements only.\n\n"
      "It stays valid after the file is closed. Any thread may use it.")
      .def(
          "get_shape", [](const PySafeSlice& self) { return to_list(self.tensor.shape()); },
          "The tensor's shape, in elements.")
      .def(
          "get_dtype",
          [](const PySafeSlice& self) { return to_str(self.opened->header().dtype_name(self.tensor.info())); },
          "The tensor's dtype in the file, such as \"F32\".")
      .def("__repr__", &PySafeSlice::repr)
      .def(
          "__getitem__",
          [](const PySafeSlice& self, nb::object index) { return self.opened->slice(self.tensor, index); },
          nb::arg("index").none(),
          "A slice of the tensor. For torch, any index of torch. For other frameworks, integers, slices of any\n"
          "step and one Ellipsis, where an index past the end is an error. Raises SafetensorError.");
}

// Defines the methods that return names, metadata and tensors.
void define_tensors(nb::class_<SafeOpen>& type) {
  type.def(
          "tolerated", [](const SafeOpen& self) { return to_dict(self.get()->header().tolerated()); },
          "The faults that `accept` allowed: a dict with the numbers unknown_dtypes and unused_bytes,\n"
          "or an empty dict if the file has none.")
      .def("keys", &keys, "The tensors' names, sorted by their bytes.")
      .def(
          "offset_keys",
          [](const SafeOpen& self) {
            const std::shared_ptr<Opened> opened = self.get();
            return names_of(opened->header().tensors());
          },
          "The tensors' names, in the order of their bytes in the file.")
      .def("metadata", &metadata_of, "The metadata of the header as a dict, or None if the header has none.")
      .def(
          "get_tensor",
          [](const SafeOpen& self, nb::object name) {
            const std::shared_ptr<Opened> opened = self.get();
            return opened->tensor(opened->find(from_str(name, "name")));
          },
          nb::arg("name").none(), "Returns one tensor. Raises SafetensorError for a name that is not in the file.")
      .def(
          "get_tensors", [](const SafeOpen& self) { return self.get()->tensors(); },
          "All tensors, in a dict in the order of their bytes.")
      .def(
          "get_slice",
          [](const SafeOpen& self, nb::object name) {
            std::shared_ptr<Opened> opened = self.get();
            Tensor tensor = opened->find(from_str(name, "name"));
            return make_slice(std::move(opened), std::move(tensor));
          },
          nb::arg("name").none(), "Returns an object that reads slices of one tensor. Nothing is read yet.")
      .def(
          "get_tensor_meta",
          [](const SafeOpen& self, nb::object name) {
            const std::string_view text = from_name(name);
            return make_tensor_meta(self.get()->find(text));
          },
          nb::arg("name").none(), "Returns the entry of one tensor in the header. Nothing is read.")
      .def(
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

}  // namespace

void define_safe_open(nb::module_& module) {
  define_slice(module);
  nb::class_<SafeOpen> type(
      module, "safe_open",
      "An open file. Each tensor is loaded on request.\n\n"
      "filename: str, bytes or os.PathLike. framework: \"pt\", \"np\", \"tf\", \"jax\", \"mlx\" or\n"
      "\"paddle\". device: where tensors go (torch and paddle). backend: \"mmap\" (tensors are views\n"
      "of a map of the file, and a page is read on first access), \"pread\" (tensors own their memory,\n"
      "read through the page cache) or \"auto\" (the same, but bytes that are not in the page cache\n"
      "are read directly from the device). On network and user-space (FUSE) file systems, \"mmap\" is\n"
      "the same as \"pread\". The environment variable SAFETENSORS_BACKEND replaces \"mmap\" by another\n"
      "backend. If the variable is \"mmap\", files are mapped on every file system. accept: faults of the\n"
      "file that are no errors, \"unknown_dtypes\" and \"unused_bytes\", or one of them.\n\n"
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
      .def("__repr__", &SafeOpen::repr)
      .def("__len__", [](const SafeOpen& self) { return self.get()->header().size(); })
      .def("__contains__", &contains_name, nb::arg("name").none())
      .def("__iter__", [](const SafeOpen& self) { return nb::iter(keys(self)); });
  define_tensors(type);
  module.def(
      "_safe_open_handle",
      [](nb::object f, nb::object framework, nb::object device, nb::object backend) {
        return std::make_unique<SafeOpen>(open_handle(f, framework, device, backend));
      },
      nb::arg("f").none(), nb::arg("framework").none(), nb::arg("device").none() = "cpu", nb::kw_only(),
      nb::arg("backend").none() = "mmap",
      "safe_open for a file object that is open for reading. You may close the object afterwards.");
}

}  // namespace safetensors::python
