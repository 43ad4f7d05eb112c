// Functions for text that people read. They format values, sizes and counts, and compare names. They also escape text
// from files, as safetensors::printable() does, because such text may be hostile.
#pragma once

#include "base/byte_size.h"

#include <fmt/core.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Returns the text with each {} replaced. text is checked when the caller is compiled. Throws std::bad_alloc.
[[nodiscard]] std::string vformatted(fmt::string_view text, fmt::format_args values);
template <class... Values>
[[nodiscard]] std::string formatted(fmt::format_string<Values...> text, Values&&... values) {
  return vformatted(text, fmt::make_format_args(values...));
}

[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// "548,105,171"
[[nodiscard]] std::string grouped(std::uint64_t number);

// Returns the texts of the first items, at most `limit`, with separators between them: "F32, BF16".
template <class List, class Text>
[[nodiscard]] std::string joined_texts(const List& list, const Text& text, std::string_view separator = ", ",
                                       std::size_t limit = SIZE_MAX) {
  std::string all;
  std::size_t count = 0;
  for (const auto& item : list) {
    if (count == limit) break;
    (all += count++ == 0 ? std::string_view() : separator) += text(item);
  }
  return all;
}

// The same, and how many more there are: "F32, BF16 and 3 more".
template <class List, class Text>
[[nodiscard]] std::string first_texts(const List& list, std::size_t limit, const Text& text) {
  const std::string first = joined_texts(list, text, ", ", limit);
  return list.size() <= limit ? first : formatted("{} and {} more", first, grouped(list.size() - limit));
}

// Returns the parts between the separators, at least one.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// Takes the first line off a text. Returns it without its end, LF or CR LF. Returns nullopt if the text is empty.
[[nodiscard]] std::optional<std::string_view> take_line(std::string_view& rest);

// Returns whether a text has digits, and nothing else.
[[nodiscard]] bool has_only_digits(std::string_view text);

// Returns the first character of text, which is not empty. A byte that is not UTF-8 is a character.
[[nodiscard]] std::string_view first_character(std::string_view text);

// Returns the content of a JSON string. Invisible characters become \uXXXX: a JSON reader gets the same text, and a
// terminal is safe. A byte that is not UTF-8 becomes the text \x80.
[[nodiscard]] std::string json_escaped(std::string_view text);

// Escapes JSON or other text of several lines for a terminal. Invisible characters become \uXXXX, bytes that are not
// UTF-8 become \x80. Line feeds and tabs stay. The result of valid JSON is equal JSON.
[[nodiscard]] std::string visible(std::string_view text);

// Returns at most `limit` bytes of text, cut between characters and escaped. "..." follows if the text was cut.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

using base::size_text;

// Parses a size as base::parse_size() does. The B of a unit may be missing: 500M is 500MB, and 512Mi is 512MiB.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text);

// "1 tensor", "548,105,171 tensors"
[[nodiscard]] std::string counted(std::uint64_t number, const char* noun);

// "12.5 %": part in whole. "0.0 %" if whole is 0.
[[nodiscard]] std::string share_text(std::uint64_t part, std::uint64_t whole);

// Returns whether a comes before b. Sequences of digits are compared as numbers of any length, all else by bytes. Names
// that differ in leading zeros only are compared by bytes, so the order is total.
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b) noexcept;

// Breaks text into lines of at most `columns` columns, at spaces. Lines that are made have `indent` spaces before them.
// A word that is wider than a line stays whole. columns 0: the text as it is.
[[nodiscard]] std::string wrap_words(std::string_view text, std::size_t columns, std::size_t indent);

// text: UTF-8 from printable(). Wide East Asian characters and emoji take two columns, combining characters take none.
// Each byte that is not UTF-8 takes one.
[[nodiscard]] std::size_t display_width(std::string_view text);

}  // namespace safetensors::cli
