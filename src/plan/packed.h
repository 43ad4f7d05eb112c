// The states of PackedTable and PackedLayout.
#pragma once

#include <safetensors/read_packed.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/item.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

struct PackedTableState {
  std::vector<PackedTensor> tensors;  // by offset
  std::vector<std::size_t> by_name;   // indices of tensors, sorted by the bytes of their names
  std::uint64_t nbytes = 0;
  std::uint64_t alignment = 1;
};

struct PackedLayoutState {
  PackedTable table;
  std::vector<plan::Item> items;  // in the order of the table, without destinations
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
