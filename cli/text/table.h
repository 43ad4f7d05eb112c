// Prints aligned columns of text.
#pragma once

#include "console.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace safetensors::cli {

// A heading and rows, with two spaces between columns and no white space at the end of a line.
//
// On a terminal the table is fitted to the width if possible: wide cells are shortened in the middle, then columns are
// hidden from the right, with a message that names them. In other output cells are never shortened. A column is then as
// wide as its widest cell, but at most kMaxWidth: a wider cell shifts only the rest of its own row.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 64;
  enum class Align : bool { left, right };
  enum class Narrow : unsigned char { keep, shorten, hide };  // the treatment of a column on a narrow terminal

  struct Column {
    std::string heading;
    Align align = Align::left;
    Narrow narrow = Narrow::keep;
  };
  explicit Table(std::vector<Column> columns, std::string indent = "");

  // One cell per column. The caller has escaped the text for display.
  void row(std::vector<std::string> cells);
  void print(Console& console) const;

  // Takes the cells of a row, as row() does.
  using Row = std::function<void(const std::vector<std::string>& cells)>;
  // Prints rows that are not kept, for tables of many rows. Calls each_row twice, first to measure the rows and then to
  // print them, so both calls must give the same rows. If there are no rows, the function does not print the heading.
  void print_each(Console& console, const std::function<void(const Row& row)>& each_row);

 private:
  static constexpr std::size_t kHidden = 0;  // the width of a hidden column
  using Widths = std::vector<std::size_t>;   // one per column

  void measure(const std::vector<std::string>& cells);
  [[nodiscard]] Widths whole_widths() const;
  [[nodiscard]] Widths fitting_widths(std::size_t terminal) const;
  [[nodiscard]] std::size_t total(const Widths& widths) const;
  void shrink(Widths& widths, std::size_t terminal, std::size_t smallest) const;
  void print_row(Console& console, const std::vector<std::string>& cells, const Widths& widths, bool whole) const;
  void name_hidden(Console& console, const Widths& widths) const;

  std::vector<Column> columns_;
  std::string indent_;
  Widths widest_;  // width of the widest cell per column
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace safetensors::cli
