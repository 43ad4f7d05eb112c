// Parses the tuples that the Python package makes for each tensor. For many small tensors, making the arrays takes as
// long as reading a quarter of the bytes, and it needs one thread only. So it runs in the calling thread while other
// threads read.
#include "requests.h"

#include <string>
#include <utility>

#include "watch.h"

namespace safetensors::python {
namespace {

// The caller's memory and its strides.
struct Target {
  std::vector<std::uint64_t> strides;
  Destination destination;

  explicit Target(nb::handle target) {
    const std::uint64_t address = to_unsigned(target[0]);
    const std::uint64_t size = to_unsigned(target[1]);
    destination.bytes = {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address)),
                         static_cast<std::size_t>(size)};
    if (nb::len(target) > 4) {
      destination.device = static_cast<int>(to_unsigned(target[4]));
      return;
    }
    const nb::object given = target[2];
    if (given.is_none()) return;
    for (const nb::handle stride : nb::iter(given)) strides.push_back(to_unsigned(stride));
    destination.strides = strides;
  }
};

// The package makes no invalid strides except those of an array with elements that share memory.
[[noreturn]] void raise_refused_target(const Error& error, nb::handle name, const Destination& destination) {
  if (error.code != Errc::invalid_argument || destination.strides.empty()) raise_read_error(error, "", "");
  const std::string text = "out[" + nb::cast<std::string>(nb::repr(name)) + "]";
  throw nb::value_error((text + " has elements that share memory (was it expanded?): copy it first").c_str());
}

void add(Requests& requests, const Reader& reader, nb::handle request) {
  const Tensor tensor = reader.find(nb::object(request[0]));
  const nb::object index = request[1];
  const nb::object given = request[3];
  const std::optional<Dtype> cast = to_dtype(nb::object(request[2]));
  std::optional<Target> target;
  if (!given.is_none()) target.emplace(given);
  const Destination destination = target ? target->destination : Destination();
  const Slice slice = index.is_none() ? Slice() : parse_index(index, tensor.shape());
  const Status status = requests.plan.add(tensor, slice, destination, cast);
  if (!status) raise_refused_target(status.error(), request[0], destination);
  requests.targets.push_back(given.is_none() ? nb::object() : nb::object(given[3]));
}

}  // namespace

std::uint64_t to_count(nb::handle object, const char* argument) {
  try {
    return to_unsigned(object);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_OverflowError)) throw;
  }
  raise(std::string(argument) + " is " + nb::cast<std::string>(nb::str(object)) + ", expected 0 to 2^64-1");
}

std::optional<Dtype> to_dtype(nb::handle name) {
  if (name.is_none()) return std::nullopt;
  const std::string_view text = from_str(name, "dtype");
  const std::optional<Dtype> dtype = parse_dtype(text);
  if (!dtype) raise("dtype \"" + std::string(text) + "\" is unknown");
  return dtype;
}

Requests make_requests(const Reader& reader, nb::handle requests) {
  Requests made;
  for (const nb::handle request : nb::iter(requests)) {
    check_signals(made.targets.size());
    add(made, reader, request);
  }
  return made;
}

LoadOptions make_load_options(const nb::kwargs& options) {
  constexpr std::uint64_t kMaxReaders = 1024;
  const nb::object get = options.attr("get");
  const std::uint64_t count = to_count(get("threads"), "threads");
  if (count > kMaxReaders)
    raise("threads is " + std::to_string(count) + ", expected at most " + std::to_string(kMaxReaders));
  constexpr std::pair<const char*, Cache> kWords[] = {
      {"auto", Cache::automatic}, {"keep", Cache::keep}, {"fill", Cache::fill}};
  LoadOptions made{
      .read = {.threads = static_cast<unsigned>(count), .memory_limit = to_count(get("memory_limit"), "memory_limit")},
      .progress = get("progress")};
  const nb::object cache = get("cache");
  made.read.cache = parse_word("cache", from_str(cache, "cache"), kWords);
  if (const nb::object stream = get("device_stream"); !stream.is_none()) {
    made.to_devices = true;
    made.read.device_stream = reinterpret_cast<void*>(static_cast<std::uintptr_t>(to_unsigned(stream)));
  }
  return made;
}

Status make_results(const ReadPlan& plan, const ReadOptions& options, nb::handle progress, Maker& maker,
                    std::span<const nb::object> targets,
                    const std::function<void(std::size_t index, nb::handle object)>& add) {
  const auto has_target = [&](std::size_t i) { return i < targets.size() && targets[i].is_valid(); };
  Watch watch(progress);
  maker.check();
  Result<ReadResult> read = watch.execute(plan, options, [&](std::span<const Array> arrays) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      check_signals(i);
      if (has_target(i))
        add(i, targets[i]);
      else
        add(i, maker.reads(arrays[i].dtype()) ? nb::none() : maker.make_checked(arrays[i]));
    }
  });
  if (!read) return std::move(read).error();
  for (std::size_t i = 0; i < read->arrays.size(); ++i) {
    // Releases the memory of each array as soon as the framework has copied it.
    const Array array = std::exchange(read->arrays[i], Array());
    if (has_target(i) || !maker.reads(array.dtype())) continue;
    check_signals(i);
    add(i, maker.make_checked(array));
  }
  return {};
}

}  // namespace safetensors::python
