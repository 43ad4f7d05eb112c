// Checks the tensors and the metadata of a new file, sorts the tensors in the order of the writer, assigns their
// offsets, and writes the text.
//
// The parser that reads files then reads the text. So the library never makes a header that a reader refuses, and the
// rules of the layout are in the code only once. The parser works in the memory of the text: a header of 100,000
// tensors has 10 MB of text, and a copy would double that.
//
// HeaderBuilder::add() checks each tensor and copies it. build() makes the header from views of these copies.
#include "format/header/new_header.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/bump_allocator.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory_resource.h"
#include "base/printable.h"
#include "format/header/header.h"
#include "format/header/header_writer.h"
#include "format/header/layout.h"
#include "format/header/name_index.h"
#include "json/reader.h"
#include "json/writer.h"

namespace safetensors {
namespace format {
namespace {

constexpr std::string_view kReserved = "__metadata__";

// By descending rank of the dtype, then by name. Large elements come first, so each tensor begins at a multiple of its
// element size, without gaps in the data.
void sort_for_writer(std::vector<NewTensor>& tensors) {
  const auto before = [](const NewTensor& a, const NewTensor& b) {
    return written_before(a.dtype, a.name, b.dtype, b.name);
  };
  if (!std::ranges::is_sorted(tensors, before)) std::ranges::sort(tensors, before);
}

// An upper bound for the size of the text, in bytes. It is close enough to allocate that much: a string that grows
// while it is written takes up to three times the memory.
std::uint64_t max_text_size(std::span<const NewTensor> tensors, std::size_t metadata_bytes, std::uint64_t data_bytes) {
  constexpr std::string_view kEntry = R"(,:{"dtype":"","shape":[],"data_offsets":[,]})";
  constexpr std::string_view kEnds = "{,}";
  const std::size_t offset = std::to_string(data_bytes).size();
  std::uint64_t size = kEnds.size() + metadata_bytes;
  for (const NewTensor& tensor : tensors) {
    size += kEntry.size() + to_string(tensor.dtype).size() + 2 * offset + json::string_size(tensor.name);
    for (const std::uint64_t dim : tensor.shape) size += std::to_string(dim).size() + 1;
  }
  return size;
}

// Error: size_overflow.
Result<std::uint64_t> sum_of_sizes(std::span<const NewTensor> tensors) {
  std::uint64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    std::uint64_t end = 0;
    if (!base::add(offset, tensor.nbytes, end)) {
      return base::make_error(Errc::size_overflow,
                              "tensor `" + printable(tensor.name) + "` of " + std::to_string(tensor.nbytes) +
                                  " bytes at byte " + std::to_string(offset) + ": the data has more than 2^64-1 bytes");
    }
    offset = end;
  }
  return offset;
}

Error key_added_before(std::string_view key) {
  return base::make_error(Errc::duplicate_name, "a metadata key `" + printable(key) + "` was added before");
}

Error added_before(std::string_view name) {
  return base::make_error(Errc::duplicate_name, "a tensor named `" + printable(name) + "` was added before");
}

// Error: duplicate_name, for the first tensor that has the name of an earlier one.
Status check_unique(std::span<const NewTensor> tensors) {
  const base::HashKey key = base::HashKey::random();
  base::BumpAllocator allocator(base::heap(), 0);
  NameIndex names;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    names.push(allocator, base::hash(tensors[i].name, key), tensors.size() - i);
  const std::uint32_t twice = names.build(allocator, [&](std::size_t i) { return tensors[i].name; });
  return twice == NameIndex::kNone ? Status() : Status(added_before(tensors[twice].name));
}

}  // namespace

Result<NewTensor> new_tensor(std::string_view name, Dtype dtype, ShapeView shape) {
  if (dtype == Dtype::UNKNOWN)
    return base::make_error(Errc::invalid_argument,
                            base::tensor_named(name) + ": has an unknown dtype, expected one of the format's");
  // A caller can convert any number to Dtype. An unknown number has no name.
  if (parse_dtype(to_string(dtype)) != dtype) {
    return base::make_error(Errc::invalid_argument,
                            base::tensor_named(name) + ": unknown dtype " + std::to_string(static_cast<int>(dtype)));
  }
  if (Status status = base::check_utf8("tensor name", name, name); !status) return std::move(status).error();
  if (name == kReserved) return base::make_error(Errc::reserved_name, "a tensor cannot be named __metadata__");
  std::uint64_t nbytes = 0;
  if (const Errc code = count_bytes(dtype, shape, nbytes); code != Errc::ok)
    return bytes_error(code, name, dtype, shape);
  return NewTensor{name, shape, nbytes, dtype};
}

Result<std::vector<NewTensor>> new_tensors(std::size_t count, const std::function<Result<NewTensor>(std::size_t)>& at) {
  std::vector<NewTensor> tensors;
  tensors.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Result<NewTensor> next = at(i);
    if (!next) return next.error();
    tensors.push_back(*next);
  }
  if (Status status = check_unique(tensors); !status) return std::move(status).error();
  return tensors;
}

Result<std::string> metadata_member(std::span<const std::pair<std::string, std::string>> pairs) {
  std::vector<const std::pair<std::string, std::string>*> sorted;
  sorted.reserve(pairs.size());
  std::uint64_t size = std::string_view("{\"__metadata__\":{}}").size();
  for (const auto& pair : pairs) {
    if (Status status = check_pair(pair.first, pair.second); !status) return std::move(status).error();
    size += json::string_size(pair.first) + json::string_size(pair.second) + 2;
    sorted.push_back(&pair);
  }
  const auto key = [](const auto* pair) { return std::string_view(pair->first); };
  std::ranges::sort(sorted, {}, key);
  const auto twice = std::ranges::adjacent_find(sorted, {}, key);
  if (twice != sorted.end()) return key_added_before(key(*twice));
  HeaderWriter writer;
  writer.reserve(static_cast<std::size_t>(size));
  writer.begin_metadata();
  for (const auto* pair : sorted) writer.pair(pair->first, pair->second);
  writer.end_metadata();
  std::string text = std::move(writer).finish();
  text.pop_back();  // the braces of the header
  text.erase(0, 1);
  return text;
}

Result<NewHeaderText> new_header_text(std::vector<NewTensor> tensors, std::string_view metadata,
                                      const LayoutOptions& options) {
  const std::uint32_t alignment = options.data_alignment == 0 ? 8 : options.data_alignment;
  if (!std::has_single_bit(alignment) || alignment > 65536) {
    return base::make_error(Errc::invalid_alignment, "data_alignment is " + std::to_string(alignment) +
                                                         ", it must be a power of two from 1 to 65536");
  }
  if (!options.keep_order) sort_for_writer(tensors);
  const Result<std::uint64_t> data_bytes = sum_of_sizes(tensors);
  if (!data_bytes) return data_bytes.error();

  HeaderWriter writer;
  writer.reserve(static_cast<std::size_t>(max_text_size(tensors, metadata.size(), *data_bytes) + alignment +
                                          json::Reader::kPadding + std::min(options.metadata_slack, kMaxHeaderBytes)));
  writer.metadata_member(metadata);
  std::uint64_t offset = 0;
  for (const NewTensor& tensor : tensors) {
    writer.tensor(tensor.name, to_string(tensor.dtype), tensor.shape, offset, offset + tensor.nbytes);
    offset += tensor.nbytes;
  }
  NewHeaderText made{std::move(writer).finish(), *data_bytes};
  if (Status status = pad_text(made.text, alignment, options.metadata_slack); !status) return std::move(status).error();
  return made;
}

Result<Header> new_header(NewHeaderText text, KeptText kept) {
  const auto state = parse_state(HeaderBuffer(std::move(text.text)), text.data_bytes, {});
  if (!state) return state.error();
  if (kept == KeptText::names) (*state)->compact();
  return detail::Access<Header>::make(*state);
}

}  // namespace format

inline namespace v0 {

struct HeaderBuilder::State {
  struct Entry {
    std::size_t index;  // in the order of the calls
    Dtype dtype;
    Shape shape;
    std::uint64_t nbytes;
  };
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::string, std::string, std::less<>> metadata;
  bool metadata_present = false;

  Status add(std::string_view name, Dtype dtype, ShapeView shape) {
    const Result<format::NewTensor> tensor = format::new_tensor(name, dtype, shape);
    if (!tensor) return tensor.error();
    Entry entry{entries.size(), dtype, Shape(shape), tensor->nbytes};
    return entries.try_emplace(std::string(name), std::move(entry)).second ? Status() : format::added_before(name);
  }

  Status add_metadata(std::string_view key, std::string_view value) {
    if (Status status = format::check_pair(key, value); !status) return status;
    if (!metadata.emplace(key, value).second) return format::key_added_before(key);
    metadata_present = true;
    return {};
  }

  [[nodiscard]] Result<Header> build(const LayoutOptions& options) const {
    std::vector<format::NewTensor> tensors(entries.size());
    for (const auto& [name, entry] : entries) tensors[entry.index] = {name, entry.shape, entry.nbytes, entry.dtype};
    const Result<std::string> member =
        metadata_present ? format::metadata_member(MetadataPairs(metadata.begin(), metadata.end())) : std::string();
    if (!member) return member.error();
    Result<format::NewHeaderText> text = format::new_header_text(std::move(tensors), *member, options);
    if (!text) return std::move(text).error();
    return format::new_header(*std::move(text));
  }
};

namespace {

// Calls a function of the state of a builder, which has none before the first call.
template <class State, class Function>
Status with_header(std::shared_ptr<State>& state, const Function& function) noexcept {
  return base::guarded([&]() -> Status {
    if (!state) state = std::make_shared<State>();
    return function(*state);
  });
}

}  // namespace

Status HeaderBuilder::add(std::string_view name, Dtype dtype, ShapeView shape) noexcept {
  return with_header(state_, [&](State& state) { return state.add(name, dtype, shape); });
}

Status HeaderBuilder::metadata(std::string_view key, std::string_view value) noexcept {
  return with_header(state_, [&](State& state) { return state.add_metadata(key, value); });
}

Status HeaderBuilder::metadata_present() noexcept {
  return with_header(state_, [&](State& state) { return state.metadata_present = true, Status(); });
}

Result<Header> HeaderBuilder::build(const LayoutOptions& options) const noexcept {
  return base::guarded([&] { return state_ ? state_->build(options) : State().build(options); });
}

}  // namespace v0
}  // namespace safetensors
