// The devices that a plan has destinations on.
#pragma once

#include <safetensors/read_plan.h>

#include <memory>
#include <span>
#include <vector>

#include "device/ring.h"
#include "plan/budget.h"
#include "plan/item.h"

namespace safetensors::plan {

// One ring of pinned memory per device.
class Devices {
 public:
  // Opens the driver if an item has a destination on a device, makes the rings, and stores the ring of each such item
  // in the item's slot. Errors: invalid_argument, and those of device::Cuda and device::CopyRing. May throw
  // std::bad_alloc.
  [[nodiscard]] Status open(std::span<const Item> items, std::span<Slot> slots, const ReadOptions& options,
                            Budget& budget);
  // Waits until all copies to devices have ended. Error: device_failed.
  [[nodiscard]] Status finish() noexcept;
  void add_to(ReadReport& report) const noexcept;

 private:
  std::vector<std::unique_ptr<device::CopyRing>> rings_;
};

}  // namespace safetensors::plan
