// Access to the pieces of a resolved slice, for code that reads them.
#pragma once

#include <safetensors/slice.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace safetensors {
inline namespace v0 {
namespace detail {

template <>
struct Access<Slice> {
  static const std::vector<DimSlice>& dims(const Slice& slice) noexcept { return slice.dims_; }
  static const auto& only_dim(const Slice& slice) noexcept { return slice.only_dim_; }
  static const auto& syntax_error(const Slice& slice) noexcept { return slice.syntax_error_; }
};

template <>
struct Access<ResolvedSlice> {
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

// A run: the contiguous bytes [offset, offset + size) of a tensor.
struct ByteRun {
  std::uint64_t offset = 0;  // bytes from the first byte of the tensor
  std::uint64_t size = 0;
  friend bool operator==(const ByteRun&, const ByteRun&) = default;
};

// Walks over the runs of a slice in the order of the result: there, each run follows the one before. Runs that are
// neighbours in the tensor are joined. The memory is O(rank). The ResolvedSlice must outlive this.
class Runs {
 public:
  // May throw std::bad_alloc.
  explicit Runs(const ResolvedSlice& slice);
  // Returns false after the last run.
  [[nodiscard]] bool next(ByteRun& run) noexcept;

 private:
  const ResolvedSlice* slice_;
  std::vector<std::uint64_t> counter_;
  std::uint64_t offset_;
  std::uint64_t left_;
};

// `count` pieces of `size` bytes each. Their starts are `stride` bytes apart.
struct PieceRow {
  std::uint64_t offset = 0;  // of the first piece, from the tensor's first byte
  std::uint64_t size = 0;
  std::uint64_t count = 0;
  std::int64_t stride = 0;
};

// Returns the number of pieces of a slice. Each has Access<ResolvedSlice>::piece_size() bytes. In the result, they
// follow each other without gaps.
[[nodiscard]] std::uint64_t piece_count(const ResolvedSlice& slice) noexcept;
// Returns the offset of a piece from the tensor's first byte. piece: index in the order of the result.
[[nodiscard]] std::uint64_t piece_offset(const ResolvedSlice& slice, std::uint64_t piece) noexcept;

// Walks a slice in the order of the result. Each step covers one round of the innermost loop, which can have millions
// of small pieces. The last piece of a row and the first piece of the next row may touch in the file. The ResolvedSlice
// must outlive this.
class PieceRows {
 public:
  // Starts with the row that contains first_piece. May throw std::bad_alloc.
  explicit PieceRows(const ResolvedSlice& slice, std::uint64_t first_piece = 0);
  [[nodiscard]] bool next(PieceRow& row) noexcept;

 private:
  const std::vector<detail::Access<ResolvedSlice>::Loop>* loops_;
  std::vector<std::uint64_t> counter_;
  PieceRow row_;
  bool done_;
};

}  // namespace format
}  // namespace safetensors
