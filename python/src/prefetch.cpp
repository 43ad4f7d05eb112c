// The classes PrefetchLoader and TensorStream. A BackgroundLoad keeps the planned tensors until they are taken. Each is
// taken once: a loader makes a tensor of the framework and forgets it. While a call waits, it looks for signals 20
// times per second.
#include "prefetch.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "background_load.h"
#include "prefetch_plan.h"

namespace safetensors::python {
namespace {

constexpr std::chrono::milliseconds kNoWait{0};
constexpr std::chrono::milliseconds kSignalInterval{50};  // between two checks for Ctrl-C
constexpr std::uint64_t kMaxThreads = 256;

constexpr const char* kClosed = "prefetch loader closed";

// Waits without the GIL until look(limit) returns true, and runs signal handlers in between. Raises the error that look
// returns. prefix: begins the text of that exception.
template <class Look>
void wait_for(const std::string& prefix, Look&& look) {
  Result<bool> done = look(kNoWait);
  while (done && !*done) {
    check_signals();
    const WithoutGil released;
    done = look(kSignalInterval);
  }
  if (done) return;
  const Error& error = done.error();
  if (error.code == Errc::cancelled) raise(prefix + kClosed);
  if (error.code == Errc::out_of_memory) raise_read_error(error, "", "");
  raise(prefix + error.message, &error);
}

// Makes tensors of the framework. For a device other than the CPU, the framework copies them there.
class TensorFactory {
 public:
  TensorFactory(std::shared_ptr<Maker> maker, const Device& device) : maker_(std::move(maker)), cpu_(device.cpu()) {}

  [[nodiscard]] bool has(Dtype dtype) const { return maker_->has(dtype); }
  [[nodiscard]] nb::object make(const Array& array, const std::string& prefix) const {
    if (cpu_) return maker_->make(array);
    try {
      return maker_->make(array);
    } catch (const nb::python_error& error) {
      raise_refused(error, prefix);
    }
  }
  // Raises SafetensorError if the device cannot be used. Call it before anything is read.
  void probe() const {
    if (!cpu_) (void)make(Array(Dtype::U8, Shape({0}), {}, nullptr, MemoryKind::owned), "");
  }

 private:
  std::shared_ptr<Maker> maker_;
  bool cpu_;
};

class PrefetchLoader {
 public:
  PrefetchLoader(const Header& header, const std::vector<Planned>& planned, TensorFactory factory)
      : header_(header), factory_(std::move(factory)) {
    names_.reserve(planned.size());
    for (const Planned& item : planned) {
      picks_.push_back(item.picks);
      check_signals(names_.size());
      index_.emplace(header_.find(item.tensor.name()), names_.size());
      names_.push_back(to_str(item.tensor.name()));
    }
  }
  PrefetchLoader(PrefetchLoader&&) = default;
  PrefetchLoader& operator=(PrefetchLoader&&) = delete;
  ~PrefetchLoader() {
    if (!load_) return;
    const WithoutGil released;
    load_.reset();
  }

  // Called once, before any other function.
  void begin(BackgroundLoad::Owner load) noexcept { load_ = std::move(load); }

  [[nodiscard]] const std::vector<nb::object>& names() const noexcept { return names_; }
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
    const auto found = index_.find(header_.find(name));
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] BackgroundLoad& load() const {
    if (load_->forked())
      raise("a prefetch loader reads only in the process that made it: open the file again in the forked child");
    return *load_;
  }
  nb::object take(std::size_t item);
  nb::object make(std::size_t item, Array array, const std::string& prefix);
  void close();

 private:
  Header header_;  // finds names by a keyed hash, so that a file cannot choose names that collide
  TensorFactory factory_;
  std::vector<nb::object> names_;
  std::map<const TensorInfo*, std::size_t> index_;  // indices of names_, by entry of header_
  BackgroundLoad::Owner load_;
  std::vector<Picks> picks_;
};

nb::object PrefetchLoader::take(std::size_t item) {
  BackgroundLoad& load = this->load();
  const std::string prefix = printable(nb::cast<std::string>(names_[item])) + ": ";
  Array array;
  wait_for(prefix, [&](std::chrono::milliseconds limit) { return load.take(item, &array, limit); });
  return make(item, std::move(array), prefix);
}

// If the device refuses the tensor, it can be taken again.
nb::object PrefetchLoader::make(std::size_t item, Array array, const std::string& prefix) {
  try {
    if (!picks_[item].empty()) array = pick(std::move(array), picks_[item]);
    nb::object made = factory_.make(array, prefix);
    const WithoutGil released;  // a tensor on another device is a copy, so this may free much memory
    array = Array();
    return made;
  } catch (...) {
    load_->give_back(item, std::move(array));
    throw;
  }
}

void PrefetchLoader::close() {
  if (load_->forked()) return;
  const WithoutGil released;
  load_->close();
}

// The iterator of a loader. All iterators of one loader share its tensors.
struct TensorStream {
  nb::object loader;
};

using Self = nb::pointer_and_handle<PrefetchLoader>;

nb::object take(Self self, nb::object name) {
  const std::string_view text = from_name(name);
  const std::optional<std::size_t> item = self.p->find(text);
  if (!item) raise_missing("tensor " + printable(text) + " is not in the prefetch plan", name);
  return self.p->take(*item);
}

nb::object next(TensorStream& stream) {
  PrefetchLoader& loader = *nb::inst_ptr<PrefetchLoader>(stream.loader);
  BackgroundLoad& load = loader.load();
  std::size_t item = 0;
  Array array;
  wait_for("", [&](std::chrono::milliseconds limit) { return load.take_next(&item, &array, limit); });
  if (item == loader.names().size()) throw nb::stop_iteration();
  return nb::make_tuple(loader.names()[item], loader.make(item, std::move(array), ""));
}

struct Request {
  std::shared_ptr<Opened> opened;
  Device device;
  std::vector<Planned> planned;
  unsigned threads;
};

Request parse_request(nb::handle plan, nb::handle device, nb::handle threads,
                      const std::function<std::shared_ptr<Opened>()>& open) {
  if (!plan.is_none() && !PyDict_Check(plan.ptr()))
    raise_type_error("'" + name_of_type(plan) + "' object is not an instance of 'dict'");
  Device wanted = device.is_none() ? Device() : parse_device(device);
  const auto readers = static_cast<unsigned>(std::min(to_unsigned(threads), kMaxThreads));
  std::shared_ptr<Opened> opened = open();
  if (device.is_none()) wanted = opened->device();
  const Framework framework = opened->framework();
  if (!wanted.cpu() && framework != Framework::torch && framework != Framework::paddle)
    raise("prefetch is only compatible with framework=\"pt\"");
  std::vector<Planned> planned = parse_prefetch_plan(plan, *opened);
  return {std::move(opened), std::move(wanted), std::move(planned), readers};
}

}  // namespace

nb::object start_prefetch(nb::handle plan, nb::handle device, nb::handle threads,
                          const std::function<std::shared_ptr<Opened>()>& open) {
  const Request request = parse_request(plan, device, threads, open);
  Opened& opened = *request.opened;
  const bool same = request.device.name == opened.device().name;
  TensorFactory factory(same ? opened.maker() : make_maker(opened.framework(), request.device), request.device);
  for (const Planned& item : request.planned) {
    const Dtype dtype = item.tensor.dtype();
    if (dtype == Dtype::UNKNOWN)
      raise("prefetch cannot hand out `" + printable(item.tensor.name()) + "`: its dtype is unknown");
    if (!factory.has(dtype))
      raise("prefetch cannot hand out dtype " + std::string(to_string(dtype)) + ": torch has no matching dtype");
  }
  factory.probe();
  ReadPlan reads;
  for (const Planned& item : request.planned) {
    check_signals(reads.size());
    if (Status status = reads.add(item.tensor, item.slice); !status)
      raise_read_error(status.error(), printable(item.tensor.name()) + ": ", "");
  }
  PrefetchLoader loader(opened.header(), request.planned, std::move(factory));
  Result<BackgroundLoad::Owner> load = [&] {
    const WithoutGil released;
    return BackgroundLoad::start(reads, request.threads);
  }();
  if (!load) raise_read_error(load.error(), "", "");
  loader.begin(*std::move(load));
  return nb::cast(std::move(loader));
}

void define_prefetch(nb::module_& module) {
  nb::class_<TensorStream>(module, "TensorStream", nb::type_slots(refuse_new_slots),
                           "An iterator of (name, tensor) over the tensors of a PrefetchLoader that nobody has taken.")
      .def("__iter__", [](nb::pointer_and_handle<TensorStream> self) { return nb::borrow(self.h); })
      .def("__next__", &next);
  nb::class_<PrefetchLoader>(
      module, "PrefetchLoader", nb::type_slots(refuse_new_slots),
      "Tensors that are read in the background. Take them by name, or iterate.\n\n"
      "Each tensor is taken once, and then it is yours alone. Also a context manager.\n"
      "It stays valid after its safe_open is closed. Any number of threads may use it, but not a forked child.")
      .def(
          "names",
          [](const PrefetchLoader& self) {
            nb::list names;
            for (const nb::object& name : self.names()) {
              check_signals(names.size());
              names.append(name);
            }
            return names;
          },
          "The names in the plan, in the order of their bytes in the file.")
      .def("take", &take, nb::arg("name").none(),
           "Waits for a tensor and returns it. Raises SafetensorError for a name that is not in the plan or was\n"
           "taken before, after close(), and if reading failed.")
      .def(
          "close", [](Self self) { self.p->close(); },
          "Stops reading and releases the memory. Tensors that were taken stay valid. Idempotent.")
      .def("__len__", [](const PrefetchLoader& self) { return self.names().size(); })
      .def(
          "__iter__", [](Self self) { return TensorStream{nb::borrow(self.h)}; },
          "An iterator of (name, tensor) over the tensors that nobody has taken, in the order in which they are\n"
          "complete.")
      .def(
          "__enter__", [](Self self) { return nb::borrow(self.h); }, "Returns the loader.")
      .def(
          "__exit__", [](Self self, nb::args) { self.p->close(); }, "The same as close.");
}

}  // namespace safetensors::python
