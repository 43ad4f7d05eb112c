// Pairs tensors by name, and compares the chunks of each pair. Equal bytes are equal values, so a chunk is converted to
// numbers only if its bytes differ or if the dtypes do. The sum of the magnitudes of B is that of a
// whole tensor, so a second pass converts the equal chunks of tensors that differ.
#include "values/diff.h"

#include "text/text.h"
#include "values/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr std::size_t kBlock = 4096;  // elements that are numbers at the same time

// An integer of any integer dtype.
struct Integer {
  std::uint64_t magnitude = 0;
  bool negative = false;

  bool operator==(const Integer&) const = default;
};

// One side of a chunk: its bytes, and a block of its elements.
struct Side {
  Dtype dtype = Dtype::U8;
  std::size_t components = 1;
  unsigned width = 8;  // bits of a component
  bool with_sign = false;
  std::vector<std::byte> bytes;
  std::span<const std::byte> block;
  std::vector<double> numbers;  // the components of the block

  Status read(const Tensor& tensor, const Chunk& chunk) {
    dtype = tensor.dtype();
    components = components_of(dtype);
    width = static_cast<unsigned>(bits(dtype) / components);
    with_sign = is_integer(dtype) ? is_signed_integer(dtype) : dtype != Dtype::F8_E8M0;
    return read_chunk(tensor, chunk, bytes);
  }
  void take(std::size_t begin, std::size_t count, bool as_integers) {
    block = std::span(bytes).subspan(begin * components * width / 8);
    numbers.resize(as_integers ? 0 : count * components);
    to_double(dtype, block, numbers);
  }
  // The real and the imaginary part.
  [[nodiscard]] std::pair<double, double> element(std::size_t i) const {
    if (components == 1) return {numbers[i], 0};
    return {numbers[2 * i], numbers[2 * i + 1]};
  }
  [[nodiscard]] Integer integer(std::size_t i) const {
    const std::uint64_t found = bits_at(block, i, width);
    if (!with_sign || found >> (width - 1) == 0) return {found, false};
    return {(0 - found) & (~std::uint64_t{0} >> (64 - width)), true};
  }
};

// The difference of two elements.
struct Distance {
  bool same = false;     // equal numbers, or both NaN
  bool one_nan = false;  // exactly one is NaN
  bool finite = true;    // both are finite
  double error = 0;      // |a - b|, unless one is NaN
  double magnitude = 0;  // |b|
};

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
  const auto length = [](double x, double y) { return y == 0 ? std::abs(x) : std::hypot(x, y); };
  const auto apart = [](double x, double y) { return x == y ? 0 : std::abs(x - y); };  // also for equal infinities
  found.error = length(apart(a.first, b.first), apart(a.second, b.second));
  found.magnitude = length(b.first, b.second);
  return found;
}

class Comparison {
 public:
  explicit Comparison(const DiffOptions& options) : options_(options) {}

  Result<DiffResult> run(Tensors first, Tensors second, Console& console) {
    if (Status status = pair_all(first, second); !status) return std::move(status).error();
    diffs_.resize(chunks_.size());
    for (const bool rest : {false, true}) {
      const auto work = [&](std::size_t index) { return compare(index, rest); };
      if (Status status = for_each_chunk(chunks_, console, work); !status) return std::move(status).error();
      for (std::size_t i = 0; i < chunks_.size(); ++i)
        if (diffs_[i]) differs_.insert(chunks_[i].item);
      if (differs_.empty()) break;
    }
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      if (diffs_[i]) found_[chunks_[i].item].values->add(*diffs_[i]);
    DiffResult result{.tensors = std::move(found_)};
    result.equal_tensors = std::erase_if(result.tensors, [](const TensorDiff& tensor) {
      return tensor.kind == DiffKind::values && (!tensor.values || tensor.values->differing == 0);
    });
    return result;
  }

 private:
  Status pair_all(Tensors first, Tensors second) {
    std::map<std::string_view, Tensor> others;
    for (const Tensor& tensor : second) others.emplace(tensor.name(), tensor);
    std::map<std::string_view, std::string_view> taken;  // names in the second set
    for (const Tensor& tensor : first) {
      const auto renamed = options_.names.find(tensor.name());
      const std::string_view name = renamed == options_.names.end() ? tensor.name() : renamed->second;
      const auto [place, added] = taken.emplace(name, tensor.name());
      if (!added) {
        return fault(Errc::invalid_argument, formatted("two tensors get the name `{}`: `{}` and `{}`", printable(name),
                                                       printable(place->second), printable(tensor.name())));
      }
      if (!options_.selection.selects(tensor.info())) continue;
      const auto other = others.find(name);
      if (other == others.end()) {
        found_.push_back({.kind = DiffKind::only_first, .first = tensor});
      } else {
        add_pair(tensor, other->second);
      }
    }
    for (const Tensor& tensor : second) {
      if (!taken.contains(tensor.name()) && options_.selection.selects(tensor.info()))
        found_.push_back({.kind = DiffKind::only_second, .second = tensor});
    }
    return {};
  }

  void add_pair(const Tensor& first, const Tensor& second) {
    const bool same_shape = std::ranges::equal(first.shape(), second.shape());
    const DiffKind kind = !same_shape                       ? DiffKind::shape
                          : first.dtype() != second.dtype() ? DiffKind::dtype
                                                            : DiffKind::values;
    const bool compared = same_shape && options_.values;
    if (compared)
      add_chunks(chunks_, found_.size(), first.numel(), std::max(bits(first.dtype()), bits(second.dtype())));
    found_.push_back({kind, first, second, compared ? std::optional(Differences()) : std::nullopt});
  }

  // rest: the second pass, over the chunks that the first pass did not compare.
  Status compare(std::size_t index, bool rest) {
    static thread_local Side first;
    static thread_local Side second;
    const Chunk& chunk = chunks_[index];
    const TensorDiff& pair = found_[chunk.item];
    if (rest && (diffs_[index] || !differs_.contains(chunk.item))) return {};
    if (Status status = first.read(*pair.first, chunk); !status) return status;
    if (Status status = second.read(*pair.second, chunk); !status) return status;
    if (!rest && first.dtype == second.dtype &&
        std::memcmp(first.bytes.data(), second.bytes.data(), first.bytes.size()) == 0)
      return {};
    const bool as_integers = is_integer(first.dtype) && is_integer(second.dtype);
    Differences found;
    for (std::size_t at = 0; at < chunk.count; at += kBlock) {
      const std::size_t count = std::min(kBlock, chunk.count - at);
      first.take(at, count, as_integers);
      second.take(at, count, as_integers);
      for (std::size_t i = 0; i < count; ++i) {
        const Distance apart =
            as_integers ? distance(first.integer(i), second.integer(i)) : distance(first.element(i), second.element(i));
        found.max_error = std::max(found.max_error, apart.error);
        found.errors.add(apart.error);
        found.magnitudes.add(apart.magnitude);
        if (equal(first, second, i, apart)) continue;
        if (found.differing++ == 0) found.first_differing = chunk.begin + at + i;
        if (apart.one_nan) ++found.nan_differing;
      }
    }
    diffs_[index] = found;
    return {};
  }

  [[nodiscard]] bool equal(const Side& a, const Side& b, std::size_t i, const Distance& apart) const {
    if (by_bytes_ && a.dtype == b.dtype) {
      const auto width = static_cast<unsigned>(a.width * a.components);
      return bits_at(a.block, i, width) == bits_at(b.block, i, width);
    }
    if (apart.same || apart.one_nan || !apart.finite) return apart.same;
    return std::isfinite(apart.error) && apart.error <= options_.atol + options_.rtol * apart.magnitude;
  }

  const DiffOptions& options_;
  const bool by_bytes_ = options_.rtol == 0 && options_.atol == 0;
  std::vector<TensorDiff> found_;  // also of pairs that may turn out equal
  std::vector<Chunk> chunks_;
  std::vector<std::optional<Differences>> diffs_;  // of the chunks that were compared
  std::set<std::size_t> differs_;                  // items with such chunks
};

}  // namespace

void Differences::add(const Differences& later) noexcept {
  if (differing == 0) first_differing = later.first_differing;
  differing += later.differing;
  nan_differing += later.nan_differing;
  max_error = std::max(max_error, later.max_error);
  errors.add(later.errors);
  magnitudes.add(later.magnitudes);
}

Result<DiffResult> diff(Tensors first, Tensors second, const DiffOptions& options, Console& console) {
  return Comparison(options).run(first, second, console);
}

}  // namespace safetensors::cli
