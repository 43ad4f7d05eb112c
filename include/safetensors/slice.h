/// @file
/// Slices of tensors. A Slice is a request. A ResolvedSlice is its result for one dtype and shape.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// The slice of one dimension, with the meaning that NumPy gives it. Make it with the static functions.
struct DimSlice {
  /// Kinds of slices of one dimension.
  enum class Kind : std::uint8_t {
    all,      ///< the whole dimension
    index,    ///< one element; the result does not have this dimension
    range,    ///< elements from `begin` to `end`, every `step`
    shard,    ///< shard `rank` of `world`
    ellipsis  ///< all dimensions that no other DimSlice takes
  };
  Kind kind = Kind::all;   ///< decides which members have a meaning
  std::int64_t index = 0;  ///< for `index`: the element; negative counts from the end
  /// For `range`: the first element. Negative counts from the end. The value is clamped to the dimension.
  /// nullopt: the first element in the direction of `step`.
  std::optional<std::int64_t> begin = std::nullopt;
  /// For `range`: the first element that does not belong to the slice. Negative counts from the end. The value is
  /// clamped to the dimension. nullopt: through the last element in the direction of `step`.
  std::optional<std::int64_t> end = std::nullopt;
  std::int64_t step = 1;  ///< for `range`: from one element to the next; negative goes backwards; 0 is an error
  /// @{
  /// For `shard`: the index of the shard (`rank`), and the number of shards (`world`).
  std::uint64_t rank = 0, world = 1;
  /// @}

  /// Takes the whole dimension.
  static DimSlice all() noexcept { return {}; }
  /// Takes one element. The shape of the result does not have this dimension.
  static DimSlice at(std::int64_t index) noexcept { return {Kind::index, index}; }
  /// Takes the elements [begin, end) in steps of `step`, as `begin:end:step` in NumPy.
  static DimSlice range(std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                        std::int64_t step = 1) noexcept {
    return {Kind::range, 0, begin, end, step};
  }
  /// Takes shard `rank` of `world`. See Slice::shard().
  static DimSlice shard(std::uint64_t rank, std::uint64_t world) noexcept {
    return {Kind::shard, 0, {}, {}, 1, rank, world};
  }
  /// Takes all dimensions that no other DimSlice takes. A Slice may have at most one.
  static DimSlice ellipsis() noexcept { return {Kind::ellipsis}; }
};

/// A slice for one dtype and shape. Slice::resolve() makes it. A copy allocates memory when the rank is larger than
/// Shape::kInline. Call const functions from any thread.
class ResolvedSlice {
 public:
  /// Returns the shape of the result. The reference is valid as long as this object exists.
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  detail::GiveTheObjectANameFirst shape() const&& = delete;
  /// Returns the size of the result in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return nbytes_; }
  /// Returns the number of runs: contiguous ranges of bytes of the tensor, as few as possible. Their sizes add up to
  /// nbytes().
  [[nodiscard]] std::uint64_t run_count() const noexcept { return run_count_; }
  /// Returns true when the slice is at most one run: the whole tensor, one range of its bytes, or no bytes.
  [[nodiscard]] bool contiguous() const noexcept { return run_count() <= 1; }

 private:
  friend struct detail::Access<ResolvedSlice>;
  // A loop around pieces of run_ bytes. Outer loops come first. If jump == run_, two pieces are one run.
  struct Loop {
    std::uint64_t count = 0;
    std::int64_t stride = 0;  // bytes from one piece to the next piece of this loop
    std::int64_t jump = 0;    // bytes from the last piece of one round to the first piece of the next round
  };
  Shape shape_;
  std::uint64_t nbytes_ = 0;
  std::uint64_t run_count_ = 0;
  std::uint64_t first_ = 0;  // offset of the first piece
  std::uint64_t run_ = 0;
  std::vector<Loop> loops_;  // each has at least two rounds, so there are at most 64
};

/// A request for a part of any tensor. It takes dimensions without a DimSlice completely.
///
/// Functions that take a Slice also take its text: `tensor.read("1:3,::2")`.
///
/// Call const functions from any thread.
class Slice {
 public:
  /// Takes the whole tensor.
  Slice() noexcept = default;
  /// @{
  /// Takes one DimSlice per dimension, outermost first.
  Slice(std::initializer_list<DimSlice> dims) : dims_(dims) {}
  explicit Slice(std::vector<DimSlice> dims) noexcept : dims_(std::move(dims)) {}
  /// @}
  /// Takes the slice that a text names: see parse(). If the text is not a slice, resolve() has the error slice_syntax.
  /// May throw `std::bad_alloc`.
  template <class Text, std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>, int> = 0>
  Slice(const Text& text) : Slice(from_text(text)) {}  // NOLINT(google-explicit-constructor)
  /// Takes shard `rank` of `world` of the dimension `dim`, and the other dimensions completely.
  ///
  /// A negative `dim` counts from the end. The shards are those of `numpy.array_split`: the first (size % world) shards
  /// have one element more. May throw `std::bad_alloc`.
  /// resolve() then has these errors: slice_index (`world` is 0, or `rank` is not below `world`), slice_rank (there is
  /// no such dimension).
  [[nodiscard]] static Slice shard(std::int64_t dim, std::uint64_t rank, std::uint64_t world) {
    Slice slice{DimSlice::shard(rank, world)};
    slice.only_dim_ = dim;
    return slice;
  }

  /// Parses the text of a NumPy index, such as `1:3,:,-1,::2,...`.
  ///
  /// Brackets around the text are allowed. White space between numbers and signs is ignored. An empty text takes the
  /// whole tensor.
  /// Error: slice_syntax, with the column.
  [[nodiscard]] static SAFETENSORS_API Result<Slice> parse(std::string_view text) noexcept;

  /// Returns the slices of the dimensions. The reference is valid as long as this object exists.
  [[nodiscard]] const std::vector<DimSlice>& dims() const& noexcept { return dims_; }
  detail::GiveTheObjectANameFirst dims() const&& = delete;

  /// Applies the slice to a dtype and a shape.
  ///
  /// The size of such a tensor must be a whole number of bytes that fits 64 bits (rules 7 and 8). The shape of a
  /// TensorInfo always fulfils this, unless its dtype is UNKNOWN.
  /// Errors: slice_syntax (of a Slice from text), slice_index, slice_step, slice_rank (also for a second ellipsis),
  /// slice_bits (a slice of F4 or F6 must begin and end on byte boundaries), size_overflow, dtype_mismatch
  /// (Dtype::UNKNOWN), invalid_argument (a number that is no dtype).
  [[nodiscard]] SAFETENSORS_API Result<ResolvedSlice> resolve(Dtype dtype, ShapeView shape) const noexcept;

 private:
  friend struct detail::Access<Slice>;
  static Slice from_text(std::string_view text) {
    Result<Slice> parsed = parse(text);
    if (parsed) return *std::move(parsed);
    Slice slice;
    slice.syntax_error_ = std::make_shared<const Error>(std::move(parsed).error());
    return slice;
  }
  std::vector<DimSlice> dims_;
  std::shared_ptr<const Error> syntax_error_;  // of the text, or null
  std::optional<std::int64_t> only_dim_;       // if set, dims_ has one element, for this dimension
};

}  // namespace v0
}  // namespace safetensors
