// The read-only functions of Header, and the checks of a header's length. The parser is in header_parse.cpp, the writer
// in header_writer.cpp.
//
// The order of the metadata by key is made on first use, because most callers never need it.
#include <safetensors/header.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/little_endian.h"
#include "format/header/file_kind.h"
#include "format/header/header.h"
#include "json/reader.h"

namespace safetensors {
namespace format {

HeaderBuffer::HeaderBuffer(std::size_t size, base::MemoryResource* resource) : resource_(resource), size_(size) {
  constexpr std::size_t kAlignment = alignof(std::max_align_t);
  const std::size_t bytes = size + json::Reader::kPadding;
  data_.reset(static_cast<char*>(resource->allocate(bytes, kAlignment)),
              [=](char* data) noexcept { resource->deallocate(data, bytes, kAlignment); });
  std::memset(data() + size, 0, json::Reader::kPadding);
}

HeaderBuffer::HeaderBuffer(std::string text) : resource_(base::heap()), size_(text.size()) {
  const auto owner = std::make_shared<std::string>(std::move(text));
  owner->append(json::Reader::kPadding, '\0');
  data_ = {owner, owner->data()};
}

}  // namespace format

inline namespace v0 {
namespace detail {
namespace {

// Bytes per block of the allocator, between 1 KiB and 2 MiB. A header may take four times the memory of its text. So a
// block without any use takes at most a quarter of this limit.
std::size_t block_size(std::size_t header_bytes) noexcept {
  return std::clamp<std::size_t>(header_bytes, std::size_t{1} << 10, std::size_t{2} << 20);
}

}  // namespace

HeaderState::HeaderState(format::HeaderBuffer header_text, std::uint64_t data_size)
    : text(std::move(header_text)),
      text_bytes(text.size()),
      data_bytes(data_size),
      allocator(text.resource(), block_size(text.size())) {}

void HeaderState::sort_metadata() const noexcept {
  std::call_once(metadata_sorted, [this] {
    const std::span order_of_keys(metadata_order, metadata.size());
    std::iota(order_of_keys.begin(), order_of_keys.end(), 0u);
    const auto key = [this](std::uint32_t i) { return view(metadata[i].key); };
    if (!std::ranges::is_sorted(order_of_keys, {}, key)) std::ranges::sort(order_of_keys, {}, key);
  });
}

std::uint32_t HeaderState::find(std::string_view name) const noexcept {
  return names.find(name, base::hash(name, hash_key), [this](std::uint32_t i) { return tensors[i].name; });
}

void HeaderState::compact() {
  std::size_t size = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) size += tensors[i].name.size();
  for (std::size_t i = 0; i < metadata.size(); ++i) size += metadata[i].key.size + metadata[i].value.size;
  for (std::size_t i = 0; i < unknown_dtypes.size(); ++i) size += unknown_dtypes[i].name.size;
  format::HeaderBuffer small(size, text.resource());
  char* end = small.data();
  const auto keep = [&](std::string_view part) {
    char* const begin = end;
    end = std::copy(part.begin(), part.end(), begin);
    return std::string_view(begin, part.size());
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i].name = keep(tensors[i].name);
  const auto keep_range = [&](format::TextRange& part) {
    part.start = static_cast<std::uint32_t>(keep(view(part)).data() - small.data());
  };
  for (std::size_t i = 0; i < metadata.size(); ++i) {
    keep_range(metadata[i].key);
    keep_range(metadata[i].value);
  }
  for (std::size_t i = 0; i < unknown_dtypes.size(); ++i) keep_range(unknown_dtypes[i].name);
  text = std::move(small);
}

}  // namespace detail

namespace {

// TextRange stores offsets in a header as 32 bits.
constexpr std::uint64_t kMaxTextBytes = 0xFFFFFFFF;

// Returns an error about the length in the first 8 bytes.
Error prefix_error(Errc code, base::Text message) {
  Error error = base::make_error(code, message);
  error.offset = 0;
  return error;
}

Status check_limit(std::uint64_t length, const ParseOptions& options) {
  const std::uint64_t limit = std::min(options.max_header_bytes, kMaxTextBytes);
  if (length <= limit) return {};
  return prefix_error(Errc::header_too_large,
                      {"header too large: its length is given as ", length, " bytes, the limit is ", limit});
}

}  // namespace
}  // namespace v0

namespace format {

Result<std::uint64_t> header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                    const ParseOptions& options) {
  if (prefix.size() < 8 || file_size < 8) {
    return prefix_error(Errc::header_too_small,
                        {"header too small: the file has ", std::min<std::uint64_t>(prefix.size(), file_size),
                         " bytes, the length of the header alone takes 8"});
  }
  const std::uint64_t length = base::load_u64(prefix.data());
  if (Status status = check_limit(length, options); !status) return std::move(status).error();
  // file_size is at least 8 here. The sum 8 + length could overflow.
  if (length > file_size - 8) {
    return prefix_error(Errc::invalid_header_length, {"invalid header length: the header ends at byte ", 8 + length,
                                                      ", the file has ", file_size, " (truncated download?)"});
  }
  return length;
}

}  // namespace format

inline namespace v0 {

Result<std::uint64_t> Header::length(Span<const std::byte> prefix, std::uint64_t file_size,
                                     const ParseOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::uint64_t> {
    Result<std::uint64_t> length = format::header_length(prefix, file_size, options);
    if (length) return length;
    const std::string_view start(reinterpret_cast<const char*>(prefix.data()), prefix.size());
    return format::with_file_kind(std::move(length).error(), start);
  });
}

Result<Header> Header::parse(std::string_view text, std::uint64_t data_size, const ParseOptions& options) noexcept {
  return base::guarded([&]() -> Result<Header> {
    if (Status status = check_limit(text.size(), options); !status) return std::move(status).error();
    format::HeaderBuffer copy(text.size(), base::heap());
    std::copy(text.begin(), text.end(), copy.data());
    base::Cancellation cancellation(options.cancelled);
    return format::parse_header(std::move(copy), data_size, options, nullptr, &cancellation);
  });
}

std::uint64_t Header::header_bytes() const noexcept {
  return state_ ? state_->text_bytes : 8;
}
std::uint64_t Header::data_bytes() const noexcept {
  return state_ ? state_->data_bytes : 0;
}
Tolerated Header::tolerated() const noexcept {
  return state_ ? state_->tolerated : Tolerated();
}
Metadata Header::metadata() const& noexcept {
  return Metadata(state_.get());
}

const TensorInfo* Header::find(std::string_view name) const& noexcept {
  if (!state_) return nullptr;
  const std::uint32_t found = state_->find(name);
  return found == format::NameIndex::kNone ? nullptr : &state_->tensors[found];
}

std::string_view Header::dtype_name(const TensorInfo& tensor) const& noexcept {
  if (tensor.dtype != Dtype::UNKNOWN || !state_) return to_string(tensor.dtype);
  const std::uint32_t index = state_->find(tensor.name);
  const auto& unknown = state_->unknown_dtypes;
  std::size_t low = 0;
  for (std::size_t high = unknown.size(); low < high;) {
    const std::size_t middle = low + (high - low) / 2;
    if (unknown[middle].tensor < index)
      low = middle + 1;
    else
      high = middle;
  }
  const bool found = low < unknown.size() && unknown[low].tensor == index;
  return found ? state_->view(unknown[low].name) : to_string(tensor.dtype);
}

std::string to_string(const Tolerated& tolerated) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* one, const char* many) {
    if (count == 0) return;
    text += base::concat({(text.empty() ? "" : ", "), count, (count == 1 ? one : many)});
  };
  add(tolerated.unknown_dtypes, " tensor of unknown dtype", " tensors of unknown dtypes");
  add(tolerated.unused_bytes, " unused byte at the end", " unused bytes at the end");
  return text;
}

std::size_t TensorList::size() const noexcept {
  return state_ != nullptr ? state_->tensors.size() : 0;
}
const TensorInfo& TensorList::operator[](std::size_t index) const noexcept {
  return state_->tensors[state_->order != nullptr ? state_->order[index] : index];
}

bool Metadata::present() const noexcept {
  return state_ != nullptr && state_->metadata_present;
}
std::size_t Metadata::size() const noexcept {
  return state_ != nullptr ? state_->metadata.size() : 0;
}
Metadata::value_type Metadata::operator[](std::size_t index) const noexcept {
  state_->sort_metadata();
  const format::MetadataPair& pair = state_->metadata[state_->metadata_order[index]];
  return {state_->view(pair.key), state_->view(pair.value)};
}
std::optional<std::string_view> Metadata::find(std::string_view key) const noexcept {
  if (state_ == nullptr) return std::nullopt;
  const auto key_at = [this](std::uint32_t i) { return state_->view(state_->metadata[i].key); };
  const std::uint32_t found = state_->keys.find(key, base::hash(key, state_->hash_key), key_at);
  if (found == format::NameIndex::kNone) return std::nullopt;
  return state_->view(state_->metadata[found].value);
}

}  // namespace v0
}  // namespace safetensors
