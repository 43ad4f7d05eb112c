// Where tensors are wanted.
#pragma once

#include <string>

#include "support.h"

namespace safetensors::python {

struct Device {
  std::string given = "cpu";  // as errors call it
  std::string name = "cpu";   // as the framework is told: "cpu", "cuda:0", "mps"
  [[nodiscard]] bool cpu() const noexcept { return name == "cpu"; }
};

// None, a str, an int of 0 and more (a CUDA device), or a torch.device. Raises SafetensorError for any other.
[[nodiscard]] Device parse_device(nb::handle device);

}  // namespace safetensors::python
