// All rows are collected or measured before the first one is printed. On a terminal, fit() then takes away what is
// worth least, step by step, until the rows fit.
#include "text/table.h"

#include "text/display_width.h"
#include "text/fold.h"
#include "text/formatted.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace safetensors::cli {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kShortened = 24;  // cells of other columns are shortened to this width before one is hidden
constexpr std::size_t kReadable = 12;   // ... and to this one before names are folded
constexpr std::size_t kShortName = 16;
constexpr std::size_t kMinWidth = 6;

// The columns that may be hidden, the first one first. Others follow, from the right.
constexpr std::string_view kDropOrder[] = {"ALIGNMENT",  "FILE OFFSET", "BEGIN", "END",        "SHARE",  "FILE", "RANK",
                                           "PARAMETERS", "BYTES",       "FIRST", "MEAN ERROR", "ABSMAX", "ZEROS"};

}  // namespace

Table::Table(std::vector<Column> columns, std::string indent)
    : columns_(std::move(columns)), indent_(std::move(indent)), widest_(columns_.size()) {
  names_ = static_cast<std::size_t>(std::ranges::find(columns_, Narrow::name, &Column::narrow) - columns_.begin());
  for (std::size_t i = 0; i < columns_.size(); ++i) widest_[i] = display_width(columns_[i].heading);
}

void Table::row(std::vector<std::string> cells) {
  measure(cells);
  rows_.push_back(std::move(cells));
}

void Table::measure(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) widest_[i] = std::max(widest_[i], display_width(cells[i]));
  if (names_ < cells.size()) measure_prefix(cells[names_]);
  ++measured_;
}

// The common beginning ends behind a dot or a slash, and no name consists of it alone.
void Table::measure_prefix(const std::string& name) {
  if (measured_ == 0) {
    first_name_ = name;
    prefix_ = name.size();
  }
  const std::size_t limit = std::min({prefix_, name.size(), first_name_.size()});
  const auto end = std::mismatch(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(limit), first_name_.begin());
  const auto common = static_cast<std::size_t>(end.first - name.begin());
  const std::size_t before_last = std::min(common, std::min(name.size(), first_name_.size()) - (name.empty() ? 0 : 1));
  const std::size_t boundary = std::string_view(name).substr(0, before_last).find_last_of("./");
  prefix_ = boundary == std::string_view::npos ? 0 : boundary + 1;
}

void Table::print(Console& console) {
  fit(console.columns());
  print_heading(console);
  for (const std::vector<std::string>& cells : rows_) {
    if (!console.writable()) return;
    print_row(console, cells, false);
  }
  name_hidden(console);
}

void Table::print_each(Console& console, const std::function<void(const Row& row)>& each_row) {
  each_row([&](const std::vector<std::string>& cells) { measure(cells); });
  if (measured_ == 0) return;
  fit(console.columns());
  print_heading(console);
  each_row([&](const std::vector<std::string>& cells) {
    if (console.writable()) print_row(console, cells, false);
  });
  name_hidden(console);
}

// Chooses the widths. terminal: its width, or 0.
void Table::fit(std::size_t terminal) {
  whole_ = terminal == 0;
  widths_ = widest_;
  if (whole_) {
    for (std::size_t& width : widths_) width = std::min(width, kMaxWidth);
    return;
  }
  if (total(widths_) <= terminal) return;
  const std::size_t prefix = display_width(first_name_.substr(0, prefix_));
  without_prefix_ = measured_ > 1 && prefix_ > 0 && widest_[names_] > prefix;
  if (without_prefix_) {
    widths_[names_] = std::max(widths_[names_] - prefix, display_width(columns_[names_].heading));
    if (total(widths_) <= terminal) return;
  }
  shrink(Narrow::shorten, terminal, kShortened);
  if (hide_columns(terminal)) return;
  shrink(Narrow::shorten, terminal, kReadable);
  const std::size_t whole_name = names_ < widths_.size() ? widths_[names_] : 0;
  shrink(Narrow::name, terminal, kShortName);
  keep_names_apart(terminal, whole_name);
  shrink(Narrow::shorten, terminal, kMinWidth);
  shrink(Narrow::name, terminal, kMinWidth);
}

// Hides columns until names of up to kMaxWidth columns fit. A wider column of names gets the rest of the line.
bool Table::hide_columns(std::size_t terminal) {
  const std::size_t name = names_ < widths_.size() ? widths_[names_] : 0;
  const auto fits = [&] { return total(widths_) - name + std::min(name, kMaxWidth) <= terminal; };
  bool without_begin = false;  // END says nothing without BEGIN
  for (const std::size_t i : droppable()) {
    if (fits() && !(without_begin && columns_[i].heading == "END")) break;
    widths_[i] = kHidden;
    without_begin = columns_[i].heading == "BEGIN";
  }
  if (!fits()) return false;
  const std::size_t sum = total(widths_);
  if (sum > terminal) widths_[names_] -= sum - terminal;
  return true;
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

// Hides columns of the reserve as long as two names are folded to the same text, if that helps.
void Table::keep_names_apart(std::size_t terminal, std::size_t whole_name) {
  if (names_ == columns_.size()) return;
  const std::size_t before = different_names(widths_);
  const Widths without_change = widths_;
  std::size_t now = before;
  for (std::size_t i = columns_.size(); i-- > 0 && now < rows_.size();) {
    if (columns_[i].narrow != Narrow::reserve) continue;
    widths_[names_] = std::min(whole_name, widths_[names_] + widths_[i] + kGap);
    widths_[i] = kHidden;
    shrink(Narrow::name, terminal, kShortName);
    now = different_names(widths_);
  }
  if (now == before) widths_ = without_change;
}

std::size_t Table::different_names(const Widths& widths) const {
  std::set<std::string> names;
  for (const std::vector<std::string>& cells : rows_) names.insert(fitted(cells[names_], names_, widths));
  return names.size();
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

// Narrows the columns with this treatment until a row fits, the widest column first and none below `smallest`.
void Table::shrink(Narrow which, std::size_t terminal, std::size_t smallest) {
  for (std::size_t sum = total(widths_); sum > terminal; --sum) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (columns_[i].narrow != which || widths_[i] <= smallest) continue;
      if (widest == nullptr || widths_[i] > *widest) widest = &widths_[i];
    }
    if (widest == nullptr) return;
    --*widest;
  }
}

// The text of a cell in its column.
std::string Table::fitted(const std::string& cell, std::size_t column, const Widths& widths) const {
  if (whole_) return cell;
  const Narrow narrow = columns_[column].narrow;
  if (narrow == Narrow::name) return fold_name(without_prefix_ ? cell.substr(prefix_) : cell, widths[column]);
  return narrow == Narrow::shorten ? fold_words(cell, widths[column]) : cell;
}

void Table::print_heading(Console& console) const {
  if (without_prefix_) console.out(formatted("{}all names begin with `{}`\n", indent_, first_name_.substr(0, prefix_)));
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  print_row(console, headings, true);
}

void Table::print_row(Console& console, const std::vector<std::string>& cells, bool heading) const {
  std::string line = indent_;
  std::size_t owed = 0;  // spaces before the next cell
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths_[i] == kHidden) continue;
    const std::string cell = heading ? fit_width(cells[i], widths_[i]) : fitted(cells[i], i, widths_);
    const std::size_t used = display_width(cell);
    const std::size_t padding = used < widths_[i] ? widths_[i] - used : 0;
    if (cell.empty()) {  // it may be the last one, and lines do not end with white space
      owed += widths_[i] + kGap;
      continue;
    }
    const bool right = columns_[i].align == Align::right;
    line.append(owed + (right ? padding : 0), ' ').append(cell);
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
  if (names.empty()) return;
  console.message(formatted("not shown at {} columns: {}", console.columns(), names));
}

}  // namespace safetensors::cli
