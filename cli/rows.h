// A list of a verb. The same rows and columns are a table for people, or an array of objects in JSON.
#pragma once

#include "arguments.h"
#include "json_output.h"
#include "text/table.h"
#include "text/text.h"

#include <algorithm>
#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <variant>

namespace safetensors::cli {

// A value. JSON shows it exactly, and a table shows a text for people. A cell refers to the text or shape that it is
// made from, which must live until Rows has taken the cell.
class Cell {
 public:
  // Nothing: no member in JSON, and no text in a table.
  Cell() = default;
  // null in JSON, - in a table.
  Cell(std::nullopt_t /*none*/) : value_(std::nullopt) {}
  Cell(std::string_view text) : value_(text) {}
  Cell(const std::string& text) : value_(std::string_view(text)) {}
  Cell(const char* text) : value_(std::string_view(text)) {}
  Cell(ShapeView shape) : value_(shape) {}
  template <std::unsigned_integral Count>
  Cell(Count count) : value_(std::uint64_t{count}) {}
  Cell(double number) : value_(number) {}
  // JSON that is written already.
  static Cell raw(std::string json) { return Cell(RawJson{std::move(json)}); }
  // A number of bytes, in units in a table.
  static Cell bytes(std::uint64_t bytes) { return Cell(bytes).shown(size_text(bytes)); }

  // Sets another text for the table. It is escaped already.
  Cell shown(std::string text) &&;

 private:
  friend class Rows;
  explicit Cell(RawJson json) : value_(std::move(json)) {}
  [[nodiscard]] std::string text() const;

  std::variant<std::monostate, std::nullopt_t, std::string_view, ShapeView, std::uint64_t, double, RawJson> value_;
  std::optional<std::string> shown_;
};

// For the columns of Rows.
inline constexpr auto kLeft = Align::left;
inline constexpr auto kRight = Align::right;
inline constexpr auto kKeep = Narrow::keep;
inline constexpr auto kHide = Narrow::hide;

// The first rows of a list, as many as --top says.
template <class Row>
[[nodiscard]] std::span<const Row> top_of(const std::vector<Row>& rows, const Arguments& given) {
  const std::uint64_t top = given.number("top").value_or(rows.size());
  return std::span(rows).first(static_cast<std::size_t>(std::min<std::uint64_t>(rows.size(), top)));
}
// Says how many rows are not shown, if there are any: "... and 3 more tensors".
void print_rest(Console& console, std::size_t rows, const char* noun = "more tensor");

class Rows {
 public:
  struct Column {
    const char* key;      // nullptr: not in JSON
    const char* heading;  // nullptr: not in the table
    Align align = kLeft;
    Narrow narrow = kKeep;
  };
  using Row = std::initializer_list<Cell>;

  // json: the open object that gets the member `key`. nullptr: the rows are a table.
  Rows(Console& console, Json* json, const char* key, std::vector<Column> columns, std::string indent = "");

  // One cell per column. inside: writes more rows, which are in the member `key` of this row, or below it in a table.
  void row(std::span<const Cell> cells, const char* key = "", const std::function<void()>& inside = nullptr);
  void row(Row cells, const char* key = "", const std::function<void()>& inside = nullptr) {
    row(std::span(cells.begin(), cells.size()), key, inside);
  }
  // Prints the table, or ends the array.
  void finish(bool heading = true);
  // Replaces row() and finish() for many rows. A table then keeps no rows in memory, so it calls `rows` twice.
  void each(const std::function<void(const std::function<void(Row)>& row)>& rows);

 private:
  [[nodiscard]] std::vector<std::string> texts(std::span<const Cell> cells) const;

  Console& console_;
  Json* json_;
  std::vector<Column> columns_;
  std::vector<TableColumn> shown_;
  std::string indent_;
  std::vector<std::vector<std::string>> rows_;  // of the table
};

}  // namespace safetensors::cli
