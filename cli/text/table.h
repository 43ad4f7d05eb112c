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
// No cell is ever shortened. The last text of a row may reach into the empty cells behind it. On a terminal the table
// is fitted to the width if possible, and nothing is done that the width does not need: columns are hidden, in the
// order of a list in table.cpp, and a message names them. If that is not enough, names that are too long get lines of
// their own, above the other cells. In other output a column is as wide as its widest cell, but at most kMaxWidth: a
// wider cell shifts only the rest of its own row.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 64;
  enum class Align : bool { left, right };
  // The treatment of a column on a narrow terminal. name: names, of one column only.
  enum class Narrow : unsigned char { keep, name, hide };

  struct Column {
    std::string heading;
    Align align = Align::left;
    Narrow narrow = Narrow::keep;
  };
  explicit Table(std::vector<Column> columns, std::string indent = "");

  // One cell per column. The caller has escaped the text for display.
  void row(std::vector<std::string> cells);
  void print(Console& console, bool heading = true);

  // Takes the cells of a row, as row() does.
  using Row = std::function<void(const std::vector<std::string>& cells)>;
  using EachRow = std::function<void(const Row& row)>;
  // Prints rows that are not kept, for tables of many rows. Calls each_row twice, first to measure the rows and then to
  // print them, so both calls must give the same rows. If there are no rows, the function does not print the heading.
  void print_each(Console& console, const EachRow& each_row);

 private:
  static constexpr std::size_t kHidden = 0;  // the width of a hidden column
  using Widths = std::vector<std::size_t>;   // one per column

  void measure(const std::vector<std::string>& cells);
  void print_measured(Console& console, bool heading, const EachRow& each_row);
  void fit(std::size_t terminal);
  [[nodiscard]] bool hide_columns(std::size_t terminal);
  [[nodiscard]] std::vector<std::size_t> droppable() const;
  [[nodiscard]] std::size_t total(const Widths& widths) const;
  void print_heading(Console& console) const;
  void print_row(Console& console, const std::vector<std::string>& cells) const;
  void name_hidden(Console& console) const;

  std::vector<Column> columns_;
  std::string indent_;
  std::size_t names_;         // index of the column of names, or the number of columns
  std::size_t measured_ = 0;  // number of rows
  Widths widest_;             // width of the widest cell per column
  Widths reach_;              // ... of the texts that may reach into empty cells, which are not in widest_
  Widths widths_;             // as printed
  bool own_lines_ = false;    // whether long names have lines of their own
  std::vector<std::vector<std::string>> rows_;  // without the heading
};

}  // namespace safetensors::cli
