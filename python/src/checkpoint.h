// The class safetensors._native._Checkpoint: one or many files opened as one set of tensors.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "framework.h"
#include "opened.h"
#include "support.h"

namespace safetensors::python {

// Any number of threads that hold the GIL may call const functions at once.
class PyCheckpoint {
 public:
  // paths: one path, or an iterable of paths. accept: as for parse_accept. Raises SafetensorError, OSError.
  PyCheckpoint(nb::handle paths, nb::handle framework, nb::handle device, nb::handle backend, nb::handle accept);

  [[nodiscard]] const Checkpoint& get() const noexcept { return *checkpoint_; }
  [[nodiscard]] Framework framework() const noexcept { return framework_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  [[nodiscard]] Backend backend() const noexcept { return backend_; }
  // The file of the tensor.
  [[nodiscard]] const std::shared_ptr<Opened>& opened(const Tensor& tensor) const;
  [[nodiscard]] std::shared_ptr<Maker> maker() const { return make_probed_maker(framework_, device_); }

 private:
  Framework framework_;
  Device device_;
  Backend backend_;
  std::optional<Checkpoint> checkpoint_;
  std::map<const Header*, std::shared_ptr<Opened>> files_;
};

}  // namespace safetensors::python
