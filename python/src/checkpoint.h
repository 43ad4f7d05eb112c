// Files opened as one set of tensors, as Python holds them.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "framework.h"
#include "opened.h"
#include "support.h"

namespace safetensors::python {

// const calls from any number of threads, all of them attached to the interpreter.
class PyCheckpoint {
 public:
  // paths: one or an iterable of them. Raises SafetensorError, OSError.
  PyCheckpoint(nb::handle paths, nb::handle framework, nb::handle device);

  [[nodiscard]] const Checkpoint& get() const noexcept { return *checkpoint_; }
  [[nodiscard]] Framework framework() const noexcept { return framework_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  // The tensor's file.
  [[nodiscard]] const std::shared_ptr<Opened>& opened(const Tensor& tensor) const;
  [[nodiscard]] std::shared_ptr<Maker> maker() const { return make_probed_maker(framework_, device_); }

 private:
  Framework framework_;
  Device device_;
  std::optional<Checkpoint> checkpoint_;
  std::map<const Header*, std::shared_ptr<Opened>> files_;
};

}  // namespace safetensors::python
