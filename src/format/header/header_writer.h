// Writes a header's text in the form of the reference writer, also with other metadata.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "format/dtype/dtype.h"

namespace safetensors::format {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader

// The order in which tensors are written: the dtype with the highest rank first, then by name.
[[nodiscard]] inline bool written_before(Dtype a, std::string_view a_name, Dtype b, std::string_view b_name) noexcept {
  return a != b && format::rank(a) != format::rank(b) ? format::rank(a) > format::rank(b) : a_name < b_name;
}

// Checks that a pair of metadata is UTF-8. Error: invalid_utf8. May throw std::bad_alloc.
[[nodiscard]] Status check_pair(std::string_view key, std::string_view value);

// Call in this order: begin_metadata() to end_metadata(), if the header has metadata, then tensors in the writer's
// order, then finish(). Functions throw std::bad_alloc.
class HeaderWriter {
 public:
  // Takes the text piece by piece.
  using Sink = std::function<void(std::string_view piece)>;

  // finish() returns the text.
  HeaderWriter() = default;
  // The writer gives the text to the sink, and keeps no more than one piece in memory. finish() returns nothing.
  explicit HeaderWriter(Sink sink) : sink_(std::move(sink)) {}

  // Allocates memory for a text of `bytes`. A longer text takes more memory.
  void reserve(std::size_t bytes) { text_.reserve(bytes); }
  // The metadata, one pair at a time, in the order of the keys.
  void begin_metadata() { text_ += "\"__metadata__\":{"; }
  void pair(std::string_view key, std::string_view value);
  void end_metadata() { text_ += '}'; }
  // Writes what another writer wrote as metadata, without the braces around it.
  void metadata_member(std::string_view text) { text_ += text; }
  void tensor(std::string_view name, std::string_view dtype, ShapeView shape, std::uint64_t begin, std::uint64_t end);
  // Writes all tensors of a header in the order of offsets. Tensors without bytes can share an offset. Among those, the
  // order is the writer's: by descending rank of the dtype, then by name.
  void tensors(const Header& header);
  std::string finish() &&;

 private:
  static constexpr std::size_t kPiece = std::size_t{64} << 10;  // bytes

  void separate() {
    if (text_.back() != '{') text_ += ',';
    if (sink_ && text_.size() >= kPiece) flush();
  }
  void flush() {
    sink_(text_);
    text_.clear();
  }

  Sink sink_;  // may be empty
  std::string text_ = "{";
};

// Fails if the reader of the header accepted faults, because no new file may have them. Error: unsupported.
[[nodiscard]] Status check_writable(const Header& header);
// Does the same as Header::text(), also for a header whose reader accepted faults. Throws std::bad_alloc.
[[nodiscard]] std::string header_text(const Header& header);

// The new value of each key. nullopt removes the key, which need not exist. The pointers are not null.
using MetadataEdits = std::map<std::string_view, const std::optional<std::string>*>;

// Writes the text of a header with edited metadata, without the spaces at its end. The tensors keep their order and
// their offsets, so the bytes of the data stay as they are. `__metadata__` stays present even if its last key is
// removed.
void write_text(const Header& header, HeaderWriter& writer, const MetadataEdits& edits = {});
// Returns the length of Header::text(), but does not keep the text in memory.
[[nodiscard]] std::uint64_t text_length(const Header& header);

// Returns the length of a text of `size` bytes after padding: 8 + length is a multiple of alignment.
[[nodiscard]] constexpr std::uint64_t padded_length(std::uint64_t size, std::uint64_t alignment) noexcept {
  return (8 + size + alignment - 1) / alignment * alignment - 8;
}

// Appends `slack` spaces to text, then more spaces until 8 + the text's length is a multiple of alignment, in bytes.
// alignment must be a power of two. Error: header_too_large.
[[nodiscard]] Status pad_text(std::string& text, std::uint64_t alignment, std::uint64_t slack);

// Returns the text of a header with edited metadata, in the writer's style, without padding. `__metadata__` stays
// present even if its last key is removed. slack: the number of spaces that the caller appends, for which memory is
// allocated. Error: invalid_utf8. Throws std::bad_alloc.
[[nodiscard]] Result<std::string> edited_text(const Header& header, const MetadataEdits& edits,
                                              std::uint64_t slack = 0);

}  // namespace safetensors::format
