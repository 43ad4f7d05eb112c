// Parses a slice from text in NumPy's syntax, such as `[1:3, ..., -1]`. The brackets are optional.
//
// A parser by recursive descent with one character of lookahead. It only builds the Slice: resolve() checks it against
// a shape.
#include <safetensors/slice.h>

#include <charconv>
#include <string>

#include "base/error.h"

namespace safetensors {
namespace format {
namespace {

class SliceParser {
 public:
  explicit SliceParser(std::string_view text) : text_(text) {}

  Result<Slice> parse() {
    const bool bracket = accept('[');
    std::vector<DimSlice> dims;
    while (!at_end(bracket)) {
      DimSlice dim;
      if (Status status = element(dim); !status) return std::move(status).error();
      dims.push_back(dim);
      if (!accept(',')) break;
    }
    if (bracket && !accept(']')) return unexpected("`,` or `]`");
    if (peek() != kEnd) return unexpected(bracket ? "nothing more" : "`,`");
    return Slice(std::move(dims));
  }

 private:
  static constexpr int kEnd = -1;

  // Skips white space and returns the next character, or kEnd.
  int peek() {
    while (position_ < text_.size() && std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
    return position_ < text_.size() ? static_cast<unsigned char>(text_[position_]) : kEnd;
  }
  bool accept(char wanted) {
    if (peek() != wanted) return false;
    ++position_;
    return true;
  }
  bool at_end(bool bracket) { return peek() == kEnd || (bracket && peek() == ']'); }

  Status element(DimSlice& dim) {
    if (peek() == '.') return ellipsis(dim);
    std::optional<std::int64_t> first;
    if (Status status = number(first); !status) return status;
    if (!accept(':')) {
      if (!first) return unexpected("a number, `:` or `...`");
      dim = DimSlice::at(*first);
      return {};
    }
    dim = DimSlice::range(first, std::nullopt);
    if (Status status = number(dim.end); !status) return status;
    if (!accept(':')) return {};
    std::optional<std::int64_t> step;
    if (Status status = number(step); !status) return status;
    dim.step = step.value_or(1);
    return {};
  }

  Status ellipsis(DimSlice& dim) {
    if (text_.substr(position_, 3) != "...") return unexpected("a number, `:` or `...`");
    if (ellipsis_ != kNone) {
      return syntax_error({"a second `...` at column ", position_ + 1, ", the first is at column ", ellipsis_ + 1});
    }
    ellipsis_ = position_;
    position_ += 3;
    dim = DimSlice::ellipsis();
    return {};
  }

  // Reads an optional number with an optional sign. Leaves value as it is if there is no number.
  Status number(std::optional<std::int64_t>& value) {
    const int first = peek();
    if (first != '-' && first != '+' && !is_digit(first)) return {};
    const std::size_t start = position_;
    if (!is_digit(first)) ++position_;
    if (!is_digit(peek())) return unexpected("a digit");
    // White space may follow the sign, and std::from_chars() accepts no `+`, so copy the number without both.
    std::string digits = first == '-' ? "-" : "";
    while (position_ < text_.size() && is_digit(static_cast<unsigned char>(text_[position_])))
      digits += text_[position_++];
    std::int64_t parsed = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), parsed).ec != std::errc()) {
      return syntax_error({"the number at column ", start + 1, " does not fit into 64 bits"});
    }
    value = parsed;
    return {};
  }

  static bool is_digit(int c) { return c >= '0' && c <= '9'; }

  Error unexpected(const std::string& wanted) {
    const int found = peek();
    const std::string what =
        found == kEnd ? "the end" : "`" + printable(text_.substr(position_, character_bytes(position_))) + "`";
    return syntax_error({"unexpected ", what, " at column ", position_ + 1, ", want ", wanted});
  }

  // Returns the number of bytes of the UTF-8 character at `start`, so that a message shows the whole character.
  std::size_t character_bytes(std::size_t start) const {
    std::size_t end = start + 1;
    while (end < text_.size() && end < start + 4 && (static_cast<unsigned char>(text_[end]) & 0xC0U) == 0x80U) ++end;
    return end - start;
  }

  static Error syntax_error(base::Text what) {
    return base::make_error(Errc::slice_syntax, {"invalid slice: ", base::concat(what)});
  }

  static constexpr std::size_t kNone = ~std::size_t{0};
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t ellipsis_ = kNone;
};

}  // namespace
}  // namespace format

inline namespace v0 {

Result<Slice> Slice::parse(std::string_view text) noexcept {
  return base::guarded([&] { return format::SliceParser(text).parse(); });
}

}  // namespace v0
}  // namespace safetensors
