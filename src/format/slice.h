// What the readers of bytes know about a resolved slice beyond its runs.
#pragma once

#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace safetensors {
inline namespace v0 {
namespace detail {

// The one way into the private parts of Slice and ResolvedSlice.
struct SliceAccess {
  using Loop = ResolvedSlice::Loop;
  static std::uint64_t first(const ResolvedSlice& slice) noexcept { return slice.first_; }
  static std::uint64_t piece_size(const ResolvedSlice& slice) noexcept { return slice.run_; }
  static const std::vector<Loop>& loops(const ResolvedSlice& slice) noexcept { return slice.loops_; }
  // May throw std::bad_alloc.
  static Result<ResolvedSlice> resolve(const Slice& slice, Dtype dtype, ShapeView shape);
};

}  // namespace detail
}  // namespace v0

namespace format {

// `count` pieces of `size` bytes, `stride` bytes apart.
struct PieceRow {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
  std::int64_t stride = 0;
};

// The pieces that a slice consists of: SliceAccess::piece_size() bytes each, one behind the other in the result.
[[nodiscard]] std::uint64_t piece_count(const ResolvedSlice& slice) noexcept;
// From the tensor's first byte.
[[nodiscard]] std::uint64_t piece_offset(const ResolvedSlice& slice, std::uint64_t piece) noexcept;

// Walks a slice by the rows of its innermost loop, in the order of the result: millions of small pieces in one step.
// Pieces at the edges of two rows may meet in the file. The ResolvedSlice must outlive it.
class PieceRows {
 public:
  // From the row that holds this piece on. May throw std::bad_alloc.
  explicit PieceRows(const ResolvedSlice& slice, std::uint64_t first_piece = 0);
  [[nodiscard]] bool next(PieceRow& row) noexcept;

 private:
  const std::vector<detail::SliceAccess::Loop>* loops_;
  std::vector<std::uint64_t> counter_;
  PieceRow row_;
  bool done_;
};

}  // namespace format
}  // namespace safetensors
