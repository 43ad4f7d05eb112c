// The columns of ls.
#pragma once

#include "input.h"
#include "text/table.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// A tensor in the list.
struct ListRow {
  const TensorInfo& tensor;
  const Input& input;
  std::size_t file;           // index in input.files()
  std::uint64_t total_bytes;  // of all tensors in the list
};

struct ListColumn {
  std::string_view name;  // for --columns
  const char* heading;
  Table::Align align;
  Table::Narrow narrow;
  std::string (*cell)(const ListRow& row);
};

// Finds the columns of a list of names such as "name,size". Error: invalid_argument, with a message for the user.
[[nodiscard]] Result<std::vector<const ListColumn*>> parse_columns(std::string_view list);

// The columns without --columns. several: whether the tensors may be in several files.
[[nodiscard]] std::vector<const ListColumn*> default_columns(bool several, bool wide);

}  // namespace safetensors::cli
