// Walks over the pieces and runs of a resolved slice.
//
// A resolved slice is a nest of loops around pieces of one size. The walks keep one counter per loop, like an odometer,
// so their memory is O(rank) and does not depend on the number of pieces. Each loop stores its jump, the distance from
// the last piece of one round to the first piece of the next, so a step is one addition.
#include <safetensors/slice.h>

#include "format/slice/slice.h"

namespace safetensors::format {

Runs::Runs(const ResolvedSlice& slice)
    : slice_(&slice),
      counter_(detail::Access<ResolvedSlice>::loops(slice).size()),
      offset_(detail::Access<ResolvedSlice>::first(slice)),
      left_(slice.run_count()) {}

bool Runs::next(ByteRun& run) noexcept {
  if (left_ == 0) return false;
  --left_;
  const std::uint64_t piece = detail::Access<ResolvedSlice>::piece_size(*slice_);
  run = {.offset = offset_, .size = piece};
  const std::vector<detail::Access<ResolvedSlice>::Loop>& loops = detail::Access<ResolvedSlice>::loops(*slice_);
  // Join pieces that touch. Two pieces can touch only where an outer loop advances: pieces of the innermost loop never
  // touch, because resolve() has merged those. So a run has at most two pieces.
  for (std::size_t i = loops.size(); i-- > 0;) {
    if (++counter_[i] == loops[i].count) {
      counter_[i] = 0;
      continue;
    }
    offset_ += static_cast<std::uint64_t>(loops[i].jump);
    if (loops[i].jump != static_cast<std::int64_t>(piece)) break;
    run.size += piece;
    i = loops.size();
  }
  return true;
}

std::uint64_t piece_count(const ResolvedSlice& slice) noexcept {
  return slice.nbytes() == 0 ? 0 : slice.nbytes() / detail::Access<ResolvedSlice>::piece_size(slice);
}

// The counters of the loops are the digits of the piece's index, and the innermost loop is the last digit.
std::uint64_t piece_offset(const ResolvedSlice& slice, std::uint64_t piece) noexcept {
  std::uint64_t offset = detail::Access<ResolvedSlice>::first(slice);
  const std::vector<detail::Access<ResolvedSlice>::Loop>& loops = detail::Access<ResolvedSlice>::loops(slice);
  for (std::size_t i = loops.size(); i-- > 0; piece /= loops[i].count)
    offset += piece % loops[i].count * static_cast<std::uint64_t>(loops[i].stride);
  return offset;
}

PieceRows::PieceRows(const ResolvedSlice& slice, std::uint64_t first_piece)
    : loops_(&detail::Access<ResolvedSlice>::loops(slice)),
      counter_(loops_->size()),
      done_(first_piece >= piece_count(slice)) {
  row_ = {.size = detail::Access<ResolvedSlice>::piece_size(slice), .count = 1};
  std::uint64_t row = first_piece;
  if (!loops_->empty()) {
    row_.count = loops_->back().count;
    row_.stride = loops_->back().stride;
    row /= row_.count;
  }
  row_.offset = piece_offset(slice, row * row_.count);
  for (std::size_t i = counter_.size(); i-- > 1; row /= (*loops_)[i - 1].count)
    counter_[i - 1] = row % (*loops_)[i - 1].count;
}

bool PieceRows::next(PieceRow& row) noexcept {
  if (done_) return false;
  row = row_;
  if (counter_.size() > 1) {
    // A jump starts at the last piece of the row, so move there first. Negative strides rely on arithmetic modulo 2^64.
    row_.offset += (row_.count - 1) * static_cast<std::uint64_t>(row_.stride);
    for (std::size_t i = counter_.size() - 1; i-- > 0;) {
      if (++counter_[i] != (*loops_)[i].count) {
        row_.offset += static_cast<std::uint64_t>((*loops_)[i].jump);
        return true;
      }
      counter_[i] = 0;
    }
  }
  done_ = true;
  return true;
}

}  // namespace safetensors::format
