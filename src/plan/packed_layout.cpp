// Places tensors one behind the other in a buffer. Sorts indices of the list, then walks over them with an offset that
// is rounded up to the alignment. Names are sorted once, which finds repeated names and serves PackedTable::find().
#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "plan/packed.h"

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::uint64_t kMaxAlignment = 4096;

Status check_alignment(std::uint64_t alignment) {
  if (std::has_single_bit(alignment) && alignment <= kMaxAlignment) return {};
  return base::make_error(Errc::invalid_argument, "invalid alignment " + std::to_string(alignment) +
                                                      ", expected a power of two from 1 to " +
                                                      std::to_string(kMaxAlignment));
}

// Files are in the order in which the list first names them.
void sort_by_file(std::vector<plan::Item>& items) {
  std::map<const detail::FileState*, std::size_t> rank;
  for (const plan::Item& item : items) rank.try_emplace(&item.file(), rank.size());
  const auto before = [&rank](const plan::Item& a, const plan::Item& b) {
    if (&a.file() != &b.file()) return rank.find(&a.file())->second < rank.find(&b.file())->second;
    return a.file_offset() < b.file_offset();
  };
  if (!std::is_sorted(items.begin(), items.end(), before)) std::stable_sort(items.begin(), items.end(), before);
}

void sort_items(std::vector<plan::Item>& items, PackedOrder order) {
  if (order == PackedOrder::file) sort_by_file(items);
  if (order == PackedOrder::name)
    std::stable_sort(items.begin(), items.end(),
                     [](const plan::Item& a, const plan::Item& b) { return a.info().name < b.info().name; });
}

// Gives each item a row with its offset.
Status place_rows(const std::vector<plan::Item>& items, detail::PackedTableState& table) {
  table.tensors.reserve(items.size());
  for (const plan::Item& item : items) {
    std::uint64_t offset = 0;
    const bool rounded = base::add(table.nbytes, table.alignment - 1, offset);
    offset &= ~(table.alignment - 1);
    if (!rounded || !base::add(offset, item.size, table.nbytes))
      return item.file().describe(
          item.info(), base::make_error(Errc::size_overflow, "the buffer would be larger than 2^64-1 bytes"));
    table.tensors.push_back({std::string(item.info().name), item.dtype, item.shape, offset, item.size});
  }
  return {};
}

Status index_names(detail::PackedTableState& table) {
  const auto name = [&table](std::size_t index) -> const std::string& { return table.tensors[index].name; };
  table.by_name.resize(table.tensors.size());
  std::iota(table.by_name.begin(), table.by_name.end(), std::size_t{0});
  std::ranges::sort(table.by_name, {}, name);
  const auto same = std::ranges::adjacent_find(table.by_name, {}, name);
  if (same == table.by_name.end()) return {};
  return base::make_error(Errc::duplicate_name,
                          base::tensor_named(name(*same)) + " occurs twice in the list, expected each name once");
}

Result<std::vector<plan::Item>> packed_items(std::span<const Tensor> tensors, const PackedOptions& options) {
  std::vector<plan::Item> items;
  items.reserve(tensors.size());
  for (const Tensor& tensor : tensors) {
    Result<plan::Item> item = plan::make_item(tensor, nullptr, {}, {.cast = options.cast});
    if (!item) return std::move(item).error();
    items.push_back(*std::move(item));
  }
  return items;
}

}  // namespace

Span<const PackedTensor> PackedTable::tensors() const& noexcept {
  return state_ ? std::span<const PackedTensor>(state_->tensors) : std::span<const PackedTensor>();
}

const PackedTensor* PackedTable::find(std::string_view name) const& noexcept {
  if (!state_) return nullptr;
  const auto name_of = [this](std::size_t index) { return std::string_view(state_->tensors[index].name); };
  const auto found = std::ranges::lower_bound(state_->by_name, name, {}, name_of);
  if (found == state_->by_name.end() || name_of(*found) != name) return nullptr;
  return &state_->tensors[*found];
}

std::uint64_t PackedTable::nbytes() const noexcept {
  return state_ ? state_->nbytes : 0;
}

std::uint64_t PackedTable::alignment() const noexcept {
  return state_ ? state_->alignment : 1;
}

Result<PackedLayout> PackedLayout::make(const Tensors& tensors, const PackedOptions& options) noexcept {
  return base::guarded([&]() -> Result<PackedLayout> {
    const std::vector<Tensor> list(tensors.begin(), tensors.end());
    return make(std::span<const Tensor>(list), options);
  });
}

Result<PackedLayout> PackedLayout::make(Span<const Tensor> tensors, const PackedOptions& options) noexcept {
  return base::guarded([&]() -> Result<PackedLayout> {
    if (Status status = check_alignment(options.alignment); !status) return std::move(status).error();
    Result<std::vector<plan::Item>> items = packed_items(tensors, options);
    if (!items) return std::move(items).error();
    sort_items(*items, options.order);
    auto table = std::make_shared<detail::PackedTableState>();
    table->alignment = options.alignment;
    if (Status status = place_rows(*items, *table); !status) return std::move(status).error();
    if (Status status = index_names(*table); !status) return std::move(status).error();
    auto state = std::make_shared<detail::PackedLayoutState>();
    state->table = PackedTable(std::move(table));
    state->items = *std::move(items);
    return PackedLayout(std::move(state));
  });
}

const PackedTable& PackedLayout::table() const& noexcept {
  return state_->table;
}

}  // namespace v0
}  // namespace safetensors
