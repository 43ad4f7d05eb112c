#include "table.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

// Characters, not columns of the terminal: wide ones count as one.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)) {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  widths_.resize(columns_.size());
  row(std::move(headings));
}

void Table::row(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], std::min(width(cells[i]), kMaxWidth));
  }
  rows_.push_back(std::move(cells));
}

void Table::print(Console& console) const {
  for (const std::vector<std::string>& cells : rows_) {
    if (!console.writable()) return;
    print_row(console, cells);
  }
}

void Table::print_row(Console& console, const std::vector<std::string>& cells) const {
  static const std::string kSpaces(kMaxWidth, ' ');
  console.out(indent_);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::size_t used = width(cells[i]);
    const std::string_view padding = std::string_view(kSpaces).substr(0, used < widths_[i] ? widths_[i] - used : 0);
    if (i != 0) console.out("  ");
    if (columns_[i].align == Align::right) console.out(padding);
    console.out(cells[i]);
    if (columns_[i].align == Align::left && i + 1 < cells.size()) console.out(padding);
  }
  console.out("\n");
}

}  // namespace safetensors::cli
