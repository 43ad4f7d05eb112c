// The argument `device`: where tensors go.
#pragma once

#include <string>

#include "support.h"

namespace safetensors::python {

struct Device {
  std::string given = "cpu";  // in error messages
  std::string name = "cpu";   // for the framework: "cpu", "cuda:0", "mps"
  [[nodiscard]] bool cpu() const noexcept { return name == "cpu"; }
};

// device: None, a str, an int (the ordinal of a CUDA device), or a torch.device. Raises SafetensorError for any other.
[[nodiscard]] Device parse_device(nb::handle device);

}  // namespace safetensors::python
