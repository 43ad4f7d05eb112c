// safe_open.prefetch reads tensors in the background: the classes PrefetchLoader and TensorStream. A BackgroundLoad
// keeps the planned tensors until they are taken. Each is taken once: a loader makes a tensor of the framework and
// forgets it. While a call waits, it looks for signals 20 times per second.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "module.h"
#include "os/process.h"
#include "prefetch_plan.h"
#include "reader.h"

namespace safetensors::python {
namespace {

constexpr std::chrono::milliseconds kNoWait{0};
constexpr std::chrono::milliseconds kSignalInterval{50};  // between two checks for Ctrl-C
constexpr std::uint64_t kMaxThreads = 256;

constexpr const char* kClosed = "prefetch loader closed";

// Keeps the complete items of a stream until they are taken, so that an item can be asked for by name, in any order.
// The threads that wait for items take them from the stream: one thread at a time waits for the stream and stores the
// next item, even if another thread needs it. The others wait for this thread. While nobody waits, reading goes on up
// to the memory budget of the stream. Items that were complete before the one that a thread waits for are held beyond
// it. Never takes the GIL.
class BackgroundLoad {
 public:
  // Leaks the object in a forked child: a thread of the parent may have held its mutex.
  struct Delete {
    void operator()(BackgroundLoad* load) const noexcept {
      if (!load->forked()) delete load;
    }
  };
  using Owner = std::unique_ptr<BackgroundLoad, Delete>;

  // Starts to read every item of the plan. threads: reader threads, 0 chooses. Error: out_of_memory.
  [[nodiscard]] static Result<Owner> start(const ReadPlan& plan, unsigned threads) {
    Result<Stream> stream = plan.stream({.threads = threads});
    if (!stream) return std::move(stream).error();
    return Owner(new BackgroundLoad(*std::move(stream), plan.size()));
  }

  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // Returns whether this process is a forked child. Then no other function may be called.
  [[nodiscard]] bool forked() const noexcept { return os::process_id() != process_; }

  // Waits until the item is complete, for at most `limit`. If it is, stores its array in *array and returns true.
  // Errors: invalid_argument (the item was taken before); the reason why it will never be complete; cancelled after
  // close().
  [[nodiscard]] Result<bool> take(std::size_t item, Array* array, std::chrono::milliseconds limit) {
    return wait_until(limit, [&]() -> Result<bool> {
      if (taken_[item])
        return Error{
            .code = Errc::invalid_argument,
            .message = "tensor already delivered (prefetch hands each tensor out once, via take or iteration)"};
      return hand_out(item, array);
    });
  }
  // The same for the first item to be complete that was not taken. Stores its index in *item. If all items were taken,
  // *item is the number of items.
  [[nodiscard]] Result<bool> take_next(std::size_t* item, Array* array, std::chrono::milliseconds limit) {
    return wait_until(limit, [&]() -> Result<bool> {
      for (; !order_.empty(); order_.pop_front()) {
        if (hand_out(*item = order_.front(), array)) return true;  // the next call removes it from the order
      }
      *item = taken_.size();
      return taken_count_ == taken_.size();
    });
  }
  // Gives back an item that was taken, so that it can be taken again. Does nothing after close().
  void give_back(std::size_t item, Array array) {
    const std::lock_guard lock(mutex_);
    taken_[item] = false;
    --taken_count_;
    if (!closed_ && complete_.emplace(item, std::move(array)).second) order_.push_front(item);
    changed_.notify_all();
  }

  // Stops reading, waits for the threads and releases all memory. Idempotent, from any thread.
  void close() noexcept {
    std::optional<Stream> ended;  // these are destroyed after the mutex is released
    std::map<std::size_t, Array> complete;
    std::unique_lock lock(mutex_);
    if (!failure_) failure_ = Error{.code = Errc::cancelled};
    closed_ = true;
    complete.swap(complete_);
    if (stream_) stream_->cancel();
    changed_.notify_all();
    changed_.wait(lock, [&] { return !waiting_; });
    ended.swap(stream_);
  }

 private:
  BackgroundLoad(Stream stream, std::size_t items) : stream_(std::move(stream)), remaining_(items), taken_(items) {}
  ~BackgroundLoad() { close(); }
  template <class Done>
  Result<bool> wait_until(std::chrono::milliseconds limit, Done done) {
    const auto end = std::chrono::steady_clock::now() + limit;
    std::optional<Stream> ended;  // destroyed after the mutex is released: it joins threads and closes files
    std::unique_lock lock(mutex_);
    while (true) {
      if (closed_ && taken_count_ != taken_.size()) return *failure_;
      Result<bool> found = done();
      if (!found || *found) return found;
      if (failure_) return *failure_;
      const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
      if (remaining.count() <= 0) return false;
      if (waiting_) {
        changed_.wait_until(lock, end);
        continue;
      }
      waiting_ = true;
      lock.unlock();
      const bool ready = stream_->wait_for(remaining.count());
      lock.lock();
      waiting_ = false;
      if (ready) store_next();
      if (remaining_ == 0) ended.swap(stream_);
      changed_.notify_all();  // also if nothing came: another thread may go on longer than this one
    }
  }
  // Called under the mutex when next() does not wait.
  void store_next() {
    Result<std::optional<StreamItem>> next = stream_->next();
    if (!next) {
      failure_ = std::move(next).error();
    } else if (*next) {
      order_.push_back((*next)->index);
      complete_.emplace((*next)->index, std::move((*next)->array));
      --remaining_;
    }
  }
  // Returns false if the item is not complete, or was taken.
  bool hand_out(std::size_t item, Array* array) {
    const auto found = complete_.extract(item);
    if (found.empty()) return false;
    taken_[item] = true;
    ++taken_count_;
    *array = std::move(found.mapped());
    return true;
  }

  const std::uint64_t process_ = os::process_id();
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool waiting_ = false;                   // a thread waits for the stream, without the mutex
  std::optional<Stream> stream_;           // empty after the last item, and after close()
  std::size_t remaining_;                  // number of items that are not complete
  std::map<std::size_t, Array> complete_;  // not taken, by item
  std::deque<std::size_t> order_;          // items in the order of completion; also some that were taken
  std::vector<bool> taken_;
  std::size_t taken_count_ = 0;
  std::optional<Error> failure_;
  bool closed_ = false;
};

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

class PrefetchLoader {
 public:
  PrefetchLoader(const Header& header, const std::vector<Planned>& planned, std::shared_ptr<Maker> maker, Device device)
      : header_(header), maker_(std::move(maker)), device_(std::move(device)) {
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
  std::shared_ptr<Maker> maker_;
  Device device_;
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
    nb::object made = make_on(device_, *maker_, array, prefix);
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

}  // namespace

nb::object start_prefetch(nb::handle plan, nb::handle device, nb::handle threads,
                          const std::function<std::shared_ptr<Reader>()>& open) {
  if (!plan.is_none() && !PyDict_Check(plan.ptr()))
    raise_type_error("'" + name_of_type(plan) + "' object is not an instance of 'dict'");
  Device wanted = device.is_none() ? Device() : parse_device(device);
  const auto readers = static_cast<unsigned>(std::min(to_unsigned(threads), kMaxThreads));
  const std::shared_ptr<Reader> reader = open();
  const ReaderOptions& opened = reader->options();
  if (device.is_none()) wanted = opened.device;
  if (!wanted.cpu() && opened.framework != Framework::torch && opened.framework != Framework::paddle)
    raise("prefetch is only compatible with framework=\"pt\"");
  const std::vector<Planned> planned = parse_prefetch_plan(plan, *reader);
  const std::shared_ptr<Maker> maker =
      wanted.name == opened.device.name ? reader->maker() : make_probed_maker(opened.framework, wanted, "");
  for (const Planned& item : planned) {
    const Dtype dtype = item.tensor.dtype();
    if (dtype == Dtype::UNKNOWN)
      raise("prefetch cannot hand out `" + printable(item.tensor.name()) + "`: its dtype is unknown");
    if (!maker->has(dtype))
      raise("prefetch cannot hand out dtype " + std::string(to_string(dtype)) + ": torch has no matching dtype");
  }
  ReadPlan reads;
  for (const Planned& item : planned) {
    check_signals(reads.size());
    if (Status status = reads.add(item.tensor, item.slice); !status)
      raise_read_error(status.error(), printable(item.tensor.name()) + ": ", "");
  }
  PrefetchLoader loader(reader->header(), planned, maker, wanted);
  Result<BackgroundLoad::Owner> load = [&] {
    const WithoutGil released;
    return BackgroundLoad::start(reads, readers);
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
