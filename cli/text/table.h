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
// On a terminal the table is fitted to the width if possible, and nothing is done that the width does not need. First
// the beginning that all names have in common is taken out, and printed once above the heading. Then columns are
// hidden, in the order of a list in table.cpp, and a message names them. Names of up to kMaxWidth columns are folded
// last. In other output cells are never shortened. A column is then as wide as its widest cell, but at most kMaxWidth:
// a wider cell shifts only the rest of its own row.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 64;
  enum class Align : bool { left, right };
  // The treatment of a column on a narrow terminal. name: names, of one column only. reserve: hidden only if otherwise
  // two names would be folded to the same text.
  enum class Narrow : unsigned char { keep, name, shorten, hide, reserve };

  struct Column {
    std::string heading;
    Align align = Align::left;
    Narrow narrow = Narrow::keep;
  };
  explicit Table(std::vector<Column> columns, std::string indent = "");

  // One cell per column. The caller has escaped the text for display.
  void row(std::vector<std::string> cells);
  void print(Console& console);

  // Takes the cells of a row, as row() does.
  using Row = std::function<void(const std::vector<std::string>& cells)>;
  // Prints rows that are not kept, for tables of many rows. Calls each_row twice, first to measure the rows and then to
  // print them, so both calls must give the same rows. If there are no rows, the function does not print the heading.
  void print_each(Console& console, const std::function<void(const Row& row)>& each_row);

 private:
  static constexpr std::size_t kHidden = 0;  // the width of a hidden column
  using Widths = std::vector<std::size_t>;   // one per column

  void measure(const std::vector<std::string>& cells);
  void measure_prefix(const std::string& name);
  void fit(std::size_t terminal);
  [[nodiscard]] bool hide_columns(std::size_t terminal);
  void keep_names_apart(std::size_t terminal, std::size_t whole_name);
  [[nodiscard]] std::size_t different_names(const Widths& widths) const;
  [[nodiscard]] std::vector<std::size_t> droppable() const;
  [[nodiscard]] std::size_t total(const Widths& widths) const;
  void shrink(Narrow which, std::size_t terminal, std::size_t smallest);
  [[nodiscard]] std::string fitted(const std::string& cell, std::size_t column, const Widths& widths) const;
  void print_heading(Console& console) const;
  void print_row(Console& console, const std::vector<std::string>& cells, bool heading) const;
  void name_hidden(Console& console) const;

  std::vector<Column> columns_;
  std::string indent_;
  std::size_t names_;  // index of the column of names, or the number of columns
  std::string first_name_;
  std::size_t prefix_ = 0;    // length of the beginning of first_name_ that all names have in common
  std::size_t measured_ = 0;  // number of rows
  Widths widest_;             // width of the widest cell per column
  Widths widths_;             // as printed
  bool whole_ = true;         // whether cells are not fitted
  bool without_prefix_ = false;
  std::vector<std::vector<std::string>> rows_;  // without the heading
};

}  // namespace safetensors::cli
