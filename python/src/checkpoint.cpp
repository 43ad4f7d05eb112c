// The classes _Checkpoint and _Stream. A _Checkpoint opens many files as one set of tensors and reads many of them by
// one plan. A _Stream gives the items of a plan one by one. Both release the GIL while bytes move, and look for
// signals.
#include <nanobind/stl/shared_ptr.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "accept.h"
#include "checkpoint.h"
#include "file/file.h"
#include "index.h"
#include "memory.h"
#include "module.h"
#include "os/process.h"
#include "plan/budget.h"
#include "requests.h"
#include "results.h"
#include "tensor_meta.h"

namespace safetensors::python {
namespace {

// Returns the caller's own array if the result was read into it, otherwise a new array of the framework.
nb::object finish(Maker& maker, Array array, const nb::object& target) {
  return target.is_valid() ? target : maker.make(array);
}

// Gives the items of a plan one by one while the next ones are read.
class PyStream {
 public:
  PyStream(const PyCheckpoint& checkpoint, Requests requests, ReadOptions options, nb::handle progress = nb::none())
      : watch_(progress), targets_(std::move(requests.targets)), maker_(checkpoint.maker()) {
    options.progress = watch_.callback();
    Result<Stream> stream = requests.plan.stream(options);
    if (!stream) raise_read_error(stream.error(), "", "");
    stream_ = std::make_shared<Stream>(*std::move(stream));
  }
  PyStream(const PyStream&) = delete;
  PyStream& operator=(const PyStream&) = delete;
  ~PyStream() {
    const WithoutGil released;
    stream_.reset();
  }

  // Returns (index, array). Raises StopIteration at the end and after close().
  nb::object next() {
    if (forked()) raise("a stream cannot be used in a forked child: make one there");
    if (watch_.asking()) raise("a stream cannot be read by the handler of a signal that came while it is read");
    std::exception_ptr raised;
    Result<std::optional<StreamItem>> item = [&]() -> Result<std::optional<StreamItem>> {
      const WithoutGil released;
      const std::lock_guard lock(turn_);
      const std::shared_ptr<Stream> stream = this->stream();  // the last reference if close() runs meanwhile
      if (!stream) return std::optional<StreamItem>();
      Result<std::optional<StreamItem>> next = stream->next();
      raised = watch_.take();
      return next;
    }();
    if (raised) std::rethrow_exception(raised);
    if (!item && item.error().code == Errc::cancelled) throw nb::stop_iteration();
    if (!item) raise_read_error(item.error(), "", "");
    if (!*item) throw nb::stop_iteration();
    const nb::object& target = targets_[(*item)->index];
    return nb::make_tuple((*item)->index, finish(*maker_, std::move((*item)->array), target));
  }

  // Waits for a next() that runs in another thread. If a signal handler inside of a next() of this thread calls
  // close(), waiting would deadlock: that next() ends after the handler.
  void close() {
    if (forked()) return;
    std::shared_ptr<Stream> stream;
    {
      const std::lock_guard lock(mutex_);
      stream = std::move(stream_);
    }
    if (!stream) return;
    const bool within = watch_.asking();
    const WithoutGil released;
    stream->cancel();
    if (within) return;
    const std::lock_guard lock(turn_);
    stream.reset();
  }

 private:
  [[nodiscard]] bool forked() const noexcept { return os::process_id() != process_; }
  std::shared_ptr<Stream> stream() {
    const std::lock_guard lock(mutex_);
    return stream_;
  }
  const std::uint64_t process_ = os::process_id();
  Watch watch_;  // used by the thread that holds turn_
  std::vector<nb::object> targets_;
  std::shared_ptr<Maker> maker_;
  std::mutex turn_;   // held by the thread in next(); never locked with the GIL held
  std::mutex mutex_;  // guards the members below; never held while waiting for the GIL
  std::shared_ptr<Stream> stream_;
};

nb::list names(const PyCheckpoint& self) {
  nb::list list;
  for (const Tensor& tensor : self.get().tensors()) {
    check_signals(list.size());
    list.append(to_str(tensor.name()));
  }
  return list;
}

nb::list files(const PyCheckpoint& self) {
  nb::list list;
  for (const File& file : self.get().files()) list.append(from_path(file.path()));
  return list;
}

bool contains(const PyCheckpoint& self, nb::handle name) {
  if (!PyUnicode_Check(name.ptr())) return false;
  const std::optional<std::string_view> text = to_name(name, "name");
  return text && self.get().contains(*text);
}

// index: None for the whole tensor.
ResolvedSlice resolve(const Tensor& tensor, nb::handle index) {
  const Slice slice = index.is_none() ? Slice() : parse_index(index, tensor.shape());
  Result<ResolvedSlice> part = slice.resolve(tensor.dtype(), tensor.shape());
  if (!part) raise_read_error(part.error(), "", "");
  return *std::move(part);
}

nb::object meta(const PyCheckpoint& self, nb::handle name, nb::handle index) {
  const Tensor tensor = find_tensor(self.get(), name);
  const File file = tensor.file();
  const std::string_view dtype = file.header().dtype_name(tensor.info());
  if (tensor.dtype() == Dtype::UNKNOWN && index.is_none())
    return nb::make_tuple(to_str(dtype), to_list(tensor.shape()), tensor.nbytes());
  const ResolvedSlice part = resolve(tensor, index);
  return nb::make_tuple(to_str(dtype), to_list(part.shape()), part.nbytes());
}

// The metadata of the first file, or None if it has none.
nb::object metadata(const PyCheckpoint& self) {
  const Metadata pairs = self.get().metadata();
  if (!pairs.present()) return nb::none();
  nb::dict result;
  for (const auto& [key, value] : pairs) {
    check_signals(result.size());
    result[to_str(key)] = to_str(value);
  }
  return result;
}

// The faults of all files together.
nb::dict tolerated(const PyCheckpoint& self) {
  Tolerated sum;
  for (const File& file : self.get().files()) {
    const Tolerated found = file.header().tolerated();
    sum.unknown_dtypes += found.unknown_dtypes;
    sum.unused_bytes += found.unused_bytes;
  }
  return to_dict(sum);
}

// Returns whole tensors and contiguous slices as views of private maps of their files, one map per file. `requests` is
// a sequence of (name, index). Slices that are not contiguous are left out.
nb::object views(const PyCheckpoint& self, nb::handle requests) {
  std::vector<std::pair<std::shared_ptr<Opened>, std::vector<Part>>> files;
  std::map<const Opened*, std::size_t> indices;
  std::size_t round = 0;
  for (const nb::handle request : nb::iter(requests)) {
    check_signals(round++);
    const Tensor tensor = find_tensor(self.get(), request[0]);
    const nb::object index = request[1];
    const bool bytes = tensor.dtype() == Dtype::UNKNOWN && index.is_none();
    std::optional<Part> part = bytes ? all_bytes(tensor) : contiguous_part(tensor, resolve(tensor, index));
    if (!part) continue;
    const std::shared_ptr<Opened>& opened = self.opened(tensor);
    const auto [at, added] = indices.emplace(opened.get(), files.size());
    if (added) files.emplace_back(opened, std::vector<Part>());
    files[at->second].second.push_back(*std::move(part));
  }
  nb::dict result;
  for (const auto& [opened, parts] : files) opened->add_views(parts, result);
  return result;
}

// Loads through a stream, for tensors that the framework copies to a device. The stream limits the bytes that wait for
// this copy to the memory budget.
nb::list load_streamed(const PyCheckpoint& self, Requests requests, const ReadOptions& options, nb::handle progress) {
  nb::list result;
  for (std::size_t i = 0; i < requests.targets.size(); ++i) result.append(nb::none());
  PyStream stream(self, std::move(requests), options, progress);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const nb::object item = stream.next();
    result[nb::cast<std::size_t>(item[0])] = item[1];
  }
  return result;
}

nb::list load_tensors(const PyCheckpoint& self, nb::handle requests, nb::handle threads, nb::handle memory_limit,
                      nb::handle cache, nb::handle progress, nb::handle device_stream) {
  Requests made = make_requests(self.get(), requests);
  ReadOptions options = make_read_options(threads, memory_limit, cache);
  if (!device_stream.is_none())
    options.device_stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(to_unsigned(device_stream)));
  else if (!self.device().cpu())
    return load_streamed(self, std::move(made), options, progress);
  nb::list result;
  const auto add = [&](std::size_t i, nb::handle object) {
    if (i < result.size())
      result[i] = object;
    else
      result.append(object);
  };
  const Result<ReadReport> report = make_results(made.plan, options, progress, *self.maker(), made.targets, add);
  if (!report) raise_read_error(report.error(), "", "");
  return result;
}

// Loads every tensor whole and as stored. A request per tensor would take longer than the plan.
nb::dict load_all(const PyCheckpoint& self, nb::handle threads, nb::handle memory_limit, nb::handle cache,
                  nb::handle progress) {
  const ReadOptions options = make_read_options(threads, memory_limit, cache);
  ReadPlan plan;
  std::vector<const TensorInfo*> infos;
  for (const Tensor& tensor : self.get().tensors()) {
    check_signals(plan.size());
    infos.push_back(&tensor.info());
    if (const Status status = plan.add(tensor); !status) raise_read_error(status.error(), "", "");
  }
  nb::dict result;
  const auto add = [&](std::size_t i, nb::handle object) { result[to_str(infos[i]->name)] = object; };
  const Result<ReadReport> report = make_results(plan, options, progress, *self.maker(), {}, add);
  if (!report) raise_read_error(report.error(), "", "");
  return result;
}

}  // namespace

PyCheckpoint::PyCheckpoint(nb::handle paths, nb::handle framework, nb::handle device, nb::handle backend,
                           nb::handle accept)
    : framework_(parse_framework(from_str(framework, "framework"))),
      device_(parse_device(device)),
      backend_(parse_backend(from_str(backend, "backend"))) {
  check_device(framework_, device_);
  const std::vector<std::string> list = to_paths(paths);
  const Access access = backend_ == Backend::mmap    ? Access::map
                        : backend_ == Backend::pread ? Access::read
                                                     : Access::automatic;
  const Accept accepted = parse_accept(accept);
  Result<Checkpoint> opened = open_watched([&](ParseOptions parse) {
    parse.accept = accepted;
    const OpenOptions options{.access = access, .parse = std::move(parse)};
    return Checkpoint::open(list, options);
  });
  if (!opened) raise_read_error(opened.error(), "", "");
  checkpoint_.emplace(*std::move(opened));
  for (const File& file : checkpoint_->files())
    files_[&file.header()] = std::make_shared<Opened>(file, file.path(), framework_, device_, backend_);
}

const std::shared_ptr<Opened>& PyCheckpoint::opened(const Tensor& tensor) const {
  const File file = tensor.file();
  return files_.at(&file.header());
}

namespace {

// Defines the methods that read no tensor.
void define_looking(nb::class_<PyCheckpoint>& type) {
  type.def("names", &names, "The names, in the order of the files and of their bytes.")
      .def("files", &files, "The paths of the files.")
      .def(
          "framework", [](const PyCheckpoint& self) { return name_of(self.framework()); },
          "The framework, in one spelling: \"pytorch\", \"numpy\", ...")
      .def(
          "device", [](const PyCheckpoint& self) { return to_str(self.device().name); },
          "The device, in one spelling: \"cpu\", \"cuda:0\", ...")
      .def(
          "backend", [](const PyCheckpoint& self) { return name_of(self.backend()); },
          "\"auto\", \"pread\" or \"mmap\".")
      .def(
          "index_metadata", [](const PyCheckpoint& self) { return to_str(self.get().index_metadata()); },
          "The object metadata of the index as JSON, or an empty text.")
      .def("tolerated", &tolerated, "The faults that `accept` allowed, of all files together. See safe_open.")
      .def("metadata", &metadata, "The metadata of the first file, or None if it has none.")
      .def(
          "get_tensor_meta",
          [](const PyCheckpoint& self, nb::object name) { return make_tensor_meta(find_tensor(self.get(), name)); },
          nb::arg("name").none())
      .def("meta", &meta, nb::arg("name").none(), nb::arg("index") = nb::none(),
           "(dtype, shape, number of bytes) of a tensor, or of the slice of it that `index` gives.")
      .def("__len__", [](const PyCheckpoint& self) { return self.get().size(); })
      .def("__contains__", &contains, nb::arg("name").none());
}

// Defines the methods that read.
void define_reading(nb::class_<PyCheckpoint>& type) {
  type.def(
          "get_tensor",
          [](const PyCheckpoint& self, nb::object name) {
            const Tensor tensor = find_tensor(self.get(), name);
            return self.opened(tensor)->tensor(tensor);
          },
          nb::arg("name").none())
      .def(
          "get_slice",
          [](const PyCheckpoint& self, nb::object name) {
            const Tensor tensor = find_tensor(self.get(), name);
            return make_slice(self.opened(tensor), tensor);
          },
          nb::arg("name").none())
      .def("views", &views, nb::arg("requests").none(), "A dict of tensors and slices that are views of private maps.")
      .def("load", &load_tensors, nb::arg("requests").none(), nb::kw_only(), nb::arg("threads").none(),
           nb::arg("memory_limit").none(), nb::arg("cache").none(), nb::arg("progress").none(),
           nb::arg("device_stream") = nb::none(),
           "The results of the requests, in their order. device_stream: a CUstream. All targets are then on CUDA\n"
           "devices, and copies begin after the work that this stream already has.")
      .def("load_all", &load_all, nb::kw_only(), nb::arg("threads").none(), nb::arg("memory_limit").none(),
           nb::arg("cache").none(), nb::arg("progress").none(),
           "A dict of all tensors, whole and as stored, in new memory on the CPU.")
      .def(
          "stream",
          [](const PyCheckpoint& self, nb::object requests, nb::object threads, nb::object memory_limit,
             nb::object cache, nb::object progress) {
            return std::make_shared<PyStream>(self, make_requests(self.get(), requests),
                                              make_read_options(threads, memory_limit, cache), progress);
          },
          nb::arg("requests").none(), nb::kw_only(), nb::arg("threads").none(), nb::arg("memory_limit").none(),
          nb::arg("cache").none(), nb::arg("progress").none() = nb::none(), "An iterator of (index, array).");
}

}  // namespace

void define_checkpoint(nb::module_& module) {
  module.def(
      "_default_memory_limit", [] { return plan::kDefaultStreamBudget; },
      "The budget of a stream that gets none, in bytes.");
  nb::class_<PyStream>(
      module, "_Stream", nb::type_slots(refuse_new_slots),
      "An iterator of (index, array) over the items of a plan, in the order in which they are complete.")
      .def("__next__", &PyStream::next)
      .def("close", &PyStream::close, "Stops reading and waits for the reads in progress.");
  nb::class_<PyCheckpoint> type(module, "_Checkpoint", "Files opened as one set of tensors. Any thread may use it.");
  type.def(
      "__init__",
      [](nb::pointer_and_handle<PyCheckpoint> self, nb::object paths, nb::object framework, nb::object device,
         nb::object backend,
         nb::object accept) { initialize(self, PyCheckpoint(paths, framework, device, backend, accept)); },
      nb::arg("paths").none(), nb::arg("framework").none(), nb::arg("device").none(), nb::arg("backend").none(),
      nb::arg("accept").none() = nb::none());
  define_looking(type);
  define_reading(type);
}

}  // namespace safetensors::python
