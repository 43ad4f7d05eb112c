// Each column is a row of one table: its name, its heading and the function that makes a cell.
#include "ls_columns.h"

#include "text/formatted.h"
#include "text/size.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr ListColumn kColumns[] = {
    {"name", "NAME", Table::Align::left, Table::Narrow::name,
     [](const ListRow& row) { return printable(row.tensor.name); }},
    {"dtype", "DTYPE", Table::Align::left, Table::Narrow::keep,
     [](const ListRow& row) { return printable(row.input.files()[row.file].header().dtype_name(row.tensor)); }},
    {"shape", "SHAPE", Table::Align::left, Table::Narrow::keep,
     [](const ListRow& row) { return shape_text(row.tensor.shape); }},
    {"rank", "RANK", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return std::to_string(row.tensor.shape.size()); }},
    {"parameters", "PARAMETERS", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return grouped(parameters(row.tensor)); }},
    {"size", "SIZE", Table::Align::right, Table::Narrow::keep,
     [](const ListRow& row) { return size_text(row.tensor.nbytes()); }},
    {"bytes", "BYTES", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return grouped(row.tensor.nbytes()); }},
    {"share", "SHARE", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return share_text(row.tensor.nbytes(), row.total_bytes); }},
    {"begin", "BEGIN", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return std::to_string(row.tensor.begin); }},
    {"end", "END", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return std::to_string(row.tensor.end); }},
    {"offset", "FILE OFFSET", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return std::to_string(row.tensor.file_offset); }},
    {"alignment", "ALIGNMENT", Table::Align::right, Table::Narrow::hide,
     [](const ListRow& row) { return std::to_string(alignment_of(row.tensor.file_offset)); }},
    {"file", "FILE", Table::Align::left, Table::Narrow::hide,
     [](const ListRow& row) {
       const std::string name = row.input.file_name(row.file);
       return printable(name.empty() ? shown_path(std::string(kStandardInput)) : name);
     }},
};

const ListColumn* find_column(std::string_view name) {
  const auto* const found = std::ranges::find(kColumns, name, &ListColumn::name);
  return found == std::end(kColumns) ? nullptr : found;
}

Error unknown_column(std::string_view name) {
  std::string known;
  for (const ListColumn& column : kColumns) (known += known.empty() ? "" : ", ") += column.name;
  return {.code = Errc::invalid_argument,
          .path = {},
          .message = formatted("--columns: unknown column `{}` (known: {})", printable(name), known)};
}

}  // namespace

Result<std::vector<const ListColumn*>> parse_columns(std::string_view list) {
  std::vector<const ListColumn*> columns;
  for (;;) {
    const std::string_view name = list.substr(0, list.find(','));
    const ListColumn* const column = find_column(name);
    if (column == nullptr) return unknown_column(name);
    if (std::ranges::find(columns, column) != columns.end())
      return Error{.code = Errc::invalid_argument,
                   .path = {},
                   .message = formatted("--columns: {} is given more than once", name)};
    columns.push_back(column);
    if (name.size() == list.size()) return columns;
    list.remove_prefix(name.size() + 1);
  }
}

std::vector<const ListColumn*> default_columns(bool several, bool wide) {
  static constexpr std::string_view kShort = "name,dtype,shape,size,begin,end,offset";
  static constexpr std::string_view kLong = "name,dtype,shape,parameters,size,share,begin,end,offset,alignment";
  std::vector<const ListColumn*> columns = parse_columns(wide ? kLong : kShort).value();
  if (several) columns.push_back(find_column("file"));
  return columns;
}

}  // namespace safetensors::cli
