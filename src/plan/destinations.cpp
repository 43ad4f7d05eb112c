// Finds destinations that overlap. The ranges are sorted by where they begin, so an overlap is always one of two
// neighbours, and n destinations take O(n log n).
//
// Destinations with strides are left out: two columns of one matrix interleave without a common byte.
#include "plan/destinations.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace safetensors::plan {
namespace {

struct Occupied {
  int device = -1;  // -1: memory of the host
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
  std::size_t item = 0;

  friend bool operator<(const Occupied& a, const Occupied& b) noexcept {
    return std::tie(a.device, a.begin, a.item) < std::tie(b.device, b.begin, b.item);
  }
};

std::vector<Occupied> occupied_by(std::span<const Item> items) {
  std::vector<Occupied> list;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.owned() || item.size == 0 || !item.strides.empty()) continue;
    const std::uint64_t begin =
        item.on_device() ? item.device.address : reinterpret_cast<std::uintptr_t>(item.destination.data());
    list.push_back({item.device.device, begin, item.size, i});
  }
  return list;
}

}  // namespace

Status check_destinations(std::span<const Item> items) {
  std::vector<Occupied> list = occupied_by(items);
  std::sort(list.begin(), list.end());
  const auto overlap = std::adjacent_find(list.begin(), list.end(), [](const Occupied& a, const Occupied& b) {
    return a.device == b.device && b.begin - a.begin < a.size;
  });
  if (overlap == list.end()) return {};
  const auto [first, second] = std::minmax(overlap->item, std::next(overlap)->item);
  return items[second].file().describe(
      items[second].info(),
      base::make_error(Errc::overlapping_destination,
                       "its destination overlaps that of " + base::tensor_named(items[first].info().name)));
}

}  // namespace safetensors::plan
