// Columns of text, aligned.
#pragma once

#include "console.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// A heading and rows, two spaces between columns, no white space at the end of a line. A column is as wide as its
// widest cell but at most kMaxWidth: a longer cell moves only the rest of its own row.
class Table {
 public:
  static constexpr std::size_t kMaxWidth = 64;
  enum class Align : bool { left, right };

  struct Column {
    std::string heading;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns, std::string indent = "");

  // One cell for each column, safe to show.
  void row(std::vector<std::string> cells);
  void print(Console& console) const;

 private:
  void print_row(Console& console, const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::string indent_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace safetensors::cli
