// The frameworks: their names, devices and dtypes, and the classes that make their arrays. After the library has a new
// dtype, the package needs one more row in framework.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support.h"

namespace safetensors::python {

struct Device {
  std::string given = "cpu";  // in error messages
  std::string name = "cpu";   // for the framework: "cpu", "cuda:0", "mps"
  [[nodiscard]] bool cpu() const noexcept { return name == "cpu"; }
};

// device: None, a str, an int (the ordinal of a CUDA device), or a torch.device. Raises SafetensorError for any other.
[[nodiscard]] Device parse_device(nb::handle device);

// The way in which torch takes the bytes of a dtype.
enum class TorchImport : std::uint8_t {
  none,         // torch lacks the dtype
  reinterpret,  // as bytes, which are then reinterpreted: DLPack or an older torch lacks the dtype
  direct,       // as a DLPack tensor of the dtype, in every torch
};

struct FrameworkDtype {
  Dtype dtype;
  const char* name;   // in ml_dtypes and torch, and in TensorSpec; NumPy has it under the same name, too
  const char* numpy;  // format of NumPy; null if only ml_dtypes has the dtype; packed elements are bytes
  TorchImport torch;
  std::uint64_t packed = 1;  // elements of the format per element of the framework
};

[[nodiscard]] const FrameworkDtype& framework_dtype(Dtype dtype) noexcept;
// name: of FrameworkDtype. Raises SafetensorError, which lists all names.
[[nodiscard]] const FrameworkDtype& framework_dtype(std::string_view name);

enum class Framework : std::uint8_t { numpy, torch, tensorflow, flax, mlx, paddle };

// name: "pt", "torch", "np", ... Raises SafetensorError for any other.
[[nodiscard]] Framework parse_framework(std::string_view name);
// Raises SafetensorError if tensors of the framework cannot be on the device.
void check_device(Framework framework, const Device& device);
// The name in error messages: "numpy", "pytorch", ...
[[nodiscard]] const char* name_of(Framework framework) noexcept;

// Returns an object that shares the memory of the array. It is read-only unless the array is writable.
[[nodiscard]] nb::object make_memory(Array array);

// Makes arrays of a framework over memory that the arrays then share. Keeps references to modules and dtypes, so one
// Maker for many tensors is fast. Several threads may call it at once.
class Maker {
 public:
  Maker() = default;
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  virtual ~Maker() {
    for (std::atomic<PyObject*>& dtype : dtypes_) Py_XDECREF(dtype.load());
  }

  // Returns an array of the framework over the memory of `array`. Copies if the memory is misaligned, the framework
  // needs a copy, or the device is not the CPU.
  [[nodiscard]] virtual nb::object make(const Array& array) = 0;
  // Raises if the framework can make no arrays in this thread now. make() asks it, too.
  virtual void check() const {}
  // Like make(), after check(): for many arrays.
  [[nodiscard]] virtual nb::object make_checked(const Array& array) { return make(array); }
  // Returns an array over a part of `whole`, after check(). memory: the object that make_memory() returned for `whole`.
  // Used for many arrays over one memory.
  [[nodiscard]] virtual nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) {
    (void)whole, (void)memory;
    return make_checked(array);
  }
  // False if the framework is known to lack the dtype. Makes no tensor to find out.
  [[nodiscard]] virtual bool has(Dtype dtype) const { return (void)dtype, true; }
  // Returns whether make() may read the bytes of an array in new memory, or let other code see the tensor. If not,
  // make() may be called before the bytes are there.
  [[nodiscard]] virtual bool reads(Dtype dtype) const noexcept { return (void)dtype, true; }
  // Returns whether two calls of get_tensor return views of the same memory, as with torch.
  [[nodiscard]] virtual bool shares() const noexcept { return false; }
  // Returns whether the framework itself takes slices, from the whole tensor.
  [[nodiscard]] virtual bool indexes() const noexcept { return false; }

 protected:
  // The framework's object for a dtype, made on first use.
  nb::handle dtype_of(Dtype dtype);

 private:
  [[nodiscard]] virtual nb::object find_dtype(Dtype dtype) const { return (void)dtype, nb::none(); }

  // In the order of the table of framework_dtype().
  std::vector<std::atomic<PyObject*>> dtypes_ = std::vector<std::atomic<PyObject*>>(all_dtypes().size());
};

// These functions import the framework. extended_as_bits: makes unsigned integers for dtypes that NumPy has only with
// the package ml_dtypes.
[[nodiscard]] std::shared_ptr<Maker> make_numpy_maker(bool extended_as_bits = false);
// The name in ml_dtypes of a dtype that NumPy lacks, otherwise null.
[[nodiscard]] const char* extended_name(Dtype dtype) noexcept;
[[nodiscard]] std::shared_ptr<Maker> make_torch_maker(const Device& device);
[[nodiscard]] std::shared_ptr<Maker> make_maker(Framework framework, const Device& device);
// Makes an array. If a device other than the CPU refuses it, raises SafetensorError. prefix: begins the error's text.
[[nodiscard]] nb::object make_on(const Device& device, Maker& maker, const Array& array, const std::string& prefix);
// make_maker(), and makes one empty tensor on the device as make_on().
[[nodiscard]] std::shared_ptr<Maker> make_probed_maker(Framework framework, const Device& device,
                                                       const std::string& prefix);

// Returns the array, or a copy in aligned memory if the array is misaligned. alignment: in bytes.
[[nodiscard]] Array aligned(const Array& array, std::size_t alignment);

}  // namespace safetensors::python
