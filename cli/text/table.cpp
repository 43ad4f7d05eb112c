// All rows are collected or measured before the first one is printed. On a terminal the widest column that may be
// shortened loses one character at a time until the rows fit. Columns are hidden before names become narrower than
// kReadable.
#include "text/table.h"

#include "text/display_width.h"
#include "text/formatted.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr std::size_t kGap = 2;        // between columns
constexpr std::size_t kReadable = 24;  // a column is hidden before another is shortened below this width
constexpr std::size_t kMinWidth = 6;

}  // namespace

Table::Table(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)), widest_(columns_.size()) {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  row(std::move(headings));
}

void Table::row(std::vector<std::string> cells) {
  measure(cells);
  rows_.push_back(std::move(cells));
}

void Table::measure(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) widest_[i] = std::max(widest_[i], display_width(cells[i]));
}

void Table::print(Console& console) const {
  const bool whole = console.columns() == 0;
  const Widths widths = whole ? whole_widths() : fitting_widths(console.columns());
  for (const std::vector<std::string>& cells : rows_) {
    if (!console.writable()) return;
    print_row(console, cells, widths, whole);
  }
  name_hidden(console, widths);
}

void Table::print_each(Console& console, const std::function<void(const Row& row)>& each_row) {
  bool any = false;
  each_row([&](const std::vector<std::string>& cells) {
    measure(cells);
    any = true;
  });
  if (!any) return;
  const bool whole = console.columns() == 0;
  const Widths widths = whole ? whole_widths() : fitting_widths(console.columns());
  print_row(console, rows_.front(), widths, whole);
  each_row([&](const std::vector<std::string>& cells) {
    if (console.writable()) print_row(console, cells, widths, whole);
  });
  name_hidden(console, widths);
}

Table::Widths Table::whole_widths() const {
  Widths widths = widest_;
  for (std::size_t& width : widths) width = std::min(width, kMaxWidth);
  return widths;
}

Table::Widths Table::fitting_widths(std::size_t terminal) const {
  Widths shown = widest_;
  for (std::size_t& width : shown) width = std::min(width, terminal);
  for (std::size_t i = columns_.size();;) {
    Widths widths = shown;
    shrink(widths, terminal, kReadable);
    if (total(widths) <= terminal) return widths;
    while (i > 0 && columns_[i - 1].narrow != Narrow::hide) --i;
    if (i == 0) {
      shrink(widths, terminal, kMinWidth);
      return widths;
    }
    shown[--i] = kHidden;
  }
}

// The width of a row.
std::size_t Table::total(const Widths& widths) const {
  std::size_t sum = indent_.size();
  std::size_t count = 0;
  for (const std::size_t width : widths) {
    if (width == kHidden) continue;
    sum += width + (count++ == 0 ? 0 : kGap);
  }
  return sum;
}

// Narrows the columns that may be shortened until a row fits, the widest column first and none below `smallest`.
void Table::shrink(Widths& widths, std::size_t terminal, std::size_t smallest) const {
  for (std::size_t sum = total(widths); sum > terminal; --sum) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (columns_[i].narrow != Narrow::shorten || widths[i] <= smallest) continue;
      if (widest == nullptr || widths[i] > *widest) widest = &widths[i];
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

void Table::print_row(Console& console, const std::vector<std::string>& cells, const Widths& widths, bool whole) const {
  std::string line = indent_;
  std::size_t owed = 0;  // spaces before the next cell
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == kHidden) continue;
    const bool shorten = !whole && columns_[i].narrow == Narrow::shorten;
    const std::string cell = shorten ? fit_width(cells[i], widths[i]) : cells[i];
    const std::size_t used = display_width(cell);
    const std::size_t padding = used < widths[i] ? widths[i] - used : 0;
    if (cell.empty()) {  // it may be the last one, and lines do not end with white space
      owed += widths[i] + kGap;
      continue;
    }
    const bool right = columns_[i].align == Align::right;
    line.append(owed + (right ? padding : 0), ' ').append(cell);
    owed = kGap + (right ? 0 : padding);
  }
  console.out(line.append("\n"));
}

void Table::name_hidden(Console& console, const Widths& widths) const {
  std::string names;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] != kHidden) continue;
    names += names.empty() ? "" : ", ";
    names += columns_[i].heading;
  }
  if (names.empty()) return;
  console.message(formatted("not shown: {} (the terminal has {} columns)", names, console.columns()));
}

}  // namespace safetensors::cli
