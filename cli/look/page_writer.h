// Writes the bytes of a page, in pieces.
#pragma once

#include "new_file.h"

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace safetensors::cli {

// Without a file, only counts the bytes. After an error, writes nothing more.
class PageWriter {
 public:
  explicit PageWriter(NewFile* file) : file_(file) {}

  void text(std::string_view text);
  // A string of the JSON document. `<` is escaped: it could begin `</script>` or `<!--`.
  void string(std::string_view text);
  // A number, or the string "inf" for a number that is not finite.
  void number(double value);

  // Writes the rest. Returns the first error.
  [[nodiscard]] Status finish();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kPiece = 1 << 20;

  void flush();

  NewFile* const file_;
  std::string buffer_;
  Status status_;
  std::uint64_t bytes_ = 0;
};

}  // namespace safetensors::cli
