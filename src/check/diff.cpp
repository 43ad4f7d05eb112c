// Compares two sets of tensors. Tensors are paired by name. Each pair is cut into chunks of about 1 MiB, and threads
// take the chunks in order. Equal bytes are equal values, so a chunk is converted to numbers only if its bytes differ
// or if the dtypes do. What each thread finds is put together in the order of the chunks, so sums do not depend on the
// threads.
#include <safetensors/diff.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "check/elements.h"
#include "file/file.h"
#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors {
namespace check {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;

// Two tensors whose values are compared.
struct Pair {
  Tensor first;
  Tensor second;
  std::size_t found;             // index of its TensorDiff
  std::uint64_t first_chunk;     // of all pairs
  std::uint64_t chunk_elements;  // a multiple of 8, so chunks begin at whole bytes
};

// The differences in a chunk.
struct Part {
  std::uint64_t chunk;
  std::uint64_t differing = 0;
  std::uint64_t first_differing = 0;  // in the tensor
  double max_error = 0;
  double sum = 0;
};

// The bytes of a chunk in one tensor, and its elements as numbers.
struct Side {
  std::vector<std::byte> buffer;
  std::span<std::byte> bytes;
  std::vector<double> values;
  std::vector<std::int64_t> numbers;

  Status read(const Tensor& tensor, std::uint64_t first_element, std::uint64_t count) {
    const unsigned width = bits(tensor.dtype());
    buffer.resize(static_cast<std::size_t>(count * width / 8));
    bytes = buffer;
    const std::uint64_t offset = tensor.info().file_offset + first_element / 8 * width;
    return detail::Access<Tensor>::state(tensor).read(tensor.info(), offset, bytes);
  }
  void convert(Dtype dtype, std::uint64_t count, bool with_ordinals) {
    const auto parts = static_cast<std::size_t>(count) * parts_of(dtype);
    values.resize(parts);
    to_double(dtype, bytes, values);
    if (!with_ordinals) return;
    numbers.resize(parts);
    ordinals(dtype, bytes, numbers);
  }
};

class Comparison final : public os::Tasks {
 public:
  Comparison(std::vector<Pair> pairs, const DiffOptions& options, std::uint64_t chunks, std::uint64_t bytes)
      : pairs_(std::move(pairs)),
        options_(options),
        exact_(options.rtol == 0 && options.atol == 0 && options.ulps == 0),
        chunks_(chunks),
        meter_(options.progress, bytes, 0, {}, std::this_thread::get_id()) {}

  // Compares chunks until there are none. The argument is the number of a thread.
  Status run(std::size_t) noexcept override {
    return base::guarded([&]() -> Status {
      Side first;
      Side second;
      for (std::uint64_t chunk = next_++; chunk < chunks_ && !failed_; chunk = next_++) {
        if (Status status = compare(chunk, first, second); !status) {
          failed_ = true;
          return status;
        }
      }
      return {};
    });
  }

  Status finish() { return meter_.finish(); }

  // Adds the differences to their tensors. Call it when all threads have ended.
  void put_into(std::vector<TensorDiff>& tensors) {
    std::ranges::sort(parts_, {}, &Part::chunk);
    for (const Part& part : parts_) {
      TensorDiff& found = tensors[pair_of(part.chunk).found];
      if (found.differing == 0) found.first_differing = part.first_differing;
      found.differing += part.differing;
      found.max_error = std::max(found.max_error, part.max_error);
      found.mean_error += part.sum;
    }
    for (const Pair& pair : pairs_) tensors[pair.found].mean_error /= static_cast<double>(pair.first.numel());
  }

 private:
  [[nodiscard]] const Pair& pair_of(std::uint64_t chunk) const {
    return *std::prev(std::ranges::upper_bound(pairs_, chunk, {}, &Pair::first_chunk));
  }

  Status compare(std::uint64_t chunk, Side& first, Side& second) {
    const Pair& pair = pair_of(chunk);
    const std::uint64_t begin = (chunk - pair.first_chunk) * pair.chunk_elements;
    const std::uint64_t count = std::min(pair.chunk_elements, pair.first.numel() - begin);
    if (Status status = first.read(pair.first, begin, count); !status) return status;
    if (Status status = second.read(pair.second, begin, count); !status) return status;
    const bool same_bytes = pair.first.dtype() == pair.second.dtype() &&
                            std::memcmp(first.bytes.data(), second.bytes.data(), first.bytes.size()) == 0;
    if (!same_bytes) {
      Part part = find_differences(pair, count, first, second);
      part.chunk = chunk;
      part.first_differing += begin;
      const std::lock_guard lock(mutex_);
      parts_.push_back(part);
    }
    return meter_.add(first.bytes.size());
  }

  Part find_differences(const Pair& pair, std::uint64_t count, Side& first, Side& second) const {
    const Dtype dtype = pair.first.dtype();
    const bool same_dtype = dtype == pair.second.dtype();
    const bool by_ulps = options_.ulps > 0 && same_dtype && has_ordinals(dtype);
    first.convert(dtype, count, by_ulps);
    second.convert(pair.second.dtype(), count, by_ulps);
    Part part{};
    for (std::size_t i = 0; i < count; ++i) {
      const double error = error_of(pair, i, first, second);
      if (error > part.max_error) part.max_error = error;
      if (!std::isnan(error)) part.sum += error;
      const bool equal = exact_ && same_dtype ? same_bits(dtype, first.bytes, second.bytes, i)
                                              : close(pair, i, first, second, by_ulps);
      if (!equal && part.differing++ == 0) part.first_differing = i;
    }
    return part;
  }

  // The distance of two elements. NaN if one of them is NaN, and 0 for equal infinities.
  static double error_of(const Pair& pair, std::size_t i, const Side& first, const Side& second) {
    const std::size_t in_first = parts_of(pair.first.dtype());
    const std::size_t in_second = parts_of(pair.second.dtype());
    const auto distance = [](double a, double b) { return a == b ? 0 : std::abs(a - b); };
    const double real = distance(first.values[i * in_first], second.values[i * in_second]);
    if (in_first + in_second == 2) return real;
    const double imaginary =
        distance(in_first == 2 ? first.values[2 * i + 1] : 0, in_second == 2 ? second.values[2 * i + 1] : 0);
    return std::isnan(real) || std::isnan(imaginary) ? std::numeric_limits<double>::quiet_NaN()
                                                     : std::hypot(real, imaginary);
  }

  [[nodiscard]] bool close(const Pair& pair, std::size_t i, const Side& first, const Side& second, bool by_ulps) const {
    const std::size_t in_first = parts_of(pair.first.dtype());
    const std::size_t in_second = parts_of(pair.second.dtype());
    for (std::size_t part = 0; part < std::max(in_first, in_second); ++part) {
      const double a = part < in_first ? first.values[i * in_first + part] : 0;
      const double b = part < in_second ? second.values[i * in_second + part] : 0;
      const bool both_nan = std::isnan(a) && std::isnan(b);
      if (a == b || both_nan) continue;
      if (std::isnan(a) || std::isnan(b)) return false;
      if (by_ulps && std::isfinite(a) && std::isfinite(b) && near(first.numbers, second.numbers, i * in_first + part))
        continue;
      if (!(std::abs(a - b) <= options_.atol + options_.rtol * std::abs(b)) || std::isinf(b) || std::isinf(a))
        return false;
    }
    return true;
  }

  [[nodiscard]] bool near(const std::vector<std::int64_t>& first, const std::vector<std::int64_t>& second,
                          std::size_t at) const {
    const auto [low, high] = std::minmax(first[at], second[at]);
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) <= options_.ulps;
  }

  const std::vector<Pair> pairs_;
  const DiffOptions& options_;
  const bool exact_;
  const std::uint64_t chunks_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  io::ProgressMeter meter_;
  std::mutex mutex_;  // guards parts_
  std::vector<Part> parts_;
};

// Pairs the tensors of both sets.
class Pairing {
 public:
  explicit Pairing(const DiffOptions& options) : options_(options) {}

  Status pair_all(Tensors first, Tensors second) {
    std::map<std::string_view, Tensor> others;
    for (const Tensor& tensor : second) others.emplace(tensor.name(), tensor);
    std::map<std::string, std::string_view, std::less<>> taken;  // names in the second set
    for (const Tensor& tensor : first) {
      std::string name(tensor.name());
      if (options_.rename) name = options_.rename(tensor.name());
      const auto [place, added] = taken.emplace(std::move(name), tensor.name());
      if (!added) {
        return base::make_error(Errc::invalid_argument, "two tensors get the name `" + printable(place->first) +
                                                            "`: `" + printable(place->second) + "` and `" +
                                                            printable(tensor.name()) + "`");
      }
      const auto other = others.find(place->first);
      add(tensor, other == others.end() ? nullptr : &other->second);
    }
    for (const Tensor& tensor : second) {
      if (!taken.contains(tensor.name())) found.push_back({.kind = DiffKind::only_second, .second = tensor});
    }
    return {};
  }

  std::vector<TensorDiff> found;  // also of pairs that may turn out equal
  std::vector<Pair> pairs;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;  // of the first set

 private:
  void add(const Tensor& tensor, const Tensor* other) {
    if (other == nullptr) return found.push_back({.kind = DiffKind::only_first, .first = tensor});
    const bool same_shape = std::ranges::equal(tensor.shape(), other->shape());
    const DiffKind kind = !same_shape                        ? DiffKind::shape
                          : tensor.dtype() != other->dtype() ? DiffKind::dtype
                                                             : DiffKind::values;
    found.push_back({.kind = kind, .first = tensor, .second = *other});
    if (!same_shape || !options_.values || tensor.nbytes() == 0) return;
    const std::uint64_t width = std::max(bits(tensor.dtype()), bits(other->dtype()));
    const std::uint64_t elements = kChunkBytes * 8 / width / 8 * 8;
    pairs.push_back({tensor, *other, found.size() - 1, chunks, elements});
    chunks += (tensor.numel() - 1) / elements + 1;
    bytes += tensor.nbytes();
  }

  const DiffOptions& options_;
};

bool is_tolerance(double value) {
  return value >= 0;  // not for NaN
}

Result<DiffResult> compare(Tensors first, Tensors second, const DiffOptions& options) {
  if (!is_tolerance(options.rtol) || !is_tolerance(options.atol))
    return base::make_error(Errc::invalid_argument, "a tolerance is negative or not a number");
  Pairing pairing(options);
  if (Status status = pairing.pair_all(first, second); !status) return std::move(status).error();
  const unsigned threads = options.threads == 0 ? os::usable_processors() : options.threads;
  Comparison comparison(std::move(pairing.pairs), options, pairing.chunks, pairing.bytes);
  if (Status status = os::run_parallel(comparison, threads, threads); !status) return std::move(status).error();
  if (Status status = comparison.finish(); !status) return std::move(status).error();
  comparison.put_into(pairing.found);
  DiffResult result{.tensors = std::move(pairing.found)};
  result.equal = std::erase_if(
      result.tensors, [](const TensorDiff& found) { return found.kind == DiffKind::values && found.differing == 0; });
  return result;
}

}  // namespace
}  // namespace check

inline namespace v0 {

Result<DiffResult> diff(Tensors first, Tensors second, const DiffOptions& options) noexcept {
  return base::guarded([&] { return check::compare(first, second, options); });
}

}  // namespace v0
}  // namespace safetensors
