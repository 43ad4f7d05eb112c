// Tables of tensors for notebooks. The package makes the HTML, this file gives it the rows.
#pragma once

#include <string>

#include "support.h"

namespace safetensors::python {

// The number of rows that a table shows.
inline constexpr std::size_t kMaxTableRows = 50;

[[nodiscard]] inline const TensorInfo& info_of(const TensorInfo& info) noexcept {
  return info;
}
[[nodiscard]] inline const TensorInfo& info_of(const Tensor& tensor) noexcept {
  return tensor.info();
}

// Returns (name, dtype, shape, bytes), a row of a table.
[[nodiscard]] inline nb::object make_row(const TensorInfo& info) {
  return nb::make_tuple(to_str(info.name), to_str(to_string(info.dtype)), to_list(info.shape), info.nbytes());
}

// Returns the HTML of a table of the first tensors, with the number and the size of all. title: plain text. tensors: a
// range of TensorInfo or of Tensor.
template <class Tensors>
[[nodiscard]] nb::object make_table(const std::string& title, const Tensors& tensors) {
  nb::list rows;
  std::uint64_t bytes = 0;
  std::size_t count = 0;
  for (const auto& tensor : tensors) {
    check_signals(count);
    if (count++ < kMaxTableRows) rows.append(make_row(info_of(tensor)));
    bytes += info_of(tensor).nbytes();
  }
  return import_own("_base.display").attr("table")(to_str(title), rows, count, bytes);
}

// The path as Python shows it: in quotes, with escapes.
[[nodiscard]] inline std::string quoted(const std::string& path) {
  return nb::cast<std::string>(nb::repr(to_str(path)));
}

}  // namespace safetensors::python
