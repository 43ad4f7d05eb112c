// Marks the number of each name, and then writes the names of the numbers without a mark. The limit of the count bounds
// the memory, because a name of a stranger can claim any count.
#include "format/checkpoint/shard_set.h"

#include <charconv>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "format/checkpoint/shard_index.h"

namespace safetensors::format {
namespace {

constexpr std::size_t kMaxCount = 99'999;

// Returns 0 for a number that is too large.
std::size_t number_of(std::string_view digits) {
  std::uint32_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return failed == std::errc() && end == digits.data() + digits.size() && number <= kMaxCount ? number : 0;
}

bool same_model(const NumberedShard& a, const NumberedShard& b) {
  return a.stem == b.stem && a.generation == b.generation && a.count == b.count && a.number.size() == b.number.size();
}

// The name of another shard of the model that `shard`, whose name is `name`, belongs to.
std::string name_of(std::string_view name, const NumberedShard& shard, std::size_t number) {
  const auto begin = static_cast<std::size_t>(shard.number.data() - name.data());
  const std::string digits = std::to_string(number);
  std::string other(name.substr(0, begin));
  other.append(shard.number.size() - digits.size(), '0').append(digits);
  return other.append(name.substr(begin + shard.number.size()));
}

}  // namespace

std::optional<ShardSet> shard_set(std::span<const std::string> names) {
  if (names.empty()) return std::nullopt;
  const std::optional<NumberedShard> first = parse_numbered_shard(names.front());
  const std::size_t count = first ? number_of(first->count) : 0;
  if (count == 0 || first->number.size() != first->count.size()) return std::nullopt;
  std::vector<bool> seen(count + 1);
  for (const std::string& name : names) {
    const std::optional<NumberedShard> shard = parse_numbered_shard(name);
    if (!shard || !same_model(*shard, *first)) return std::nullopt;
    const std::size_t number = number_of(shard->number);
    if (number == 0 || number > count || seen[number]) return std::nullopt;
    seen[number] = true;
  }
  ShardSet set{count, {}};
  for (std::size_t number = 1; number <= count; ++number) {
    if (!seen[number]) set.missing.push_back(name_of(names.front(), *first, number));
  }
  return set;
}

}  // namespace safetensors::format
