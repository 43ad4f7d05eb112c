// All rows are collected or measured before the first one is printed. On a terminal, fit() then hides columns until the
// rows fit. If whole names leave no room for the columns that stay, long names get lines of their own instead: a name
// that is cut cannot be copied.
#include "text/table.h"

#include "text/text.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace safetensors::cli {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kShortName = 12;  // the width for names if long names have lines of their own

// The columns that may be hidden, the first one first. Others follow, from the right.
constexpr std::string_view kDropOrder[] = {"ALIGNMENT",  "FILE OFFSET", "BEGIN",      "END",   "SHARE",
                                           "FILE",       "RANK",        "PARAMETERS", "BYTES", "FIRST",
                                           "MEAN ERROR", "ABSMAX",      "ZEROS",      "STD",   "MEAN"};

}  // namespace

Table::Table(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)), widest_(columns_.size()), reach_(columns_.size()) {
  names_ = static_cast<std::size_t>(std::ranges::find(columns_, Narrow::name, &Column::narrow) - columns_.begin());
}

void Table::row(std::vector<std::string> cells) {
  measure(cells);
  rows_.push_back(std::move(cells));
}

void Table::measure(const std::vector<std::string>& cells) {
  std::size_t used = cells.size();  // without the empty cells at the end, into which the last text may reach
  while (used > 0 && cells[used - 1].empty()) --used;
  for (std::size_t i = 0; i < used; ++i) {
    const bool reaches = i + 1 == used && used < cells.size() && i != names_ && columns_[i].align == Align::left;
    std::size_t& width = reaches ? reach_[i] : widest_[i];
    width = std::max(width, display_width(cells[i]));
  }
  ++measured_;
}

void Table::print(Console& console, bool heading) {
  print_measured(console, heading, [&](const Row& row) { std::ranges::for_each(rows_, row); });
}

void Table::print_each(Console& console, const EachRow& each_row) {
  each_row([&](const std::vector<std::string>& cells) { measure(cells); });
  if (measured_ > 0) print_measured(console, true, each_row);
}

void Table::print_measured(Console& console, bool heading, const EachRow& each_row) {
  for (std::size_t i = 0; heading && i < columns_.size(); ++i)
    widest_[i] = std::max(widest_[i], display_width(columns_[i].heading));
  fit(console.columns());
  if (heading) print_heading(console);
  each_row([&](const std::vector<std::string>& cells) {
    if (console.writable()) print_row(console, cells);
  });
  name_hidden(console);
}

// Chooses the widths. terminal: its width, or 0.
void Table::fit(std::size_t terminal) {
  own_lines_ = false;
  widths_ = widest_;
  if (terminal == 0) {
    for (std::size_t& width : widths_) width = std::min(width, kMaxWidth);
    return;
  }
  if (hide_columns(terminal) || names_ == columns_.size()) return;
  own_lines_ = true;
  widths_ = widest_;
  widths_[names_] = std::min(widest_[names_], std::max(kShortName, display_width(columns_[names_].heading)));
  if (hide_columns(terminal)) widths_[names_] = std::min(widest_[names_], widths_[names_] + terminal - total(widths_));
}

// Hides columns until a row fits. Returns whether it does.
bool Table::hide_columns(std::size_t terminal) {
  bool without_begin = false;  // END says nothing without BEGIN
  for (const std::size_t i : droppable()) {
    if (total(widths_) <= terminal && !(without_begin && columns_[i].heading == "END")) break;
    widths_[i] = kHidden;
    without_begin = columns_[i].heading == "BEGIN";
  }
  return total(widths_) <= terminal;
}

// The indexes of the columns that may be hidden, in the order in which they are.
std::vector<std::size_t> Table::droppable() const {
  std::vector<std::size_t> list;
  for (std::size_t i = columns_.size(); i-- > 0;) {
    if (columns_[i].narrow == Narrow::hide) list.push_back(i);
  }
  std::ranges::stable_sort(list, {}, [&](std::size_t i) {
    return std::ranges::find(kDropOrder, std::string_view(columns_[i].heading)) - std::begin(kDropOrder);
  });
  return list;
}

// The width of a row.
std::size_t Table::total(const Widths& widths) const {
  std::size_t sum = indent_.size();
  std::size_t most = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == kHidden) continue;
    if (sum > indent_.size()) sum += kGap;
    most = std::max(most, sum + reach_[i]);
    sum += widths[i];
  }
  return std::max(most, sum);
}

void Table::print_heading(Console& console) const {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  print_row(console, headings);
}

void Table::print_row(Console& console, const std::vector<std::string>& cells) const {
  std::string line = indent_;
  std::size_t owed = 0;  // spaces before the next cell
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths_[i] == kHidden) continue;
    const std::size_t used = display_width(cells[i]);
    const std::size_t padding = used < widths_[i] ? widths_[i] - used : 0;
    const bool own_line = own_lines_ && i == names_ && used > widths_[i];
    if (own_line) line.append(cells[i]).append("\n").append(indent_);
    if (own_line || cells[i].empty()) {  // it may be the last one, and lines do not end with white space
      owed += widths_[i] + kGap;
      continue;
    }
    const bool right = columns_[i].align == Align::right;
    line.append(owed + (right ? padding : 0), ' ').append(cells[i]);
    owed = kGap + (right ? 0 : padding);
  }
  console.out(line.append("\n"));
}

void Table::name_hidden(Console& console) const {
  std::string names;
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    if (widths_[i] != kHidden) continue;
    names += names.empty() ? "" : ", ";
    names += columns_[i].heading;
  }
  if (names.empty() || console.columns() == 0) return;
  console.message(formatted("not shown at {} columns: {}", console.columns(), names));
}

}  // namespace safetensors::cli
