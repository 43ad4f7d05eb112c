// The state behind a Header: its text, and the tensors and metadata found in the text.
#pragma once

#include <safetensors/header.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/bump_allocator.h"
#include "base/cancellation.h"
#include "base/chunked_vector.h"
#include "base/hash.h"
#include "base/memory_resource.h"
#include "format/header/name_index.h"

namespace safetensors::format {

// Memory for a header's text and the padding that json::Reader needs.
class HeaderBuffer {
 public:
  // Initializes only the padding. Throws std::bad_alloc. resource must outlive every Header that is made from this
  // buffer.
  HeaderBuffer(std::size_t size, base::MemoryResource* resource);
  // Takes over a text. Copies it only if its capacity is too small for the padding. Throws std::bad_alloc.
  explicit HeaderBuffer(std::string text);
  HeaderBuffer(HeaderBuffer&&) noexcept = default;
  HeaderBuffer& operator=(HeaderBuffer&&) noexcept = default;

  [[nodiscard]] char* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] base::MemoryResource* resource() const noexcept { return resource_; }

 private:
  base::MemoryResource* resource_;
  std::shared_ptr<char> data_;  // the text and the padding
  std::size_t size_;
};

// Does the same as Header::length(), but the messages never name the kind of the file. Throws std::bad_alloc.
[[nodiscard]] Result<std::uint64_t> header_length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                                  const ParseOptions& options);

// Counters of a parse, for tests that bound its work.
struct ParseWork {
  std::uint64_t entries = 0;  // tensors, metadata pairs and ignored fields whose keys the parser looked up
  std::uint64_t probes = 0;   // slots of indexes that these lookups read: NameIndex::probes()
};

// Does the same as Header::parse(), but takes over the text instead of copying it, and does not check its length.
// Throws std::bad_alloc. work: may be null; it is also set on errors. cancellation: null means never cancelled. Ignores
// options.cancelled.
[[nodiscard]] Result<Header> parse_header(HeaderBuffer text, std::uint64_t data_size, const ParseOptions& options,
                                          ParseWork* work = nullptr, base::Cancellation* cancellation = nullptr);
// Does the same, and returns the state, which the caller may still change.
[[nodiscard]] Result<std::shared_ptr<detail::HeaderState>> parse_state(HeaderBuffer text, std::uint64_t data_size,
                                                                       const ParseOptions& options,
                                                                       ParseWork* work = nullptr,
                                                                       base::Cancellation* cancellation = nullptr);

struct MetadataPair {
  TextRange key;
  TextRange value;
};
// The text of a dtype that is not one of the format's.
struct UnknownDtype {
  std::uint32_t tensor;  // index in the order of the text
  TextRange name;
};

}  // namespace safetensors::format

namespace safetensors {
inline namespace v0 {
namespace detail {

struct HeaderState {
  HeaderState(format::HeaderBuffer header_text, std::uint64_t data_size);

  [[nodiscard]] std::string_view view(format::TextRange range) const noexcept {
    return {text.data() + range.start, range.size};
  }
  // inside: must point into the text.
  [[nodiscard]] format::TextRange range(std::string_view inside) const noexcept {
    return {static_cast<std::uint32_t>(inside.data() - text.data()), static_cast<std::uint32_t>(inside.size())};
  }
  // Returns the index of the tensor with this name, or NameIndex::kNone.
  [[nodiscard]] std::uint32_t find(std::string_view name) const noexcept;
  // Sorts metadata_order on first use. Thread-safe.
  void sort_metadata() const noexcept;
  // Keeps only the names and the metadata of the text. Call it before the header is shared. Throws std::bad_alloc.
  void compact();

  format::HeaderBuffer text;
  std::uint64_t text_bytes;  // of the whole text
  std::uint64_t data_bytes;
  base::HashKey hash_key = base::HashKey::random();
  base::BumpAllocator allocator;

  base::ChunkedVector<TensorInfo> tensors;  // in the order of the text
  const std::uint32_t* order = nullptr;     // indexes in the order of offsets; null if the text has this order
  format::NameIndex names;
  base::ChunkedVector<format::UnknownDtype> unknown_dtypes;  // by ascending index
  Tolerated tolerated;

  bool metadata_present = false;
  base::ChunkedVector<format::MetadataPair> metadata;  // in the order of the text
  format::NameIndex keys;
  std::uint32_t* metadata_order = nullptr;  // indexes in the order of keys, sorted on first use

  mutable std::once_flag metadata_sorted;
};

template <>
struct Access<Header> {
  static Header make(std::shared_ptr<const HeaderState> state) noexcept { return Header(std::move(state)); }
};

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
