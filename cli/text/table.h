// Prints aligned columns of text.
#pragma once

#include "console.h"

#include <functional>
#include <string>
#include <vector>

namespace safetensors::cli {

enum class Align : bool { left, right };
// The treatment of a column on a narrow terminal. name: names, of one column only.
enum class Narrow : unsigned char { keep, name, hide };

struct TableColumn {
  std::string heading;
  Align align = Align::left;
  Narrow narrow = Narrow::keep;
};

// Takes the cells of a row, one per column. They are escaped for display.
using TableRow = std::function<void(const std::vector<std::string>& cells)>;

// Prints a heading and rows, with two spaces between columns and no white space at the end of a line. Calls each_row
// twice, first to measure the rows and then to print them, so both calls must give the same rows. Prints nothing if
// there are no rows. indent: before each line.
//
// No cell is ever shortened. The last text of a row may reach into the empty cells behind it. On a terminal the table
// is fitted to the width if possible, and nothing is done that the width does not need: columns are hidden, in the
// order of a list in table.cpp, and a message names them. If that is not enough, names that are too long get lines of
// their own, above the other cells. In other output a column is as wide as its widest cell, but at most 64: a wider
// cell shifts only the rest of its own row.
void print_table(Console& console, std::vector<TableColumn> columns, const std::string& indent, bool heading,
                 const std::function<void(const TableRow& row)>& each_row);

}  // namespace safetensors::cli
