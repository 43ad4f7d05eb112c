// Checks the tensors of a Rewrite and arranges them in files.
//
// Names that do not change stay in the header of their file. CheckpointLayout asks for one tensor at a time, so there
// is no second list of them.
#include "write/rewrite_items.h"

#include <algorithm>
#include <compare>
#include <map>
#include <new>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "base/printable.h"
#include "file/file.h"
#include "format/checkpoint/checkpoint_layout.h"
#include "format/checkpoint/model_names.h"
#include "format/dtype/cast.h"
#include "format/header/header_writer.h"
#include "format/header/name_index.h"
#include "format/header/new_header.h"

namespace safetensors::write {
namespace {

Status check_cast(const RewriteItem& item) {
  const Dtype from = item.from->dtype;
  if (from == Dtype::UNKNOWN)
    return base::make_error(Errc::dtype_mismatch, base::tensor_named(item.from->name) +
                                                      ": has an unknown dtype, expected one of the format's");
  if (format::castable(from, item.dtype)) return {};
  std::string possible;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype))
      possible += (possible.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  const std::string casts = possible.empty() ? "there is no cast from this dtype" : "it can be cast to " + possible;
  return base::make_error(Errc::dtype_mismatch, base::tensor_named(item.from->name) + ": cannot cast " +
                                                    std::string(to_string(from)) + " to " +
                                                    std::string(to_string(item.dtype)) + ": " + casts);
}

}  // namespace

RewriteItems::RewriteItems(std::span<const RewriteTensor> tensors) {
  if (tensors.size() >= format::NameIndex::kNone) base::raise(std::bad_alloc());
  std::map<const detail::FileState*, std::uint32_t> indexes;
  items_.reserve(tensors.size());
  for (const RewriteTensor& tensor : tensors) {
    const auto next = static_cast<std::uint32_t>(files_.size());
    const auto [file, added] = indexes.emplace(&detail::Access<Tensor>::state(tensor.tensor), next);
    if (added) files_.push_back(tensor.tensor.file());
    const TensorInfo& from = tensor.tensor.info();
    const bool renamed = tensor.name && *tensor.name != from.name;
    items_.push_back({.from = &from,
                      .name = renamed ? keep(*tensor.name) : from.name,
                      .file = file->second,
                      .dtype = tensor.dtype.value_or(from.dtype)});
  }
}

std::string_view RewriteItems::keep(std::string_view name) {
  char* const copy = names_.allocate<char>(name.size());
  std::ranges::copy(name, copy);
  return {copy, name.size()};
}

Tensor RewriteItems::tensor(const RewriteItem& item) const noexcept {
  return detail::Access<Tensor>::make(file(item), *item.from);
}

std::size_t RewriteItems::count_casts() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(items_, &RewriteItem::is_cast));
}

Status RewriteItems::check() const {
  const std::size_t repeated = first_repeated();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (Status status = check_cast(items_[i]); !status) return status;
    if (i == repeated) return duplicate(items_[i]);
  }
  return {};
}

std::size_t RewriteItems::first_repeated() const {
  const base::HashKey key = base::HashKey::random();
  base::BumpAllocator allocator(base::heap(), 0);
  format::NameIndex names;
  for (std::size_t i = 0; i < items_.size(); ++i)
    names.push(allocator, base::hash(items_[i].name, key), items_.size() - i);
  const std::uint32_t found = names.build(allocator, [this](std::size_t i) { return items_[i].name; });
  return found == format::NameIndex::kNone ? items_.size() : found;
}

Error RewriteItems::duplicate(const RewriteItem& item) const {
  const auto first = std::ranges::find(items_, item.name, &RewriteItem::name);
  return base::make_error(Errc::duplicate_name, "two tensors get the name `" + printable(item.name) +
                                                    "`: " + origin(*first) + " and " + origin(item));
}

// "`name` of `path`"
std::string RewriteItems::origin(const RewriteItem& item) const {
  const std::string& path = file(item).path();
  return "`" + printable(item.from->name) + "`" + (path.empty() ? "" : " of `" + printable(path) + "`");
}

bool RewriteItems::in_writers_order() const {
  return std::ranges::all_of(files_, [](const File& file) {
    const TensorInfo* before = nullptr;
    for (const TensorInfo& tensor : file.header().tensors()) {
      if (tensor.nbytes() == 0) continue;
      if (before != nullptr && !format::written_before(before->dtype, before->name, tensor.dtype, tensor.name))
        return false;
      before = &tensor;
    }
    return true;
  });
}

format::ModelNames RewriteItems::names(const RewriteOptions& options) const {
  if (!options.folder || options.stem) return format::ModelNames::of_stem(options.stem.value_or("model"));
  std::set<std::string> stems;
  std::vector<std::string> names;
  for (const File& file : options.names_of ? options.names_of->files() : Span<const File>(files_)) {
    names.push_back(file.path().substr(file.path().rfind('/') + 1));
    stems.insert(format::stem_of(names.back()));
  }
  std::string index(options.names_of ? options.names_of->index_name() : std::string_view());
  if (const auto parts = format::parse_index_name(index)) stems = {parts->stem()};
  if (stems.size() != 1 || !format::check_stem(*stems.begin())) return format::ModelNames::of_stem("model");
  if (!format::is_index_name(index)) index = format::index_for(names[0]);
  return format::ModelNames::of_index(index, names);
}

Result<CheckpointLayout> RewriteItems::lay_out(RewriteOptions options) const {
  const bool keep_files = options.folder && !options.max_shard_size;
  const auto describe = [&](std::size_t index) {
    const RewriteItem& item = items_[index];
    CheckpointTensor tensor = {.name = item.name, .dtype = item.dtype, .shape = item.from->shape};
    if (keep_files) tensor.file = item.file;
    return tensor;
  };
  const format::ModelNames names = this->names(options);
  const TensorOrder kept = in_writers_order() ? TensorOrder::writer : TensorOrder::given;
  const auto metadata = [&]() -> Result<std::string> {
    // The pairs take several times the memory of the text.
    const std::optional<MetadataPairs> pairs = std::exchange(options.metadata, std::nullopt);
    return pairs ? format::metadata_member(*pairs) : std::string();
  };
  return format::make_layout(
      {items_.size(), describe},
      {.max_shard_size = options.folder ? options.max_shard_size.value_or(~std::uint64_t{0}) : ~std::uint64_t{0},
       .stem = options.stem.value_or("model"),
       .index_metadata = options.index_metadata,
       .layout = {.data_alignment = options.data_alignment, .order = options.order.value_or(kept)}},
      metadata, &names);
}

void RewriteItems::sort_by(const CheckpointLayout& layout) {
  struct Place {
    std::uint64_t offset;
    std::uint32_t file;
    std::uint32_t item;  // its index; the last key, so that tensors without bytes keep their order
    auto operator<=>(const Place& other) const noexcept {
      return std::tie(file, offset, item) <=> std::tie(other.file, other.offset, other.item);
    }
  };
  const auto place_of = [&](std::size_t index) {
    const std::string_view name = items_[index].name;
    const std::size_t file = layout.file_of(name).value_or(0);
    const TensorInfo* const tensor = layout.files()[file].header.find(name);
    return Place{tensor != nullptr ? tensor->begin : 0, static_cast<std::uint32_t>(file),
                 static_cast<std::uint32_t>(index)};
  };
  std::size_t sorted = 1;
  for (Place before = items_.empty() ? Place{} : place_of(0); sorted < items_.size(); ++sorted) {
    const Place here = place_of(sorted);
    if (here < before) break;
    before = here;
  }
  if (sorted >= items_.size()) return;  // as in most cases, and without memory

  std::vector<Place> places;
  places.reserve(items_.size());
  for (std::size_t i = 0; i < items_.size(); ++i) places.push_back(place_of(i));
  std::sort(places.begin(), places.end());
  // Each round moves the items of one cycle. places[i].item is i when items_[i] is final.
  for (std::uint32_t first = 0; first < places.size(); ++first) {
    const RewriteItem kept = items_[first];
    std::uint32_t at = first;
    while (places[at].item != first) {
      const std::uint32_t from = std::exchange(places[at].item, at);
      items_[at] = items_[from];
      at = from;
    }
    places[at].item = at;
    items_[at] = kept;
  }
}

}  // namespace safetensors::write
