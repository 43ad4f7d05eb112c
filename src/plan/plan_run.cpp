#include "plan/plan_run.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "format/slice.h"
#include "os/huge_page_allocator.h"
#include "os/parallel.h"
#include "os/system_error.h"
#include "plan/arena.h"

namespace safetensors::plan {
namespace {

constexpr std::size_t kSmallestChunk = 4096;
constexpr std::uint64_t kMinAlignedItem =
    256 << 10;                             // items from here on may cost a page to be where a device can write to
constexpr unsigned kThreadsOfDevices = 8;  // that keep one busy
constexpr unsigned kThreadsOfNetworks = 16;
constexpr std::size_t kDirects = 16;   // files open past the page cache at one time, if no more are being read
constexpr unsigned kPinnedSlots = 16;  // of page-locked memory on the way to a device
constexpr std::size_t kSlotBytes = std::size_t{8} << 20;

io::Caching to_caching(Cache cache) noexcept {
  switch (cache) {
    case Cache::fill:
      return io::Caching::fill;
    case Cache::drop:
      return io::Caching::drop;
    case Cache::bypass:
      return io::Caching::bypass;
    case Cache::keep:
      break;
  }
  return io::Caching::keep;
}

// Which bytes of a file a plan is about, those aside that are in memory.
struct Extent {
  std::uint64_t begin = ~std::uint64_t{0};
  std::uint64_t end = 0;
  std::uint64_t results = 0;  // bytes

  [[nodiscard]] std::uint64_t size() const noexcept { return begin < end ? end - begin : 0; }
  void add(const PlanItem& item) noexcept {
    std::uint64_t first = item.file_offset();
    std::uint64_t last = first + item.stored;
    if (item.slice && item.stored != 0) {
      // The last piece may lie before the first. Where steps of both signs meet others lie outside: it is for an
      // estimate.
      const std::uint64_t one = format::piece_offset(*item.slice, 0);
      const std::uint64_t other = format::piece_offset(*item.slice, format::piece_count(*item.slice) - 1);
      first = item.info().file_offset + std::min(one, other);
      last = item.info().file_offset + std::max(one, other) + detail::SliceAccess::piece_size(*item.slice);
    }
    begin = std::min(begin, first);
    end = std::max(end, last);
  }
};

}  // namespace

PlanRun::PlanRun(std::span<const PlanItem> items, const ReadOptions& options, bool in_order)
    : items_(items), options_(options), in_order_(in_order), order_(items.size()), slots_(new PlanSlot[items.size()]) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  make_paths();
  if (!in_order) sort_order();
  choose_threads();
  for (const PlanItem& item : items) total_ += item.size;
}

void PlanRun::make_paths() {
  std::map<const detail::FileState*, std::size_t> known;
  std::vector<Extent> extents;
  std::vector<std::size_t> path_of(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const PlanItem& item = items_[i];
    const auto [found, made] = known.try_emplace(&item.file(), files_.size());
    if (made) {
      files_.push_back(&item.file());
      extents.emplace_back();
    }
    path_of[i] = found->second;
    Extent& extent = extents[found->second];
    slots_[i].mapped = item.file().memory(item.info());
    if (slots_[i].mapped.bytes.empty()) extent.add(item);
    extent.results += item.size;
  }
  const auto directs = std::make_shared<os::DescriptorPool>(files_.size(), kDirects);
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const io::Transfer transfer{.caching = to_caching(options_.cache),
                                .begin = extents[i].begin,
                                .size = extents[i].size(),
                                .work = extents[i].results};
    paths_.push_back(std::make_unique<io::SourceReader>(*files_[i]->source, transfer, os::PoolSlot{directs, i}));
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    slots_[i].path = paths_[path_of[i]].get();
    slots_[i].left.store(items_[i].size, std::memory_order_relaxed);
  }
}

// Files in the order in which the plan first names them.
void PlanRun::sort_order() {
  std::map<const io::SourceReader*, std::size_t> rank;
  for (const std::unique_ptr<io::SourceReader>& path : paths_) rank.emplace(path.get(), rank.size());
  const bool many = paths_.size() > 1;
  const auto before = [&](std::size_t a, std::size_t b) {
    if (many && slots_[a].path != slots_[b].path) return rank[slots_[a].path] < rank[slots_[b].path];
    return items_[a].file_offset() < items_[b].file_offset();
  };
  if (!std::is_sorted(order_.begin(), order_.end(), before)) std::stable_sort(order_.begin(), order_.end(), before);
}

void PlanRun::choose_threads() {
  unsigned wanted = os::usable_processors();
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    most_ = std::max(most_, paths_[i]->piece());
    if (paths_[i]->waits()) wanted = std::max(wanted, paths_[i]->remote() ? kThreadsOfNetworks : kThreadsOfDevices);
  }
  threads_ = std::max(options_.threads == 0 ? wanted : options_.threads, 1U);
  if (options_.chunk_bytes != 0)
    most_ = static_cast<std::size_t>(std::min<std::uint64_t>(options_.chunk_bytes, std::size_t{1} << 30));
  most_ = std::max(most_ / os::HugePageAllocator::kAlignment * os::HugePageAllocator::kAlignment, kSmallestChunk);
  bound_by_work();
  if (options_.memory_budget == 0) return;
  // Half of the budget is for what is being read, however few threads that leaves.
  const std::uint64_t room = std::max<std::uint64_t>(options_.memory_budget / 2, kSmallestChunk);
  if (room < most_) most_ = static_cast<std::size_t>(room / kSmallestChunk * kSmallestChunk);
  threads_ = static_cast<unsigned>(std::clamp<std::uint64_t>(room / most_, 1, threads_));
}

// No more threads than there are jobs, nearly: small items that wait for a device may each be one.
void PlanRun::bound_by_work() {
  bool waits = false;
  for (const std::unique_ptr<io::SourceReader>& path : paths_) waits = waits || path->waits();
  std::uint64_t bytes = 0;
  for (const PlanItem& item : items_) bytes += item.stored;
  std::uint64_t jobs = bytes / most_ + 1;
  if (waits) jobs = std::max<std::uint64_t>(jobs, items_.size());
  threads_ = static_cast<unsigned>(std::min<std::uint64_t>(threads_, jobs));
}

Status PlanRun::open_devices() {
  std::map<int, device::CopyRing*> rings;
  for (const PlanItem& item : items_)
    if (item.on_device() && item.size != 0) rings.emplace(item.device.device, nullptr);
  if (rings.empty()) return {};
  if (rings.size() > 1 && options_.device_stream != nullptr)
    return base::make_error(Errc::invalid_argument, "device_stream is of one device, the plan's destinations are on " +
                                                        std::to_string(rings.size()) + ": make a plan for each");
  const Result<std::shared_ptr<const device::Cuda>> cuda =
      options_.cuda_driver == nullptr ? device::Cuda::load() : device::Cuda::load(options_.cuda_driver);
  if (!cuda) return cuda.error();
  for (auto& [number, ring] : rings) {
    Result<std::unique_ptr<device::CopyRing>> made =
        device::CopyRing::create(*cuda, number, ring_options(rings.size()));
    if (!made) return std::move(made).error();
    ring = made->get();
    rings_.push_back(*std::move(made));
  }
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (items_[i].on_device() && items_[i].size != 0) slots_[i].ring = rings[items_[i].device.device];
  bound_by_rings();
  return {};
}

// Half of the budget is for rings, the other for what threads convert or collect.
device::RingOptions PlanRun::ring_options(std::size_t devices) const noexcept {
  device::RingOptions options{.slots = kPinnedSlots, .slot_bytes = kSlotBytes};
  const std::uint64_t room = options_.memory_budget / 2 / devices;
  if (options_.memory_budget != 0 && room < kPinnedSlots * kSlotBytes)
    options = device::ring_within(static_cast<std::size_t>(room));
  options.after = static_cast<device::Stream>(options_.device_stream);
  return options;
}

// What a job makes must fit into a slot, and while threads fill some the device empties others.
void PlanRun::bound_by_rings() {
  std::size_t widest = 1;
  for (const PlanItem& item : items_)
    if (item.on_device() && item.casts())
      widest = std::max<std::size_t>(widest, bits(item.dtype) / bits(item.tensor.dtype()));
  for (const std::unique_ptr<device::CopyRing>& ring : rings_) {
    const device::RingStats stats = ring->stats();
    device_chunk_ = std::min(device_chunk_, stats.slot_bytes / widest / os::HugePageAllocator::kAlignment *
                                                os::HugePageAllocator::kAlignment);
    threads_ = std::min(threads_, std::max(stats.slots * 3 / 4, 1U));
  }
}

Status PlanRun::finish_devices() noexcept {
  for (const std::unique_ptr<device::CopyRing>& ring : rings_)
    if (Status status = ring->finish(); !status) return status;
  return {};
}

std::size_t PlanRun::chunk(std::size_t item) const noexcept {
  const std::size_t chunk = options_.chunk_bytes != 0 ? most_ : std::min(most_, slots_[item].path->piece());
  if (slots_[item].ring == nullptr) return chunk;
  return options_.chunk_bytes != 0 ? std::min(chunk, device_chunk_) : device_chunk_;
}

// Where a device writes to memory that is in phase with the file, large items are put there if that still lets them be
// at multiples of 64.
std::uint32_t PlanRun::phase(std::size_t number) const noexcept {
  const PlanItem& item = items_[number];
  const PlanSlot& slot = slots_[number];
  const std::uint64_t offset = item.file_offset();
  if (item.size < kMinAlignedItem || item.slice || !item.plain() ||
      slot.path->direct_alignment() <= os::HugePageAllocator::kAlignment ||
      offset % os::HugePageAllocator::kAlignment != 0)
    return os::HugePageAllocator::Request::kAnyPhase;
  return static_cast<std::uint32_t>(offset % os::HugePageAllocator::kPhase);
}

Status PlanRun::place(std::size_t first, std::size_t count) {
  std::vector<os::HugePageAllocator::Request> requests;
  requests.reserve(count);
  for (std::size_t i = first; i < first + count; ++i) {
    const PlanItem& item = items_[order_[i]];
    if (item.owned()) requests.push_back({.size = item.size, .phase = phase(order_[i])});
  }
  bool huge = true;
  os::HugePageAllocator* const arena =
      options_.arena == nullptr ? nullptr : detail::ArenaAccess::pages(*options_.arena);
  Status status = arena != nullptr ? arena->place(requests) : os::HugePageAllocator::place_once(requests, huge);
  if (arena != nullptr) huge = arena->huge();
  if (!status) {
    // One tensor is named; of several the sum is what matters.
    if (count == 1)
      return items_[order_[first]].file().describe(items_[order_[first]].info(), std::move(status).error());
    return status;
  }
  if (!huge) {
    const std::lock_guard lock(mutex_);
    huge_refused_ = true;
  }
  std::size_t next = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    const PlanItem& item = items_[order_[i]];
    PlanSlot& slot = slots_[order_[i]];
    slot.memory = item.destination.data();
    if (!item.owned()) continue;
    slot.owner = std::move(requests[next++].memory);
    slot.memory = slot.owner.get();
  }
  return {};
}

std::uint64_t PlanRun::staging_bytes() const noexcept {
  const bool staged =
      std::ranges::any_of(items_, [](const PlanItem& item) { return !item.plain() || item.stored < kSmallItem; });
  return staged ? std::uint64_t{threads_} * most_ : 0;
}

Array PlanRun::take_array(std::size_t item) {
  const PlanItem& made = items_[item];
  PlanSlot& slot = slots_[item];
  const std::span<std::byte> bytes(slot.memory, made.strides.empty() ? static_cast<std::size_t>(made.size) : 0);
  if (made.on_device()) return Array(made.dtype, made.shape, {}, nullptr, MemoryKind::borrowed);
  if (made.owned()) return Array(made.dtype, made.shape, bytes, std::move(slot.owner), MemoryKind::owned);
  return Array(made.dtype, made.shape, bytes, nullptr, MemoryKind::borrowed);
}

void PlanRun::add(const io::ReadCounts& counts, std::uint64_t mapped, const os::ThreadUsage& usage) noexcept {
  const std::lock_guard lock(mutex_);
  counts_ += counts;
  mapped_ += mapped;
  usage_ += usage;
}

ReadReport PlanRun::report(double seconds) const {
  std::uint64_t device_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  for (const std::unique_ptr<device::CopyRing>& ring : rings_) {
    const device::RingStats stats = ring->stats();
    device_bytes += stats.bytes;
    pinned_bytes += stats.pinned_bytes;
  }
  const std::lock_guard lock(mutex_);
  ReadReport report{.bytes = done(),
                    .bytes_buffered = counts_.buffered,
                    .bytes_direct = counts_.direct,
                    .bytes_mapped = mapped_,
                    .bytes_device = device_bytes,
                    .pinned_bytes = pinned_bytes,
                    .reads = counts_.calls,
                    .page_faults = usage_.page_faults,
                    .threads = threads_,
                    .seconds = seconds,
                    .cpu_seconds = usage_.cpu_seconds};
  if (huge_refused_) report.fallbacks.emplace_back("memory is in small pages: the system refuses huge ones");
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const int number = paths_[i]->direct_refused();
    if (number == 0) continue;
    std::string file = files_[i]->path.empty() ? "a file" : printable(files_[i]->path);
    report.fallbacks.push_back(std::move(file) + " is read through the page cache: reading past it is refused (" +
                               os::describe_errno(number) + ")");
  }
  return report;
}

}  // namespace safetensors::plan
