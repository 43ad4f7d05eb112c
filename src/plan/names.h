// Finds the items of a plan by the names of their tensors.
#pragma once

#include <safetensors/header.h>
#include <safetensors/read_plan.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/item.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

// Each Header finds a name by its keyed hash. The entry that it finds leads to the item. The headers keep the entries
// alive, but no file open.
struct PlanNames {
  std::vector<Header> headers;                                     // of the files of the plan
  std::vector<std::pair<const TensorInfo*, std::uint32_t>> items;  // sorted; the number is the index of the item
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors

namespace safetensors::plan {

// May throw std::bad_alloc.
[[nodiscard]] std::shared_ptr<const detail::PlanNames> name_items(std::span<const Item> items);

}  // namespace safetensors::plan
