// Chooses the number of threads and the size of jobs. It begins with the fastest choice, then applies three limits: the
// amount of work, the memory budget, and the pinned memory of devices. The rest of the budget is for results.
#include "plan/budget.h"

#include <algorithm>

#include "os/huge_page_memory.h"
#include "os/parallel.h"
#include "plan/jobs.h"
#include "plan/tuning.h"

namespace safetensors::plan {
namespace {

constexpr std::size_t kMinNetworkChunk = std::size_t{1} << 20;
constexpr std::size_t kMinChunk = 4096;
constexpr std::size_t kMaxChunk = std::size_t{1} << 30;
constexpr unsigned kThreadsPerDevice = 8;  // enough to keep a storage device busy
constexpr unsigned kThreadsPerNetwork = 16;
constexpr std::uint64_t kMaxRun = std::uint64_t{32} << 20;
// Pinning takes 0.5 ms per MiB. 4 GiB to an H200 took 141 ms with 16 slots of 2 MiB, 158 ms with slots of 1 MiB, and
// 234 ms with slots of 8 MiB. Reads from a network have larger chunks, and need larger slots.
constexpr unsigned kRingSlots = 16;
constexpr std::size_t kMinRingSlotBytes = std::size_t{2} << 20;
constexpr std::size_t kMaxRingSlotBytes = std::size_t{8} << 20;

std::size_t aligned_down(std::size_t size) noexcept {
  return size / os::MemoryRequest::kAlignment * os::MemoryRequest::kAlignment;
}

// The limit that tests choose, which is at least kMinChunk.
std::size_t max_chunk_given() noexcept {
  if (tuning.chunk_bytes == 0) return kMaxChunk;
  return std::clamp(aligned_down(static_cast<std::size_t>(std::min<std::uint64_t>(tuning.chunk_bytes, kMaxChunk))),
                    kMinChunk, kMaxChunk);
}

// If the system reads ahead, it keeps the device busy, and threads mostly copy. With 2 processors, 8 processes that
// read one cold file of 0.5 GiB took 1.0 s with 4 threads each, and 1.3 s with 8.
unsigned threads_for(const io::SourceReader& reader, unsigned processors) noexcept {
  if (!reader.concurrent()) return 1;
  if (!reader.waits()) return processors;
  if (reader.remote()) return kThreadsPerNetwork;
  return reader.reads_ahead() ? std::min(2 * processors, kThreadsPerDevice) : kThreadsPerDevice;
}

}  // namespace

Budget::Budget(const ReadOptions& options, bool streamed, std::span<const Item> items,
               std::span<const std::unique_ptr<io::SourceReader>> readers)
    : memory_limit_(options.memory_limit == 0 && streamed ? kDefaultStreamBudget : options.memory_limit),
      results_wait_(streamed && std::ranges::any_of(items, [](const Item& item) { return item.host_bytes() != 0; })) {
  const unsigned processors = os::usable_processors();
  unsigned fastest = readers.empty() ? processors : 1;
  bool waits = false, remote = false;
  for (const std::unique_ptr<io::SourceReader>& reader : readers) {
    max_chunk_ = std::max(max_chunk_, reader->chunk_bytes());
    fastest = std::max(fastest, threads_for(*reader, processors));
    waits = waits || reader->waits();
    remote = remote || reader->remote();
    if (reader->reads_ahead()) run_bytes_ = kMaxRun;
  }
  threads_ = std::max(options.threads == 0 ? fastest : options.threads, 1U);
  max_device_chunk_ = max_chunk_given();
  max_chunk_ = std::max(aligned_down(std::min(max_chunk_, max_device_chunk_)), kMinChunk);

  // Allow about one thread per job. If the files are on a network, lower the chunk size so that all threads have work,
  // because each thread waits for the server most of the time. If reads wait for a storage device or a network, count
  // at least one job per item.
  std::uint64_t bytes = 0;
  for (const Item& item : items) bytes += item.stored;
  if (remote) {
    const std::uint64_t share = std::max<std::uint64_t>(bytes / threads_, kMinNetworkChunk);
    max_chunk_ =
        std::min(max_chunk_, aligned_down(static_cast<std::size_t>(std::min<std::uint64_t>(share, kMaxChunk))));
  }
  const std::uint64_t jobs = std::max<std::uint64_t>(bytes / max_chunk_ + 1, waits ? items.size() : 0);
  threads_ = static_cast<unsigned>(std::min<std::uint64_t>(threads_, jobs));
  if (memory_limit_ == 0) return;

  // Limit threads x chunk to half of the budget, even if that leaves only one thread.
  const std::uint64_t reading = std::max<std::uint64_t>(memory_limit_ / 2, kMinChunk);
  if (reading < max_chunk_) max_chunk_ = static_cast<std::size_t>(reading / kMinChunk * kMinChunk);
  threads_ = static_cast<unsigned>(std::clamp<std::uint64_t>(reading / max_chunk_, 1, threads_));
}

std::size_t Budget::chunk_bytes(const Slot& slot) const noexcept {
  return slot.ring == nullptr ? std::min(max_chunk_, slot.reader->chunk_bytes()) : max_device_chunk_;
}

device::RingOptions Budget::ring_options(const ReadOptions& options, std::size_t devices) const noexcept {
  const std::size_t slot_bytes = std::clamp(max_chunk_, kMinRingSlotBytes, kMaxRingSlotBytes);
  device::RingOptions ring{.slots = kRingSlots, .slot_bytes = slot_bytes};
  const std::uint64_t per_device = memory_limit_ / (results_wait_ ? 4 : 2) / devices;
  if (memory_limit_ != 0 && per_device < kRingSlots * slot_bytes)
    ring = device::ring_within(static_cast<std::size_t>(per_device));
  ring.after = static_cast<device::Stream>(options.device_stream);
  return ring;
}

void Budget::fit(std::span<const Item> items, std::span<const std::unique_ptr<device::CopyRing>> rings) noexcept {
  std::size_t growth = 1;                    // factor by which a cast enlarges a result on a device
  bool on_host = false, on_devices = false;  // items that need staging buffers
  for (const Item& item : items) {
    if (item.on_device() && item.casts())
      growth = std::max<std::size_t>(growth, bits(item.dtype) / bits(item.tensor.dtype()));
    if (!item.plain() || item.stored < kSmallItem) (item.on_device() ? on_devices : on_host) = true;
  }
  std::uint64_t pinned_bytes = 0;
  for (const std::unique_ptr<device::CopyRing>& ring : rings) {
    const device::RingStats stats = ring->stats();
    pinned_bytes += stats.pinned_bytes;
    max_device_chunk_ = std::min(max_device_chunk_, aligned_down(stats.slot_bytes / growth));
    threads_ = std::min(threads_, std::max(stats.slots * 3 / 4, 1U));
  }
  std::size_t staging = on_host ? max_chunk_ : 0;
  if (on_devices && pinned_bytes != 0) staging = std::max(staging, max_device_chunk_);
  const std::uint64_t used = std::uint64_t{threads_} * staging + pinned_bytes;
  result_bytes_ = memory_limit_ - std::min(used, memory_limit_);
}

}  // namespace safetensors::plan
