// Groups the pieces of a slice before reading. A read costs as much as copying some tens of kilobytes. So one read gets
// many small pieces together with the gaps between them, as long as the gaps are few or narrow. It goes into a bounce
// buffer, from which the pieces are gathered.
#include "file/slice_reader.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"

namespace safetensors::file {
namespace {

template <std::size_t kSize>
std::byte* gather_fixed(const std::byte* from, std::int64_t stride, std::uint64_t count, std::byte* to) {
  for (std::uint64_t i = 0; i < count; ++i, to += kSize)
    std::memcpy(to, from + static_cast<std::int64_t>(i) * stride, kSize);
  return to;
}

// Returns the end of the bytes written.
std::byte* gather(const std::byte* from, std::int64_t stride, std::uint64_t count, std::size_t size, std::byte* to) {
  if (size == 1) return gather_fixed<1>(from, stride, count, to);
  if (size == 2) return gather_fixed<2>(from, stride, count, to);
  if (size == 4) return gather_fixed<4>(from, stride, count, to);
  if (size == 8) return gather_fixed<8>(from, stride, count, to);
  if (size == 16) return gather_fixed<16>(from, stride, count, to);
  for (std::uint64_t i = 0; i < count; ++i, to += size)
    std::memcpy(to, from + static_cast<std::int64_t>(i) * stride, size);
  return to;
}

// A position among the pieces of a slice, in the order of the result.
class Cursor {
 public:
  Cursor(const ResolvedSlice& slice, PieceRange pieces) : rows_(slice, pieces.first), remaining_(pieces.count) {
    if (remaining_ == 0 || !rows_.next(row_)) return;
    at_ = pieces.first % row_.count;
  }

  [[nodiscard]] bool done() const { return remaining_ == 0; }
  [[nodiscard]] std::uint64_t offset() const { return row_.offset + at_ * static_cast<std::uint64_t>(row_.stride); }
  [[nodiscard]] std::int64_t stride() const { return row_.stride; }
  [[nodiscard]] std::uint64_t remaining_in_row() const { return std::min(row_.count - at_, remaining_); }
  // Moves over pieces. Calls visit(count) before it moves over `count` of them, which are in one row.
  template <class Visit>
  void pass(std::uint64_t pieces, const Visit& visit) {
    while (pieces > 0) {
      const std::uint64_t count = std::min(pieces, remaining_in_row());
      visit(count);
      advance(count);
      pieces -= count;
    }
  }
  void advance(std::uint64_t count) {
    at_ += count;
    remaining_ -= count;
    if (at_ < row_.count || remaining_ == 0) return;
    at_ = 0;
    (void)rows_.next(row_);
  }

 private:
  format::PieceRows rows_;
  format::PieceRow row_;
  std::uint64_t at_ = 0;
  std::uint64_t remaining_;
};

// The pieces of one read.
struct Group {
  std::uint64_t low = 0, high = 0;  // range of the tensor
  std::uint64_t pieces = 0;
  bool gapless = true;  // ascending and contiguous: no bounce buffer is needed

  [[nodiscard]] std::uint64_t span() const { return high - low; }
};

class Planner {
 public:
  Planner(const ResolvedSlice& slice, PieceRange pieces, std::uint64_t max_gap)
      : cursor_(slice, pieces),
        size_(detail::Access<ResolvedSlice>::piece_size(slice)),
        max_gap_(size_ < kTinyPiece ? std::max(kMaxGap, max_gap) : max_gap) {}

  // Returns the next group. After the last one, returns a group without pieces.
  Group next() {
    Group group;
    while (!cursor_.done()) {
      const std::uint64_t count = group.pieces == 0 ? start(group) : fitting(group);
      if (count == 0) break;
      cursor_.advance(count);
    }
    return group;
  }

 private:
  std::uint64_t start(Group& group) {
    group.low = cursor_.offset();
    group.high = group.low + size_;
    group.pieces = 1;
    return 1;
  }

  // Adds pieces at the cursor to the group. Returns their number, or 0 if the next piece starts another group.
  std::uint64_t fitting(Group& group) {
    const std::uint64_t offset = cursor_.offset();
    if (group.gapless && offset == group.high) return add(group, offset, 1);
    if (size_ >= kExactPiece || (group.gapless && group.span() >= kExactPiece)) return 0;
    const std::uint64_t span = std::max(group.high, offset + size_) - std::min(group.low, offset);
    if (span > kMaxSpan) return 0;
    if (max_gap_ != 0 && gap(group, offset) <= max_gap_) return add(group, offset, run(group, offset));
    if (span * 4 > (group.pieces + 1) * size_ * 5) return 0;
    return add(group, offset, 1);
  }

  std::uint64_t add(Group& group, std::uint64_t offset, std::uint64_t count) {
    group.gapless = group.gapless && count == 1 && offset == group.high;
    const std::uint64_t last = offset + (count - 1) * static_cast<std::uint64_t>(cursor_.stride());
    group.low = std::min({group.low, offset, last});
    group.high = std::max(group.high, std::max(offset, last) + size_);
    group.pieces += count;
    return count;
  }

  [[nodiscard]] std::uint64_t gap(const Group& group, std::uint64_t offset) const {
    if (offset >= group.high) return offset - group.high;
    return group.low >= offset + size_ ? group.low - offset - size_ : 0;
  }

  // Number of pieces of this row that fit into the bounce buffer, counting the piece at offset.
  [[nodiscard]] std::uint64_t run(const Group& group, std::uint64_t offset) const {
    const std::uint64_t apart = base::magnitude(cursor_.stride());
    if (apart == 0 || apart > max_gap_) return 1;
    // The bytes of the buffer up to the end of the piece at offset, in the direction of the row.
    const std::uint64_t used = cursor_.stride() > 0 ? offset + size_ - std::min(group.low, offset)
                                                    : std::max(group.high, offset + size_) - offset;
    return std::min(cursor_.remaining_in_row(), (kMaxSpan - used) / apart + 1);
  }

  Cursor cursor_;
  std::uint64_t size_;
  std::uint64_t max_gap_;  // between pieces that are read together, whatever the share of the gaps
};

// Copies pieces from a buffer that starts with byte `low` of the tensor.
std::byte* gather_pieces(Cursor& cursor, std::uint64_t pieces, std::size_t size, const std::byte* buffer,
                         std::uint64_t low, std::byte* to) {
  cursor.pass(pieces, [&](std::uint64_t count) {
    to = gather(buffer + (cursor.offset() - low), cursor.stride(), count, size, to);
  });
  return to;
}

}  // namespace

Status read_slice(const ResolvedSlice& slice, PieceRange pieces, const ReadTensorBytes& read, io::BounceBuffer& bounce,
                  std::byte* destination, std::uint64_t max_gap) {
  const auto size = static_cast<std::size_t>(detail::Access<ResolvedSlice>::piece_size(slice));
  Planner planner(slice, pieces, max_gap);
  Cursor cursor(slice, pieces);  // at the first piece not yet delivered; the planner's cursor is ahead
  for (Group group = planner.next(); group.pieces > 0; group = planner.next()) {
    const auto span = static_cast<std::size_t>(group.span());
    if (group.gapless) {
      if (Status status = read(group.low, {destination, span}); !status) return status;
      cursor.pass(group.pieces, [](std::uint64_t) {});
      destination += span;
      continue;
    }
    const Result<std::span<std::byte>> memory = bounce.memory();
    if (!memory) return memory.error();
    if (Status status = read(group.low, memory->first(span)); !status) return status;
    destination = gather_pieces(cursor, group.pieces, size, memory->data(), group.low, destination);
  }
  return {};
}

PieceExtent extent_of(const ResolvedSlice& slice, PieceRange pieces) {
  if (pieces.count == 0) return {};
  std::uint64_t low = ~std::uint64_t{0};
  std::uint64_t high = 0;
  Cursor cursor(slice, pieces);
  cursor.pass(pieces.count, [&](std::uint64_t count) {
    const std::uint64_t first = cursor.offset();
    const std::uint64_t last = first + (count - 1) * static_cast<std::uint64_t>(cursor.stride());
    low = std::min({low, first, last});
    high = std::max({high, first, last});
  });
  return {low, high - low + detail::Access<ResolvedSlice>::piece_size(slice)};
}

void gather_slice(const ResolvedSlice& slice, PieceRange pieces, const std::byte* bytes, std::byte* destination,
                  std::uint64_t low) {
  const auto size = static_cast<std::size_t>(detail::Access<ResolvedSlice>::piece_size(slice));
  Cursor cursor(slice, pieces);
  gather_pieces(cursor, pieces.count, size, bytes, low, destination);
}

}  // namespace safetensors::file
