// An open file and how its tensors are wanted: what safe_open and its slices share.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "framework.h"
#include "support.h"

namespace safetensors::python {

enum class Backend : std::uint8_t {
  mmap,       // views of the file
  pread,      // memory of their own, read through the page cache
  automatic,  // memory of their own, read as is best for where the bytes are
};
[[nodiscard]] Backend parse_backend(std::string_view name);

// From any number of threads at once, all of them attached to the interpreter. The GIL is released while bytes move.
class Opened {
 public:
  Opened(File file, std::string path, Framework framework, Device device, Backend backend)
      : file_(std::move(file)),
        path_(std::move(path)),
        framework_(framework),
        device_(std::move(device)),
        backend_(backend) {}

  [[nodiscard]] const Header& header() const noexcept { return file_.header(); }
  [[nodiscard]] Framework framework() const noexcept { return framework_; }
  [[nodiscard]] const Device& device() const noexcept { return device_; }
  // Made once: of the framework, for the device.
  [[nodiscard]] std::shared_ptr<Maker> maker();
  // Raises SafetensorError for a name that is not there.
  [[nodiscard]] Tensor find(std::string_view name) const;

  [[nodiscard]] nb::object tensor(const Tensor& tensor);
  // All of them, in a dict in the order of their bytes.
  [[nodiscard]] nb::object tensors();
  // Part of one, as the framework indexes.
  [[nodiscard]] nb::object slice(const Tensor& tensor, nb::handle index);

 private:
  Array data();  // all of it, writable, shared by those who share
  Array map(const Tensor& tensor) const;
  Array read(const Tensor& tensor) const;  // or mapped: of its own
  Array read_slice(const Tensor& tensor, const Slice& slice) const;
  Array part(const Tensor& tensor, const Slice& slice) const;
  [[nodiscard]] bool maps() const noexcept { return backend_ == Backend::mmap; }
  // Signals' handlers may end it. Raises what they do.
  Result<ReadResult> execute(const ReadPlan& plan) const;
  nb::object torch_slice(const Tensor& tensor, nb::handle index);
  nb::object each_tensor(Maker& maker);
  [[noreturn]] void fail(const Error& error) const;

  const File file_;
  const std::string path_;
  const Framework framework_;
  const Device device_;
  const Backend backend_;
  std::mutex mutex_;  // of what follows; never held while the GIL is asked for
  std::shared_ptr<Maker> maker_;
  std::optional<Array> data_;
};

// A tensor of which parts may be asked for.
[[nodiscard]] nb::object make_slice(std::shared_ptr<Opened> opened, Tensor tensor);

}  // namespace safetensors::python
