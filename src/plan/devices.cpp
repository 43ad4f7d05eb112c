// Opens the CUDA driver and makes a ring of pinned memory for each device. Does nothing for a plan without devices, so
// such a plan does not need the driver.
#include "plan/devices.h"

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "plan/tuning.h"

namespace safetensors::plan {

Status Devices::open(std::span<const Item> items, std::span<Slot> slots, const ReadOptions& options, Budget& budget) {
  std::map<int, device::CopyRing*> ring_of;  // by the ordinal of the device
  const auto needs_ring = [](const Item& item) { return item.on_device() && item.size != 0; };
  for (const Item& item : items) {
    if (needs_ring(item)) ring_of.emplace(item.device.device, nullptr);
  }
  if (ring_of.empty()) return {};
  if (ring_of.size() > 1 && options.device_stream != nullptr)
    return base::make_error(Errc::invalid_argument, "device_stream is of one device, the plan's destinations are on " +
                                                        std::to_string(ring_of.size()) + ": make a plan for each");
  const Result<std::shared_ptr<const device::Cuda>> cuda =
      tuning.cuda_driver == nullptr ? device::Cuda::load() : device::Cuda::load(tuning.cuda_driver);
  if (!cuda) return cuda.error();
  for (auto& [ordinal, ring] : ring_of) {
    Result<std::unique_ptr<device::CopyRing>> made =
        device::CopyRing::create(*cuda, ordinal, budget.ring_options(ring_of.size()));
    if (!made) return std::move(made).error();
    ring = made->get();
    rings_.push_back(*std::move(made));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (needs_ring(items[i])) slots[i].ring = ring_of[items[i].device.device];
  }
  budget.fit(items, rings_);
  return {};
}

Status Devices::finish() noexcept {
  for (const std::unique_ptr<device::CopyRing>& ring : rings_) {
    if (Status status = ring->finish(); !status) return status;
  }
  return {};
}

void Devices::add_to(ReadReport& report) const noexcept {
  for (const std::unique_ptr<device::CopyRing>& ring : rings_) {
    const device::RingStats stats = ring->stats();
    report.bytes_device += stats.bytes;
    report.pinned_bytes += stats.pinned_bytes;
  }
}

}  // namespace safetensors::plan
