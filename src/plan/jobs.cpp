// Cuts items into jobs in the order of the file, so that the storage device sees nearly sequential reads. Large items
// are cut into chunks. Small neighbours become one job. Pieces of a slice become one job as long as they fit into a
// chunk.
#include "plan/jobs.h"

#include <algorithm>

#include "format/slice/slice.h"

namespace safetensors::plan {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMaxReach = std::uint64_t{16} << 20;  // bytes of the file that one job's small pieces span
constexpr std::uint64_t kMinPieces = 256;                     // per job, even if they are far apart

// Returns whether chunks of the item end at multiples of a page in the file, so that direct I/O can write straight to
// the result. Such an end must not cut an element of whole bytes. It does not if the item's offset is a multiple of 8:
// elements have at most 8 bytes, so they then start at multiples of their size.
bool ends_on_pages(const Item& item) noexcept {
  return item.plain() && item.file_offset() % 8 == 0;
}

std::uint64_t chunk_end(const Item& item, std::uint64_t offset, std::uint64_t chunk) noexcept {
  const std::uint64_t end = offset + chunk;
  if (!ends_on_pages(item) || chunk < 2 * kPage) return end;
  return end / kPage * kPage;
}

// Tiny pieces are read together with the gaps between them, so 2 MiB of pieces may span gigabytes of the file. A job
// must end soon, because the caller can cancel between jobs only.
std::uint64_t max_pieces(const ResolvedSlice& slice) noexcept {
  const std::uint64_t count = format::piece_count(slice);
  if (count <= kMinPieces) return count;
  const std::uint64_t first = format::piece_offset(slice, 0);
  const std::uint64_t last = format::piece_offset(slice, count - 1);
  const std::uint64_t apart = (std::max(first, last) - std::min(first, last)) / (count - 1);
  const std::uint64_t piece = detail::Access<ResolvedSlice>::piece_size(slice);
  return std::max(kMinPieces, kMaxReach / std::clamp(apart, piece, std::max(piece, file::kMaxGap)));
}

}  // namespace

bool Jobs::next(Job& job, const std::function<bool(std::size_t item)>& admit) {
  if (ended() || (!admitted_ && !admit(run_.order[position_]))) return false;
  admitted_ = true;
  const Item& current = item(position_);
  const std::size_t chunk = run_.budget().chunk_bytes(run_.slots[run_.order[position_]]);
  job = current.slice ? pieces(current, chunk) : range(current, chunk);
  job.first = position_;
  done_ += job.size;
  if (done_ < current.stored) return true;
  const bool whole = job.size == current.stored;
  ++position_;
  admitted_ = false;
  done_ = 0;
  if (whole && batches(job.first, chunk)) extend(job, chunk, admit);
  return true;
}

Job Jobs::range(const Item& item, std::size_t chunk) {
  const std::uint64_t offset = item.file_offset() + done_;
  const std::uint64_t size = std::min(item.stored - done_, chunk_end(item, offset, chunk) - offset);
  return {.offset = offset, .size = size, .item_offset = done_};
}

// Cuts a piece that is larger than a chunk. Puts smaller pieces together into one job.
Job Jobs::pieces(const Item& item, std::size_t chunk) {
  const std::uint64_t piece = detail::Access<ResolvedSlice>::piece_size(*item.slice);
  const std::uint64_t index = done_ / piece;
  const std::uint64_t inside = done_ % piece;
  if (piece > chunk) {
    const std::uint64_t offset = item.info().file_offset + format::piece_offset(*item.slice, index) + inside;
    const std::uint64_t size = std::min(piece - inside, chunk_end(item, offset, chunk) - offset);
    return {.offset = offset, .size = size, .item_offset = done_};
  }
  const std::uint64_t count =
      std::min({format::piece_count(*item.slice) - index, chunk / piece, max_pieces(*item.slice)});
  return {.size = count * piece, .item_offset = done_, .pieces = {index, count}};
}

bool Jobs::batches(std::size_t position, std::size_t chunk) const noexcept {
  const Item& candidate = item(position);
  return !candidate.slice && candidate.stored < std::min<std::uint64_t>(kSmallItem, chunk) && candidate.stored != 0;
}

// Adds the next items to the batch as long as they follow in the same file, each gap has at most kMaxGap bytes, and
// gaps are at most a fifth of the bytes read.
void Jobs::extend(Job& batch, std::size_t chunk, const std::function<bool(std::size_t item)>& admit) {
  const Source* const source = item(batch.first).file().source.get();
  std::uint64_t end = batch.offset + batch.size;
  std::uint64_t wanted = batch.size;
  for (; !ended() && batches(position_, chunk); ++position_) {
    const Item& candidate = item(position_);
    const std::uint64_t begin = candidate.file_offset();
    if (candidate.file().source.get() != source || begin < end || begin - end > file::kMaxGap) break;
    if (candidate.device != item(batch.first).device) break;
    const std::uint64_t span = begin + candidate.stored - batch.offset;
    if (span > chunk || span * 4 > (wanted + candidate.stored) * 5 || !admit(run_.order[position_])) break;
    wanted += candidate.stored;
    end = begin + candidate.stored;
    ++batch.count;
  }
  batch.size = end - batch.offset;
}

}  // namespace safetensors::plan
