// Compares two sets of tensors. Tensors are paired by name. Each pair is cut into chunks of about 1 MiB, and threads
// take the chunks in order. Equal bytes are equal values, so a chunk is converted to numbers only if its bytes differ
// or if the dtypes do. The findings of the threads are merged in the order of the chunks, so sums do not depend on the
// threads.
#include <safetensors/diff.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "base/error.h"
#include "check/elements.h"
#include "check/wide.h"
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
struct ChunkDiff {
  std::uint64_t chunk = 0;
  std::uint64_t differing = 0;
  std::uint64_t first_differing = 0;  // in the tensor
  std::uint64_t nan_differing = 0;
  double max_error = 0;
  double mean_error = 0;      // the part of this chunk
  double mean_magnitude = 0;  // the same
  double numel = 1;           // of the tensor
};

// The difference of two elements.
struct Distance {
  bool same = false;     // equal numbers, or both NaN
  bool one_nan = false;  // exactly one is NaN
  bool finite = true;    // both are finite
  double error = 0;      // |a - b|, unless one is NaN
  double magnitude = 0;  // |b|
};

// The bytes of a chunk in one tensor, and a block of its elements as numbers.
struct Side {
  Dtype dtype = Dtype::U8;
  std::vector<std::byte> bytes;      // of the chunk
  std::span<const std::byte> block;  // of the elements below
  std::vector<double> values;        // unless both sides are integers
  std::vector<Integer> whole;        // if both sides are integers
  std::vector<std::int64_t> ordinal_numbers;

  Status read(const Tensor& tensor, std::uint64_t first_element, std::uint64_t count) {
    dtype = tensor.dtype();
    const unsigned width = bits(dtype);
    bytes.resize(static_cast<std::size_t>(count * width / 8));
    const std::uint64_t offset = tensor.info().file_offset + first_element / 8 * width;
    return detail::Access<Tensor>::state(tensor).read(tensor.info(), offset, bytes);
  }
  void convert(std::size_t first_element, std::size_t count, bool as_integers, bool with_ordinals) {
    const std::size_t width = bits(dtype);
    block = std::span(bytes).subspan(first_element * width / 8, count * width / 8);
    const std::size_t numbers = count * components_of(dtype);
    if (as_integers) {
      whole.resize(count);
      integers(dtype, block, whole);
      return;
    }
    values.resize(numbers);
    to_double(dtype, block, values);
    if (!with_ordinals) return;
    ordinal_numbers.resize(numbers);
    ordinals(dtype, block, ordinal_numbers);
  }
  // The components of an element. A real number has the imaginary part 0.
  [[nodiscard]] std::pair<double, double> components(std::size_t index) const {
    if (components_of(dtype) == 1) return {values[index], 0};
    return {values[2 * index], values[2 * index + 1]};
  }
};

// The length of a vector. std::hypot would need libm.
double length(double x, double y) {
  const double large = std::max(std::abs(x), std::abs(y));
  const double small = std::min(std::abs(x), std::abs(y));
  if (small == 0 || std::isinf(large)) return large;
  const double ratio = small / large;
  return large * square_root(1 + ratio * ratio);
}

Distance distance(const Integer& a, const Integer& b) {
  Distance found{.same = a == b, .magnitude = static_cast<double>(b.magnitude)};
  if (a.negative != b.negative) {
    found.error = static_cast<double>(a.magnitude) + static_cast<double>(b.magnitude);
  } else {
    const auto [low, high] = std::minmax(a.magnitude, b.magnitude);
    found.error = static_cast<double>(high - low);
  }
  return found;
}

Distance distance(std::pair<double, double> a, std::pair<double, double> b) {
  const bool a_nan = std::isnan(a.first) || std::isnan(a.second);
  const bool b_nan = std::isnan(b.first) || std::isnan(b.second);
  Distance found{.same = a == b || (a_nan && b_nan), .one_nan = a_nan != b_nan};
  if (a_nan || b_nan) return found;
  found.finite = std::isfinite(a.first) && std::isfinite(a.second) && std::isfinite(b.first) && std::isfinite(b.second);
  const auto apart = [](double x, double y) { return x == y ? 0 : std::abs(x - y); };  // also for equal infinities
  found.error = length(apart(a.first, b.first), apart(a.second, b.second));
  found.magnitude = length(b.first, b.second);
  return found;
}

class Comparison final : public os::Tasks {
 public:
  Comparison(std::vector<Pair> pairs, const DiffOptions& options, std::uint64_t chunks, std::uint64_t bytes)
      : pairs_(std::move(pairs)),
        options_(options),
        exact_(options.rtol == 0 && options.atol == 0 && options.ulps == 0),
        chunks_(chunks),
        meter_(options.progress, bytes, 0, {}, std::this_thread::get_id()) {}

  // Takes chunks and compares them until no chunk is left. The argument is the number of the thread.
  Status run(std::size_t) noexcept override {
    return base::guarded([&]() -> Status {
      Side first;
      Side second;
      for (std::uint64_t next = next_++; next < chunks_ && !failed_; next = next_++) {
        if (Status status = compare(rest_.empty() ? next : rest_[next], first, second); !status) {
          failed_ = true;
          return status;
        }
      }
      return {};
    });
  }

  // Begins a second pass over the chunks with equal bytes of tensors that differ: mean_magnitude needs them, too. Call
  // it when all threads have ended. Returns whether there are any.
  bool begin_rest() {
    std::ranges::sort(found_, {}, &ChunkDiff::chunk);
    for (std::size_t i = 0; i < found_.size();) {
      const Pair& pair = pair_of(found_[i].chunk);
      const std::uint64_t end = pair.first_chunk + (pair.first.numel() - 1) / pair.chunk_elements + 1;
      for (std::uint64_t chunk = pair.first_chunk; chunk < end; ++chunk) {
        if (i < found_.size() && found_[i].chunk == chunk) {
          ++i;
        } else {
          rest_.push_back(chunk);
        }
      }
    }
    next_ = 0;
    chunks_ = rest_.size();
    return chunks_ > 0;
  }

  Status finish() { return meter_.finish(); }

  // Adds the differences to their tensors. Call it when all threads have ended.
  void put_into(std::vector<TensorDiff>& tensors) {
    std::ranges::sort(found_, {}, &ChunkDiff::chunk);
    for (const ChunkDiff& chunk : found_) {
      TensorDiff& tensor = tensors[pair_of(chunk.chunk).found];
      if (tensor.differing == 0) tensor.first_differing = chunk.first_differing;
      tensor.differing += chunk.differing;
      tensor.nan_differing += chunk.nan_differing;
      tensor.max_error = std::max(tensor.max_error, chunk.max_error);
      tensor.mean_error += chunk.mean_error;
      tensor.mean_magnitude += chunk.mean_magnitude;
    }
  }

 private:
  static constexpr std::size_t kBlock = 4096;  // elements that are numbers at the same time

  [[nodiscard]] const Pair& pair_of(std::uint64_t chunk) const {
    return *std::prev(std::ranges::upper_bound(pairs_, chunk, {}, &Pair::first_chunk));
  }

  Status compare(std::uint64_t chunk, Side& first, Side& second) {
    const Pair& pair = pair_of(chunk);
    const std::uint64_t begin = (chunk - pair.first_chunk) * pair.chunk_elements;
    const std::uint64_t count = std::min(pair.chunk_elements, pair.first.numel() - begin);
    if (Status status = first.read(pair.first, begin, count); !status) return status;
    if (Status status = second.read(pair.second, begin, count); !status) return status;
    const bool same_bytes =
        first.dtype == second.dtype && std::memcmp(first.bytes.data(), second.bytes.data(), first.bytes.size()) == 0;
    if (!same_bytes || !rest_.empty()) {
      ChunkDiff found{.chunk = chunk, .numel = static_cast<double>(pair.first.numel())};
      for (std::size_t at = 0; at < count; at += kBlock) {
        compare_block(at, std::min<std::size_t>(kBlock, static_cast<std::size_t>(count) - at), first, second, found);
      }
      found.first_differing += begin;
      const std::lock_guard lock(mutex_);
      found_.push_back(found);
    }
    return meter_.add(rest_.empty() ? first.bytes.size() : 0);
  }

  void compare_block(std::size_t begin, std::size_t count, Side& first, Side& second, ChunkDiff& found) const {
    const bool same_dtype = first.dtype == second.dtype;
    const bool as_integers = is_integer(first.dtype) && is_integer(second.dtype);
    const bool by_ulps = options_.ulps > 0 && same_dtype && has_ordinals(first.dtype);
    first.convert(begin, count, as_integers, by_ulps);
    second.convert(begin, count, as_integers, by_ulps);
    for (std::size_t i = 0; i < count; ++i) {
      const Distance apart =
          as_integers ? distance(first.whole[i], second.whole[i]) : distance(first.components(i), second.components(i));
      found.max_error = std::max(found.max_error, apart.error);
      found.mean_error += apart.error / found.numel;  // a sum of errors could overflow
      found.mean_magnitude += apart.magnitude / found.numel;
      const bool equal = exact_ && same_dtype
                             ? same_bits(first.dtype, first.block, second.block, i)
                             : close(apart) || (by_ulps && apart.finite && !apart.one_nan && near(first, second, i));
      if (equal) continue;
      if (found.differing++ == 0) found.first_differing = begin + i;
      if (apart.one_nan) ++found.nan_differing;
    }
  }

  [[nodiscard]] bool close(const Distance& apart) const {
    if (apart.same) return true;
    if (apart.one_nan || !apart.finite) return false;
    return apart.error <= options_.atol + options_.rtol * apart.magnitude;
  }

  // Returns whether each component of two floats of one dtype is at most `ulps` steps away from the other one.
  [[nodiscard]] bool near(const Side& first, const Side& second, std::size_t index) const {
    const std::size_t components = components_of(first.dtype);
    for (std::size_t i = index * components; i < (index + 1) * components; ++i) {
      const auto [low, high] = std::minmax(first.ordinal_numbers[i], second.ordinal_numbers[i]);
      if (static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) > options_.ulps) return false;
    }
    return true;
  }

  const std::vector<Pair> pairs_;
  const DiffOptions& options_;
  const bool exact_;
  std::uint64_t chunks_;             // of this pass
  std::vector<std::uint64_t> rest_;  // the chunks of the second pass
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  io::ProgressMeter meter_;
  std::mutex mutex_;  // guards found_
  std::vector<ChunkDiff> found_;
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
      if (options_.select && !options_.select(tensor)) continue;
      const auto other = others.find(place->first);
      add(tensor, other == others.end() ? nullptr : &other->second);
    }
    for (const Tensor& tensor : second) {
      if (taken.contains(tensor.name()) || (options_.select && !options_.select(tensor))) continue;
      found.push_back({.kind = DiffKind::only_second, .second = tensor});
    }
    return {};
  }

  // A pair whose values cannot be compared, because a dtype is unknown.
  std::optional<Tensor> unknown;
  std::vector<TensorDiff> found;  // also of pairs that may turn out equal
  std::vector<Pair> pairs;
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;  // of the first set

 private:
  // Unknown dtypes are the same if their texts and sizes are.
  static bool same_dtype(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.dtype() != Dtype::UNKNOWN) return a.dtype() == b.dtype();
    const File first = a.file();
    const File second = b.file();
    return a.nbytes() == b.nbytes() && first.header().dtype_name(a.info()) == second.header().dtype_name(b.info());
  }
  void add(const Tensor& tensor, const Tensor* other) {
    if (other == nullptr) return found.push_back({.kind = DiffKind::only_first, .first = tensor});
    const bool same_shape = std::ranges::equal(tensor.shape(), other->shape());
    const DiffKind kind = !same_shape                   ? DiffKind::shape
                          : !same_dtype(tensor, *other) ? DiffKind::dtype
                                                        : DiffKind::values;
    found.push_back({.kind = kind, .first = tensor, .second = *other});
    if (!same_shape || !options_.values) return;
    if (tensor.dtype() == Dtype::UNKNOWN || other->dtype() == Dtype::UNKNOWN) {
      unknown = tensor.dtype() == Dtype::UNKNOWN ? tensor : *other;
      return;
    }
    if (tensor.nbytes() == 0) return;
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
  for (const auto& [name, value] : {std::pair("rtol", options.rtol), std::pair("atol", options.atol)}) {
    if (!is_tolerance(value))
      return base::make_error(Errc::invalid_argument,
                              name + std::string(" is negative or not a number, expected a number from 0 on"));
  }
  Pairing pairing(options);
  if (Status status = pairing.pair_all(first, second); !status) return std::move(status).error();
  if (pairing.unknown)
    return detail::Access<Tensor>::state(*pairing.unknown)
        .describe(pairing.unknown->info(),
                  base::make_error(Errc::dtype_mismatch, "cannot compare the values of a tensor of unknown dtype"));
  const unsigned wanted = options.threads == 0 ? os::usable_processors() : options.threads;
  const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(wanted, pairing.chunks));
  Comparison comparison(std::move(pairing.pairs), options, pairing.chunks, pairing.bytes);
  if (Status status = os::run_parallel(comparison, threads, threads); !status) return std::move(status).error();
  if (comparison.begin_rest()) {
    if (Status status = os::run_parallel(comparison, threads, threads); !status) return std::move(status).error();
  }
  if (Status status = comparison.finish(); !status) return std::move(status).error();
  comparison.put_into(pairing.found);
  DiffResult result{.tensors = std::move(pairing.found)};
  result.equal_tensors = std::erase_if(
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
