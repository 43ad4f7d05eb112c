// Prepares the execution of a plan: the order of the items, and one reader per file. A reader knows which bytes of its
// file the plan needs. Later, ExecutionState adds up the reports of the threads.
//
// Places results one behind the other in huge pages, so that there are few mappings and few page faults. With pages of
// 4 KiB, the faults would cost as much as reading from the page cache. A plan without devices does not need the driver
// of CUDA.
#include "plan/execution_state.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "file/slice_reader.h"
#include "format/slice/slice.h"
#include "os/huge_page_memory.h"
#include "os/memory.h"
#include "os/system_error.h"
#include "plan/tuning.h"

namespace safetensors::plan {

// The range of a file that a plan reads.
struct ExecutionState::FileUse {
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  std::uint64_t read_bytes = 0;  // without gaps
  std::uint64_t pieces = 0;      // of read_bytes, without bytes of the file between them
  std::uint64_t last_end = 0;    // offset of the end of the last piece
  bool reads_gaps = false;       // between short pieces of slices, also by the read-ahead of the system

  // Measured with pieces that are a third of the file: without read-ahead, pieces of 4 MiB took half of the time,
  // pieces of 16 MiB nine tenths, and pieces of 32 MiB took longer.
  [[nodiscard]] bool sparse() const noexcept {
    constexpr std::uint64_t kLongPiece = std::uint64_t{24} << 20;
    return !reads_gaps && read_bytes < size() / 2 && read_bytes < pieces * kLongPiece;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return begin < end ? end - begin : 0; }
  void add(const Item& item) noexcept {
    std::uint64_t first = item.file_offset();
    std::uint64_t last = first + item.stored;
    std::uint64_t count = 1;
    if (item.slice && item.stored != 0) {
      // From the first to the last piece, whichever has the lower offset. This is an estimate: a slice with steps of
      // both signs has pieces outside of this range.
      const std::uint64_t one = format::piece_offset(*item.slice, 0);
      count = format::piece_count(*item.slice);
      const std::uint64_t other = format::piece_offset(*item.slice, count - 1);
      first = item.info().file_offset + std::min(one, other);
      last = item.info().file_offset + std::max(one, other) + detail::Access<ResolvedSlice>::piece_size(*item.slice);
    }
    begin = std::min(begin, first);
    end = std::max(end, last);
    read_bytes += item.stored;
    if (item.stored != 0) pieces += count - (first == last_end ? 1 : 0);
    last_end = last;
    reads_gaps |= item.slice && detail::Access<ResolvedSlice>::piece_size(*item.slice) < file::kExactPiece;
  }
};

ExecutionState::ExecutionState(std::span<const Item> all, const ReadOptions& given, bool as_stream)
    : items(all),
      options(given),
      streamed(as_stream),
      slots(new Slot[all.size()]),
      order(all.size()),
      readers_(make_readers()),
      budget_(given, as_stream, all, readers_) {
  for (const Item& item : items) total += item.size;
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Files are in the order in which the plan first names them.
  const auto before = [&](std::size_t a, std::size_t b) {
    if (slots[a].file != slots[b].file) return slots[a].file < slots[b].file;
    const std::uint64_t offset = items[a].file_offset();
    return offset != items[b].file_offset() ? offset < items[b].file_offset() : a < b;
  };
  if (!streamed && !std::is_sorted(order.begin(), order.end(), before)) std::sort(order.begin(), order.end(), before);
}

std::vector<std::unique_ptr<io::SourceReader>> ExecutionState::make_readers() {
  std::map<const detail::FileState*, std::size_t> known;
  std::vector<FileUse> uses;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const auto [found, is_new] = known.try_emplace(&item.file(), files_.size());
    if (is_new) {
      files_.push_back(&item.file());
      uses.emplace_back();
    }
    slots[i].file = found->second;
    slots[i].mapped = item.file().memory(item.info());
    if (slots[i].mapped.bytes.empty()) uses[slots[i].file].add(item);
  }
  std::vector<std::unique_ptr<io::SourceReader>> readers;
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const io::Transfer transfer{.begin = uses[i].begin,
                                .size = uses[i].size(),
                                .in_runs = !streamed,
                                .sparse = uses[i].sparse(),
                                .assume_uncached = tuning.assume_uncached};
    readers.push_back(std::make_unique<io::SourceReader>(*files_[i]->source, transfer));
  }
  choose_cache(readers);
  for (std::size_t i = 0; i < items.size(); ++i) {
    slots[i].reader = readers[slots[i].file].get();
    slots[i].remaining.store(items[i].size, std::memory_order_relaxed);
  }
  return readers;
}

// Automatic: fills the page cache if the files and the results together fit into half of the memory. The rest is for
// the programs that run meanwhile. Whole files count: later plans may read the other tensors, and other ranks other
// slices.
void ExecutionState::choose_cache(std::span<const std::unique_ptr<io::SourceReader>> readers) {
  cache_ = options.cache;
  if (cache_ == Cache::automatic) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (readers[i]->waits() && !readers[i]->remote()) missing += files_[i]->source->size().value_or(0);
    }
    std::uint64_t results = 0;
    for (const Item& item : items) results += item.host_bytes();
    const std::uint64_t usable = missing == 0 ? 0 : os::memory_size() / 2;
    cache_ = missing == 0 || missing > usable - std::min(results, usable) ? Cache::keep : Cache::fill;
  }
  if (cache_ != Cache::fill) return;
  for (const std::unique_ptr<io::SourceReader>& reader : readers) reader->fill_cache();
}

Status ExecutionState::open_devices() {
  std::map<int, device::CopyRing*> ring_of;  // by the ordinal of the device
  const auto needs_ring = [](const Item& item) { return item.on_device() && item.size != 0; };
  for (const Item& item : items) {
    if (needs_ring(item)) ring_of.emplace(item.device, nullptr);
  }
  if (ring_of.empty()) return budget_.fit(items, rings_), Status();
  if (ring_of.size() > 1 && options.device_stream != nullptr)
    return base::make_error(Errc::invalid_argument, {"device_stream is of one device, the plan's destinations are on ",
                                                     ring_of.size(), ": make a plan for each"});
  const Result<std::shared_ptr<const device::Cuda>> cuda =
      tuning.cuda_driver == nullptr ? device::Cuda::load() : device::Cuda::load(tuning.cuda_driver);
  if (!cuda) return cuda.error();
  for (auto& [ordinal, ring] : ring_of) {
    Result<std::unique_ptr<device::CopyRing>> made =
        device::CopyRing::create(*cuda, ordinal, budget_.ring_options(options, ring_of.size()));
    if (!made) return std::move(made).error();
    ring = made->get();
    rings_.push_back(*std::move(made));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (needs_ring(items[i])) slots[i].ring = ring_of[items[i].device];
  }
  budget_.fit(items, rings_);
  return {};
}

// Direct I/O writes to memory whose address and file offset are equal modulo the block. A large item is placed in this
// way if its address can then still be a multiple of 64.
std::uint32_t ExecutionState::phase(std::size_t index) const noexcept {
  const Item& item = items[index];
  const std::uint64_t offset = item.file_offset();
  if (!item.may_be_direct() || slots[index].reader->direct_alignment() <= os::MemoryRequest::kAlignment ||
      offset % os::MemoryRequest::kAlignment != 0)
    return os::MemoryRequest::kAnyPhase;
  return static_cast<std::uint32_t>(offset % os::MemoryRequest::kPhase);
}

Status ExecutionState::place(std::span<const std::size_t> indices) {
  std::vector<os::MemoryRequest> requests;
  requests.reserve(indices.size());
  for (const std::size_t index : indices) {
    if (!items[index].owned()) continue;
    requests.push_back({.size = items[index].size, .phase = phase(index)});
  }
  Status status = os::place(requests);
  if (!status) {
    // The error names the tensor if there is only one. For several tensors, the sum of their sizes is the cause.
    if (indices.size() != 1) return status;
    const Item& item = items[indices.front()];
    return item.file().describe(item.info(), std::move(status).error());
  }
  auto request = requests.begin();
  for (const std::size_t index : indices) {
    Slot& slot = slots[index];
    if (!items[index].on_device()) slot.memory = items[index].destination.data();
    if (!items[index].owned()) continue;
    slot.owner = std::move((request++)->memory);
    slot.memory = slot.owner.get();
  }
  return {};
}

Array ExecutionState::take(std::size_t index) {
  const Item& item = items[index];
  Slot& slot = slots[index];
  if (item.on_device()) return Array(item.dtype, item.shape, {}, nullptr, MemoryKind::borrowed);
  const std::span<std::byte> bytes(slot.memory, item.strides.empty() ? static_cast<std::size_t>(item.size) : 0);
  if (item.owned()) return Array(item.dtype, item.shape, bytes, std::move(slot.owner), MemoryKind::owned);
  return Array(item.dtype, item.shape, bytes, nullptr, MemoryKind::borrowed);
}

void ExecutionState::add_completed(std::size_t index, std::uint64_t bytes) noexcept {
  // Update completed_ before remaining: a thread that sees zero remaining may read completed_ next.
  completed_.fetch_add(bytes, std::memory_order_relaxed);
  slots[index].remaining.fetch_sub(bytes);
}

Status ExecutionState::tell_progress() const noexcept {
  const std::uint64_t bytes = completed();
  if (!options.progress || options.progress(bytes, total)) return {};
  return base::cancelled(bytes, total);
}

void ExecutionState::add(const io::ReadCounts& counts) noexcept {
  const std::lock_guard lock(mutex_);
  counts_ += counts;
}

ReadReport ExecutionState::report() const {
  ReadReport report{.bytes = completed(), .threads = budget_.threads(), .cache = cache_};
  for (const std::unique_ptr<device::CopyRing>& ring : rings_) {
    const device::RingStats stats = ring->stats();
    report.bytes_device += stats.bytes;
    report.pinned_bytes += stats.pinned_bytes;
  }
  {
    const std::lock_guard lock(mutex_);
    report.bytes_buffered = counts_.buffered;
    report.bytes_direct = counts_.direct;
    report.bytes_mapped = counts_.mapped;
    report.reads = counts_.calls;
  }
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    const int error_number = readers_[i]->direct_refused();
    if (error_number == 0) continue;
    const std::string file = files_[i]->path.empty() ? "a file" : printable(files_[i]->path);
    report.fallbacks.push_back(base::concat({file, " is read through the page cache: reading past it is refused (",
                                             os::describe_errno(error_number), ")"}));
  }
  return report;
}

}  // namespace safetensors::plan
