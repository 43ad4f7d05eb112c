// Items are usually in the order of the header, so sorting their entries is one pass.
#include "plan/names.h"

#include <algorithm>

#include "file/file.h"

namespace safetensors {
namespace plan {

std::shared_ptr<const detail::PlanNames> name_items(std::span<const Item> items) {
  auto names = std::make_shared<detail::PlanNames>();
  std::vector<const detail::FileState*> files;
  names->items.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const detail::FileState* const file = &items[i].file();
    if (files.empty() || files.back() != file) files.push_back(file);
    names->items.emplace_back(&items[i].info(), static_cast<std::uint32_t>(i));
  }
  if (!std::ranges::is_sorted(names->items)) std::ranges::sort(names->items);
  std::ranges::sort(files);
  files.erase(std::unique(files.begin(), files.end()), files.end());
  for (const detail::FileState* const file : files) names->headers.push_back(file->header);
  return names;
}

}  // namespace plan

inline namespace v0 {

const Array* ReadResult::find(std::string_view name) const& noexcept {
  if (!names) return nullptr;
  for (const Header& header : names->headers) {
    const TensorInfo* const info = header.find(name);
    if (info == nullptr) continue;
    const auto found = std::ranges::lower_bound(names->items, info, {}, &decltype(names->items)::value_type::first);
    if (found != names->items.end() && found->first == info && found->second < arrays.size())
      return &arrays[found->second];
  }
  return nullptr;
}

}  // namespace v0
}  // namespace safetensors
