// The tensors of a dict that are saved, and the objects that own their bytes and names.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "support.h"
#include "tensor_spec.h"

namespace safetensors::python {

// The start of the error texts of functions that save.
inline constexpr const char* kSaving = "Error while serializing: ";

// Raises TypeError: the argument is not an instance of a class.
[[noreturn]] void raise_not(const char* argument, nb::handle object, const char* wanted);

class TensorsToSave {
 public:
  // dict: names to TensorSpec, or to {"dtype", "shape", "data"}. Raises TypeError and SafetensorError.
  explicit TensorsToSave(nb::handle dict);
  // Valid as long as this object.
  [[nodiscard]] std::span<const TensorData> data() const noexcept { return data_; }

 private:
  void add(std::string_view name, nb::handle value);
  TensorSpec from_dict(std::string_view name, nb::handle value);

  std::vector<std::pair<nb::object, nb::object>> items_;  // own the names and TensorSpecs that data_ refers to
  std::vector<Buffer> buffers_;
  std::vector<TensorSpec> specs_;  // reserved: elements never move
  std::vector<TensorData> data_;
};

}  // namespace safetensors::python
