// The state of a ReadPlan.
#pragma once

#include <safetensors/read_plan.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "plan/item.h"

namespace safetensors {
inline namespace v0 {

struct ReadPlan::State {
  static Status add(std::shared_ptr<State>& state, const Tensor& tensor, const Slice* slice,
                    const Destination& destination, const AddOptions& options);

  std::vector<plan::Item> items;
  std::uint64_t bytes = 0;  // of all results
};

}  // namespace v0

namespace plan {

// Reads items as ReadPlan::execute() does. May throw std::bad_alloc.
[[nodiscard]] Result<ReadResult> execute(std::span<const Item> items, const ReadOptions& options);

}  // namespace plan
}  // namespace safetensors
