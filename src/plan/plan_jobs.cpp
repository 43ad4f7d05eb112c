#include "plan/plan_jobs.h"

#include <algorithm>
#include <utility>

#include "format/slice.h"

namespace safetensors::plan {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kMostReach = std::uint64_t{16} << 20;  // of the file, that small pieces are read through for
constexpr std::uint64_t kFewPieces = 256;                      // however far apart they are

// Pieces that end on a page of the file let a device write to where they go, and never cut an element that begins at a
// multiple of its size, as all do but those of files made by hand.
bool ends_on_pages(const PlanItem& item) noexcept {
  return item.plain() && item.file_offset() % 8 == 0;
}

std::uint64_t piece_end(const PlanItem& item, std::uint64_t offset, std::uint64_t chunk) noexcept {
  const std::uint64_t end = offset + chunk;
  if (!ends_on_pages(item) || chunk < 2 * kPage) return end;
  return end / kPage * kPage;
}

// Tiny pieces near each other are read with what is between them, so that 2 MiB of them may be gigabytes: a job must
// end soon, for between two the work may be cancelled.
std::uint64_t most_pieces(const ResolvedSlice& slice) noexcept {
  const std::uint64_t count = format::piece_count(slice);
  if (count <= kFewPieces) return count;
  const std::uint64_t first = format::piece_offset(slice, 0);
  const std::uint64_t last = format::piece_offset(slice, count - 1);
  const std::uint64_t apart = (std::max(first, last) - std::min(first, last)) / (count - 1);
  const std::uint64_t piece = detail::SliceAccess::piece_size(slice);
  return std::max(kFewPieces, kMostReach / std::clamp(apart, piece, std::max(piece, file::kWidestGap)));
}

}  // namespace

PlanJobs::Next PlanJobs::next(PlanJob& job, const std::function<bool(std::size_t item)>& admit) {
  if (at_ == order_.size()) return Next::end;
  if (!admitted_ && !admit(order_[at_])) return Next::wait;
  admitted_ = true;
  const PlanItem& current = item(at_);
  const std::size_t chunk = chunk_(order_[at_]);
  job = current.slice ? pieces(current, chunk) : stretch(current, chunk);
  job.first = at_;
  done_ += job.size;
  if (done_ < current.stored) return Next::job;
  const bool whole = job.size == current.stored;
  ++at_;
  admitted_ = false;
  done_ = 0;
  if (whole && batches(job.first, chunk)) extend(job, chunk, admit);
  return Next::job;
}

PlanJob PlanJobs::stretch(const PlanItem& item, std::size_t chunk) {
  const std::uint64_t offset = item.file_offset() + done_;
  const std::uint64_t size = std::min(item.stored - done_, piece_end(item, offset, chunk) - offset);
  return {.kind = PlanJob::Kind::stretch, .offset = offset, .size = size, .at = done_};
}

// Large pieces are cut, small ones taken together.
PlanJob PlanJobs::pieces(const PlanItem& item, std::size_t chunk) {
  const std::uint64_t piece = detail::SliceAccess::piece_size(*item.slice);
  const std::uint64_t number = done_ / piece;
  const std::uint64_t inside = done_ % piece;
  if (piece > chunk) {
    const std::uint64_t offset = item.info().file_offset + format::piece_offset(*item.slice, number) + inside;
    const std::uint64_t size = std::min(piece - inside, piece_end(item, offset, chunk) - offset);
    return {.kind = PlanJob::Kind::stretch, .offset = offset, .size = size, .at = done_};
  }
  const std::uint64_t count =
      std::min({format::piece_count(*item.slice) - number, chunk / piece, most_pieces(*item.slice)});
  return {.kind = PlanJob::Kind::pieces, .size = count * piece, .at = done_, .pieces = {number, count}};
}

bool PlanJobs::batches(std::size_t at, std::size_t chunk) const noexcept {
  const PlanItem& candidate = item(at);
  return !candidate.slice && candidate.stored < std::min<std::uint64_t>(kSmallItem, chunk) && candidate.stored != 0;
}

// The items that follow, while they follow in the file too, at most kWidestGap apart and a quarter of all that is read
// for nothing.
void PlanJobs::extend(PlanJob& batch, std::size_t chunk, const std::function<bool(std::size_t item)>& admit) {
  const Source* const source = item(batch.first).file().source.get();
  std::uint64_t end = batch.offset + batch.size;
  std::uint64_t wanted = batch.size;
  for (; at_ < order_.size() && batches(at_, chunk); ++at_) {
    const PlanItem& candidate = item(at_);
    const std::uint64_t begin = candidate.file_offset();
    if (candidate.file().source.get() != source || begin < end || begin - end > file::kWidestGap) break;
    if (candidate.device.device != item(batch.first).device.device) break;
    const std::uint64_t span = begin + candidate.stored - batch.offset;
    if (span > chunk || span * 4 > (wanted + candidate.stored) * 5 || !admit(order_[at_])) break;
    wanted += candidate.stored;
    end = begin + candidate.stored;
    ++batch.count;
  }
  batch.size = end - batch.offset;
  if (batch.count > 1) batch.kind = PlanJob::Kind::batch;
}

}  // namespace safetensors::plan
