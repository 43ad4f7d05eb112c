// A part of a tensor: what is asked for (Slice), and what it comes to for one dtype and shape (ResolvedSlice).
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

// What is asked of one dimension, with NumPy's meaning.
struct DimSlice {
  enum class Kind : std::uint8_t { all, index, range, shard, ellipsis };
  Kind kind = Kind::all;
  std::int64_t index = 0;                            // index; negative counts from the end
  std::optional<std::int64_t> begin = std::nullopt;  // range; half open, negative counts from the end, clamped
  std::optional<std::int64_t> end = std::nullopt;    // to the dimension
  std::int64_t step = 1;                             // range; negative runs backwards
  std::uint64_t rank = 0, world = 1;                 // shard

  static DimSlice all() noexcept { return {}; }
  // The dimension disappears from the result's shape.
  static DimSlice at(std::int64_t index) noexcept { return {.kind = Kind::index, .index = index}; }
  static DimSlice range(std::optional<std::int64_t> begin, std::optional<std::int64_t> end,
                        std::int64_t step = 1) noexcept {
    return {.kind = Kind::range, .begin = begin, .end = end, .step = step};
  }
  // Part rank of world, as Slice::shard.
  static DimSlice shard(std::uint64_t rank, std::uint64_t world) noexcept {
    return {.kind = Kind::shard, .rank = rank, .world = world};
  }
  // As many dimensions of all() as are left; at most one in a Slice.
  static DimSlice ellipsis() noexcept { return {.kind = Kind::ellipsis}; }
};

namespace detail {
struct SliceAccess;
}

// Bytes [offset, offset + size) of a tensor, counted from its first byte.
struct ByteRun {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  friend bool operator==(const ByteRun&, const ByteRun&) = default;
};

// A slice of a tensor of known dtype and shape. Copies allocate when the rank is over Shape::kInline.
class ResolvedSlice {
 public:
  [[nodiscard]] const Shape& shape() const& noexcept { return shape_; }
  const Shape& shape() const&& = delete;
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return nbytes_; }
  // The number of runs that Runs::next() will give; their sizes add up to nbytes().
  [[nodiscard]] std::uint64_t run_count() const noexcept { return run_count_; }
  // The whole tensor, one part of it, or nothing.
  [[nodiscard]] bool contiguous() const noexcept { return run_count() <= 1; }

  // Walks the runs in the order of the result's elements: run i + 1 goes right behind run i in the destination.
  // Neighbours in the file are joined. Memory: O(rank). The ResolvedSlice must outlive it.
  class Runs {
   public:
    [[nodiscard]] SAFETENSORS_API bool next(ByteRun& run) noexcept;

   private:
    friend class ResolvedSlice;
    explicit Runs(const ResolvedSlice& slice);
    const ResolvedSlice* slice_;
    std::vector<std::uint64_t> counter_;
    std::uint64_t offset_ = 0;
    std::uint64_t left_ = 0;
  };
  // May throw std::bad_alloc when the rank is large.
  [[nodiscard]] SAFETENSORS_API Runs runs() const&;
  Runs runs() const&& = delete;

 private:
  friend struct detail::SliceAccess;
  // Around pieces of run_ bytes, outermost first. Pieces meet, and make one run, where jump == run_.
  struct Loop {
    std::uint64_t count = 0;
    std::int64_t stride = 0;  // bytes from one piece to the next of this loop
    std::int64_t jump = 0;    // bytes from the last piece of one round to the first of the next
  };
  Shape shape_;
  std::uint64_t nbytes_ = 0;
  std::uint64_t run_count_ = 0;
  std::uint64_t first_ = 0;  // offset of the first piece
  std::uint64_t run_ = 0;
  std::vector<Loop> loops_;  // each of two rounds or more, so never more than 64
};

// What is asked for, before the tensor is known. Dimensions that are not named are taken whole.
class Slice {
 public:
  // The whole tensor.
  Slice() noexcept = default;
  Slice(std::initializer_list<DimSlice> dims) : dims_(dims) {}
  explicit Slice(std::vector<DimSlice> dims) noexcept : dims_(std::move(dims)) {}
  static Slice all() noexcept { return {}; }

  // Part `rank` of `world` of dimension `dim` (negative counts from the end), as numpy.array_split cuts: the first
  // (size % world) parts hold one more. Errors when resolved: slice_index (world 0, rank not below world), slice_rank
  // (no such dimension).
  [[nodiscard]] static SAFETENSORS_API Slice shard(std::int64_t dim, std::uint64_t rank, std::uint64_t world);

  // "1:3,:,-1,::2,...": what stands between NumPy's brackets, brackets themselves allowed; white space between
  // numbers and signs is ignored. An empty text is the whole tensor. Error: slice_syntax, with the column.
  [[nodiscard]] static SAFETENSORS_API Result<Slice> parse(std::string_view text) noexcept;

  [[nodiscard]] const std::vector<DimSlice>& dims() const& noexcept { return dims_; }
  const std::vector<DimSlice>& dims() const&& = delete;

  // shape must be one whose bytes can be counted (rules 7 and 8); a TensorInfo's always is.
  // Errors: slice_index, slice_step, slice_rank (also of a second ellipsis), slice_bits (F4 and F6 only on byte
  // boundaries), size_overflow, invalid_argument (no dtype).
  [[nodiscard]] SAFETENSORS_API Result<ResolvedSlice> resolve(Dtype dtype, ShapeView shape) const noexcept;

 private:
  friend struct detail::SliceAccess;
  std::vector<DimSlice> dims_;
  std::optional<std::int64_t> only_dim_;  // dims_ is one element, and it is for this dimension
};

}  // namespace v0
}  // namespace safetensors
