// Executes the jobs of one thread. If the result has the same bytes as the file, reads straight into the result. If
// bytes must be cast or scattered, reads into a staging buffer first. For a device, writes the result of a job into a
// slot of pinned memory, from which the device copies it.
#include "plan/worker.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "base/error.h"
#include "format/dtype/cast.h"
#include "os/leased_map.h"
#include "os/memory.h"

namespace safetensors::plan {
namespace {

// Bytes of the result that are cast at once, before they are scattered. They fit into the cache of a core.
constexpr std::size_t kCastBytes = 64 << 10;

constexpr std::uint64_t kMaxMap = std::uint64_t{32} << 20;  // bytes; a larger map would hold its lease for too long
constexpr std::uint64_t kMinMappedPieces = 256;             // a map costs as much as tens of reads
constexpr unsigned kCompared = 16;                          // of this many lists, one compares a map with reads

// Returns the first `count` pieces, and the others.
std::pair<file::PieceRange, file::PieceRange> halves(file::PieceRange pieces, std::uint64_t count) {
  return {{pieces.first, count}, {pieces.first + count, pieces.count - count}};
}

// Provides the huge pages that begin in a range of a result, up to the end of the result. The page in which the range
// begins is left to the thread that writes the bytes before it: if two threads asked for it at once, both would clear
// one. The range may go on in the results that follow.
void provide(std::byte* result, std::uint64_t result_size, std::uint64_t offset, std::uint64_t size) noexcept {
  const std::uint64_t phase = reinterpret_cast<std::uintptr_t>(result) % os::kHugePage;
  const auto up = [&](std::uint64_t at) {
    return std::min((at + phase + os::kHugePage - 1) / os::kHugePage * os::kHugePage - phase, result_size);
  };
  const std::uint64_t begin = offset == 0 ? 0 : up(offset);
  const std::uint64_t end = std::max(offset + size, up(offset + size));
  if (begin < end) os::provide_untouched({result + begin, static_cast<std::size_t>(end - begin)});
}

std::size_t bytes_of(const Item& item, file::PieceRange pieces) {
  return static_cast<std::size_t>(pieces.count * detail::Access<ResolvedSlice>::piece_size(*item.slice));
}

}  // namespace

Status Worker::work(const Job& job) noexcept {
  indices_ = std::span(run_.order).subspan(job.first, job.count);
  Status status = base::guarded([&]() -> Status {
    device::CopyRing* const ring = run_.slots[indices_.front()].ring;
    return ring == nullptr ? work_on_host(job) : work_on_device(job, *ring);
  });
  run_.add(std::exchange(thread_.counts, {}));
  return status;
}

// Reads straight into the result if it can. Otherwise reads into the staging buffer first.
Status Worker::work_on_host(const Job& job) {
  if (job.size == 0) return {};
  const auto size = static_cast<std::size_t>(job.size);
  const bool direct = in_place(job);
  std::span<std::byte> memory;
  if (direct) {
    memory = {destination(indices_.front(), job.item_offset, size), size};
  } else {
    Result<std::span<std::byte>> staged = staging_.memory(size);
    const Item& item = run_.items[indices_.front()];
    if (!staged) return item.file().describe(item.info(), std::move(staged).error());
    memory = *staged;
  }
  if (Status status = fetch(job, memory); !status) return status;
  for (const std::size_t index : indices_) {
    const std::span<std::byte> bytes = part_of(job, index, memory);
    if (direct)
      finish(index, bytes.size());
    else if (Status status = deliver(index, job.item_offset, bytes); !status)
      return status;
  }
  return {};
}

// Executes the job in the same way as for the host. For a device, destination() returns parts of the slot and records
// them in parts_.
Status Worker::work_on_device(const Job& job, device::CopyRing& ring) {
  Result<device::CopyRing::Slot> slot = ring.acquire();
  if (!slot) return std::move(slot).error();
  pinned_ = (*slot)->bytes.data();
  pinned_used_ = 0;
  parts_.clear();
  copied_.clear();
  if (Status status = work_on_host(job); !status) return status;
  if (Status status = ring.copy_parts(std::move(slot).value(), parts_); !status) return status;
  if (run_.streamed) {
    // The Stream may hand out the item next, so its copy must have ended.
    if (Status status = ring.finish(); !status) return status;
  }
  for (const auto& [index, bytes] : copied_) run_.add_completed(index, bytes);
  return {};
}

// Returns whether results have the bytes of the file, and the destinations of several items are contiguous in file
// order.
bool Worker::in_place(const Job& job) const {
  if (job.count == 1) return run_.items[indices_.front()].plain();
  const std::byte* const start = run_.slots[indices_.front()].memory;
  std::uint64_t end = 0;  // end of the items before, from the start of the batch
  return start != nullptr && std::ranges::all_of(indices_, [&](std::size_t index) {
           const Item& item = run_.items[index];
           if (!item.plain() || item.file_offset() - job.offset != end) return false;
           return run_.slots[index].memory == start + std::exchange(end, end + item.stored);
         });
}

// Returns the bytes of one item among those of a job.
std::span<std::byte> Worker::part_of(const Job& job, std::size_t index, std::span<std::byte> bytes) const {
  if (job.count == 1) return bytes;
  const Item& item = run_.items[index];
  return bytes.subspan(static_cast<std::size_t>(item.file_offset() - job.offset),
                       static_cast<std::size_t>(item.stored));
}

// Reads the bytes of a job. The Source may have only some items of a batch in memory.
Status Worker::fetch(const Job& job, std::span<std::byte> to) {
  const Item& first = run_.items[indices_.front()];
  const Slot& slot = run_.slots[indices_.front()];
  if (slot.mapped.bytes.empty())
    return job.pieces.count == 0 ? read(slot, job.offset, to) : gather(first, slot, job.pieces, to);
  for (const std::size_t index : indices_) {
    const std::span<std::byte> part = part_of(job, index, to);
    const std::span<const std::byte> mapped = run_.slots[index].mapped.bytes;
    const std::uint64_t offset = job.offset + static_cast<std::uint64_t>(part.data() - to.data());
    if (mapped.empty()) {
      if (Status status = read(slot, offset, part); !status) return status;
      continue;
    }
    if (job.pieces.count == 0)
      std::memcpy(part.data(), mapped.data() + (offset - run_.items[index].info().file_offset), part.size());
    else
      file::gather_slice(*first.slice, job.pieces, mapped.data(), part.data());
    thread_.counts.mapped += part.size();
  }
  return {};
}

// Halves the list of pieces until a map of the bytes from its first to its last piece is small enough.
Status Worker::gather(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to) {
  if (pieces.count < kMinMappedPieces || !may_map(item, slot)) return read_pieces(item, slot, pieces, to);
  if (file::extent_of(*item.slice, pieces).size > kMaxMap) {
    const auto [first, second] = halves(pieces, pieces.count / 2);
    const std::size_t bytes = bytes_of(item, first);
    if (Status status = gather(item, slot, first, to.first(bytes)); !status) return status;
    return gather(item, slot, second, to.subspan(bytes));
  }
  if (gathers_++ % kCompared == 0) return compare(item, slot, pieces, to);
  return maps_ && gather_mapped(item, pieces, to) ? Status() : read_pieces(item, slot, pieces, to);
}

// Reads some pieces, copies the others from a map, and remembers which way takes less CPU time per piece. Which one
// does depends on the system and on how the page cache got the bytes: large pages are mapped with few page faults.
// Other programs hardly change the CPU time.
Status Worker::compare(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to) {
  constexpr std::uint64_t kSome = kMinMappedPieces / 4;
  std::chrono::nanoseconds start{};
  for (int i = 0; i < 2; ++i) {  // The first reads also allocate the buffer, so only the second ones count.
    const auto [some, others] = halves(pieces, kSome);
    start = os::thread_time();
    if (Status status = read_pieces(item, slot, some, to.first(bytes_of(item, some))); !status) return status;
    pieces = others;
    to = to.subspan(bytes_of(item, some));
  }
  const std::chrono::nanoseconds read = os::thread_time() - start;
  const bool mapped = gather_mapped(item, pieces, to);
  maps_ = mapped && (os::thread_time() - start - read) * kSome <= read * pieces.count;
  return mapped ? Status() : read_pieces(item, slot, pieces, to);
}

// Returns whether the pieces may be copied from a map: Access allows a map, and the pieces are short and in the page
// cache.
bool Worker::may_map(const Item& item, const Slot& slot) {
  return item.file().access() == Access::map && slot.reader->cached() &&
         detail::Access<ResolvedSlice>::piece_size(*item.slice) < file::kExactPiece;
}

// Returns false if there is no safe map.
bool Worker::gather_mapped(const Item& item, file::PieceRange pieces, std::span<std::byte> to) {
  const file::PieceExtent extent = file::extent_of(*item.slice, pieces);
  const Result<os::Lease> descriptor = item.file().posix->lease();
  if (!descriptor) return false;  // The read reports the same error.
  const std::optional<os::LeasedMap> map =
      os::LeasedMap::make(descriptor->get(), item.info().file_offset + extent.offset, extent.size);
  if (!map) return false;
  file::gather_slice(*item.slice, pieces, map->bytes().data(), to.data(), extent.offset);
  thread_.counts.mapped += to.size();
  return true;
}

Status Worker::read_pieces(const Item& item, const Slot& slot, file::PieceRange pieces, std::span<std::byte> to) {
  const auto read_bytes = [&](std::uint64_t offset, std::span<std::byte> bytes) {
    return read(slot, item.info().file_offset + offset, bytes);
  };
  // On a network, the windows around small reads cover gaps of this size anyway.
  const std::uint64_t max_gap = slot.reader->remote() ? file::kMaxGap : 0;
  Status status = file::read_slice(*item.slice, pieces, std::ref(read_bytes), gather_bounce_, to.data(), max_gap);
  if (!status && status.error().path.empty() && status.error().code == Errc::out_of_memory)
    return item.file().describe(item.info(), std::move(status).error());
  return status;
}

// Reads a range of the job's file. An error names the item of the job that holds the error's offset.
Status Worker::read(const Slot& slot, std::uint64_t offset, std::span<std::byte> to) noexcept {
  Status status = slot.reader->read(offset, to, thread_);
  if (status) return {};
  Error error = std::move(status).error();
  const std::uint64_t failed = error.offset == Error::kNoOffset ? offset : error.offset;
  const auto found = std::find_if(indices_.begin(), indices_.end() - 1, [&](std::size_t index) {
    return run_.items[index].file_offset() + run_.items[index].stored > failed;
  });
  return run_.items[*found].file().failed(run_.items[*found].info(), offset, std::move(error));
}

// Copies, casts or scatters staged bytes to the result. item_offset: offset of these bytes in all bytes that are read
// for the item.
Status Worker::deliver(std::size_t index, std::uint64_t item_offset, std::span<const std::byte> stored) {
  const Item& item = run_.items[index];
  if (item.casts()) return cast(index, item_offset, stored);
  if (item.strides.empty())
    std::memcpy(destination(index, item_offset, stored.size()), stored.data(), stored.size());
  else
    scatter(item, item_offset, stored);
  finish(index, stored.size());
  return {};
}

Status Worker::cast(std::size_t index, std::uint64_t item_offset, std::span<const std::byte> stored) {
  const Item& item = run_.items[index];
  const std::size_t from_bytes = bits(item.tensor.dtype()) / 8;  // per element
  const std::size_t to_bytes = bits(item.dtype) / 8;
  const std::size_t elements = stored.size() / from_bytes;
  const bool scatters = !item.strides.empty();
  const std::size_t at_once = scatters ? kCastBytes / to_bytes : elements;
  alignas(64) std::byte buffer[kCastBytes];
  for (std::size_t element = 0; element < elements; element += at_once) {
    const std::size_t count = std::min(at_once, elements - element);
    const std::uint64_t offset = item.result_bytes(item_offset) + element * to_bytes;
    std::byte* const out = scatters ? buffer : destination(index, offset, count * to_bytes);
    const std::byte* const in = stored.data() + element * from_bytes;
    const std::size_t done = format::try_cast(item.tensor.dtype(), in, item.dtype, out, count);
    if (done != count) return out_of_range(item, item_offset + (element + done) * from_bytes, in + done * from_bytes);
    if (scatters) scatter(item, offset, {out, count * to_bytes});
    finish(index, count * to_bytes);
  }
  return {};
}

// Returns memory for a range of the result: the range in the result itself, or the next part of the pinned slot.
std::byte* Worker::destination(std::size_t index, std::uint64_t offset, std::size_t size) {
  const Slot& slot = run_.slots[index];
  if (slot.ring == nullptr) {
    provide(slot.memory, run_.items[index].size, offset, size);
    return slot.memory + offset;
  }
  parts_.push_back({pinned_used_, size, run_.items[index].address() + offset});
  copied_.emplace_back(index, size);
  pinned_used_ += size;
  return pinned_ + parts_.back().from;
}

// Called when bytes of the result are written. Bytes for a device are complete only when the device has copied them.
void Worker::finish(std::size_t index, std::uint64_t bytes) noexcept {
  if (run_.slots[index].ring == nullptr) run_.add_completed(index, bytes);
}

}  // namespace safetensors::plan
