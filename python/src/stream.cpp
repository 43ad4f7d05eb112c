// The class _Stream, which gives the items of a plan one by one, and the loads of many tensors. They release the GIL
// while bytes move, and look for signals.
#include <nanobind/stl/shared_ptr.h>

#include <cstdint>
#include <mutex>
#include <string>

#include "module.h"
#include "os/process.h"
#include "plan/budget.h"
#include "requests.h"
#include "watch.h"

namespace safetensors::python {
namespace {

// Gives the items of a plan one by one while the next ones are read.
class PyStream {
 public:
  PyStream(Reader& reader, Requests requests, const LoadOptions& options)
      : watch_(options.progress), targets_(std::move(requests.targets)), maker_(reader.maker()) {
    ReadOptions read = options.read;
    read.progress = watch_.callback();
    Result<Stream> stream = requests.plan.stream(read);
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
    return nb::make_tuple((*item)->index, target.is_valid() ? target : maker_->make((*item)->array));
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

// Loads through a stream, for tensors that the framework copies to a device. The stream limits the bytes that wait for
// this copy to the memory budget.
nb::list load_streamed(Reader& reader, Requests requests, const LoadOptions& options) {
  nb::list result;
  for (std::size_t i = 0; i < requests.targets.size(); ++i) result.append(nb::none());
  PyStream stream(reader, std::move(requests), options);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const nb::object item = stream.next();
    result[nb::cast<std::size_t>(item[0])] = item[1];
  }
  return result;
}

}  // namespace

nb::list load_tensors(Reader& reader, nb::handle requests, const LoadOptions& options) {
  Requests made = make_requests(reader, requests);
  if (!options.to_devices && !reader.options().device.cpu()) return load_streamed(reader, std::move(made), options);
  nb::list result;
  const auto add = [&](std::size_t i, nb::handle object) {
    if (i < result.size())
      result[i] = object;
    else
      result.append(object);
  };
  const Status status = make_results(made.plan, options.read, options.progress, *reader.maker(), made.targets, add);
  if (!status) raise_read_error(status.error(), "", "");
  return result;
}

nb::object start_stream(Reader& reader, nb::handle requests, const LoadOptions& options) {
  return nb::cast(std::make_shared<PyStream>(reader, make_requests(reader, requests), options));
}

void define_stream(nb::module_& module) {
  // The budget in bytes of a stream that gets none.
  module.def("_default_memory_limit", [] { return plan::kDefaultStreamBudget; });
  nb::class_<PyStream>(
      module, "_Stream", nb::type_slots(refuse_new_slots),
      "An iterator of (index, array) over the items of a plan, in the order in which they are complete.")
      .def("__next__", &PyStream::next)
      .def("close", &PyStream::close);
}

}  // namespace safetensors::python
