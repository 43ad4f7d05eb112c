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
constexpr std::size_t kHidden = 0;      // the width of a hidden column
constexpr std::size_t kMaxWidth = 64;   // in other output than a terminal
constexpr std::size_t kShortName = 12;  // the width for names if long names have lines of their own

// The columns that may be hidden, the first one first. Others follow, from the right.
constexpr std::string_view kDropOrder[] = {"ALIGNMENT",  "FILE OFFSET", "BEGIN",      "END",   "SHARE",
                                           "FILE",       "RANK",        "PARAMETERS", "BYTES", "FIRST",
                                           "MEAN ERROR", "ABSMAX",      "ZEROS",      "STD",   "MEAN"};

using Cells = std::vector<std::string>;
using Widths = std::vector<std::size_t>;  // one per column

class Table {
 public:
  Table(std::vector<TableColumn> columns, std::string indent)
      : columns_(std::move(columns)), indent_(std::move(indent)), widest_(columns_.size()), reach_(columns_.size()) {
    names_ =
        static_cast<std::size_t>(std::ranges::find(columns_, Narrow::name, &TableColumn::narrow) - columns_.begin());
  }

  void measure(const Cells& cells) {
    std::size_t used = cells.size();  // without the empty cells at the end, into which the last text may reach
    while (used > 0 && cells[used - 1].empty()) --used;
    for (std::size_t i = 0; i < used; ++i) {
      const bool reaches = i + 1 == used && used < cells.size() && i != names_ && columns_[i].align == Align::left;
      std::size_t& width = reaches ? reach_[i] : widest_[i];
      width = std::max(width, display_width(cells[i]));
    }
  }

  void print(Console& console, bool heading, const std::function<void(const TableRow& row)>& each_row) {
    Cells headings;
    for (const TableColumn& column : columns_) headings.push_back(column.heading);
    if (heading) measure(headings);
    fit(console.columns());
    if (heading) print_row(console, headings);
    each_row([&](const Cells& cells) {
      if (console.writable()) print_row(console, cells);
    });
    name_hidden(console);
  }

 private:
  // Chooses the widths. terminal: its width, or 0.
  void fit(std::size_t terminal) {
    widths_ = widest_;
    if (terminal == 0) {
      for (std::size_t& width : widths_) width = std::min(width, kMaxWidth);
      return;
    }
    if (hide_columns(terminal) || names_ == columns_.size()) return;
    own_lines_ = true;
    widths_ = widest_;
    widths_[names_] = std::min(widest_[names_], std::max(kShortName, display_width(columns_[names_].heading)));
    if (hide_columns(terminal)) widths_[names_] = std::min(widest_[names_], widths_[names_] + terminal - total());
  }

  // Hides columns until a row fits. Returns whether it does.
  [[nodiscard]] bool hide_columns(std::size_t terminal) {
    bool without_begin = false;  // END says nothing without BEGIN
    for (const std::size_t i : droppable()) {
      if (total() <= terminal && !(without_begin && columns_[i].heading == "END")) break;
      widths_[i] = kHidden;
      without_begin = columns_[i].heading == "BEGIN";
    }
    return total() <= terminal;
  }

  // The indexes of the columns that may be hidden, in the order in which they are.
  [[nodiscard]] std::vector<std::size_t> droppable() const {
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
  [[nodiscard]] std::size_t total() const {
    std::size_t sum = indent_.size();
    std::size_t most = 0;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (widths_[i] == kHidden) continue;
      if (sum > indent_.size()) sum += kGap;
      most = std::max(most, sum + reach_[i]);
      sum += widths_[i];
    }
    return std::max(most, sum);
  }

  void print_row(Console& console, const Cells& cells) const {
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

  void name_hidden(Console& console) const {
    std::string names;
    for (std::size_t i = 0; i < widths_.size(); ++i) {
      if (widths_[i] != kHidden) continue;
      names += names.empty() ? "" : ", ";
      names += columns_[i].heading;
    }
    if (names.empty() || console.columns() == 0) return;
    console.message(formatted("not shown at {} columns: {}", console.columns(), names));
  }

  const std::vector<TableColumn> columns_;
  const std::string indent_;
  std::size_t names_;       // index of the column of names, or the number of columns
  Widths widest_;           // width of the widest cell per column
  Widths reach_;            // ... of the texts that may reach into empty cells, which are not in widest_
  Widths widths_;           // as printed
  bool own_lines_ = false;  // whether long names have lines of their own
};

}  // namespace

void print_table(Console& console, std::vector<TableColumn> columns, const std::string& indent, bool heading,
                 const std::function<void(const TableRow& row)>& each_row) {
  Table table(std::move(columns), indent);
  bool any = false;
  each_row([&](const Cells& cells) {
    table.measure(cells);
    any = true;
  });
  if (any) table.print(console, heading, each_row);
}

}  // namespace safetensors::cli
