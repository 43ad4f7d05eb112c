// The frameworks, and the classes that make their arrays.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device.h"
#include "support.h"

namespace safetensors::python {

enum class Framework : std::uint8_t { numpy, torch, tensorflow, flax, mlx, paddle };

// name: "pt", "torch", "np", ... Raises SafetensorError for any other.
[[nodiscard]] Framework parse_framework(std::string_view name);
// Raises SafetensorError if tensors of the framework cannot be on the device.
void check_device(Framework framework, const Device& device);
// The name in error messages: "numpy", "pytorch", ...
[[nodiscard]] const char* name_of(Framework framework) noexcept;

// Makes arrays of a framework over memory that the arrays then share. Keeps references to modules and dtypes, so one
// Maker for many tensors is fast. Several threads may call it at once.
class Maker {
 public:
  Maker() = default;
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  virtual ~Maker() = default;

  // Returns an array of the framework over the memory of `array`. Copies if the memory is misaligned, the framework
  // needs a copy, or the device is not the CPU.
  [[nodiscard]] virtual nb::object make(const Array& array) = 0;
  // Returns an array over a part of `whole`. memory: the object that make_memory() returned for `whole`. Used for many
  // arrays over one memory.
  [[nodiscard]] virtual nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) {
    (void)whole, (void)memory;
    return make(array);
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
};

// These functions import the framework. extended_as_bits: makes unsigned integers for dtypes that NumPy has only with
// the package ml_dtypes.
[[nodiscard]] std::shared_ptr<Maker> make_numpy_maker(bool extended_as_bits = false);
// The name in ml_dtypes of a dtype that NumPy lacks, otherwise null.
[[nodiscard]] const char* extended_name(Dtype dtype) noexcept;
[[nodiscard]] std::shared_ptr<Maker> make_torch_maker(const Device& device);
[[nodiscard]] std::shared_ptr<Maker> make_maker(Framework framework, const Device& device);
// The same, and makes one empty tensor on the device. Raises SafetensorError if the framework cannot do that.
[[nodiscard]] std::shared_ptr<Maker> make_probed_maker(Framework framework, const Device& device);

// Returns the array, or a copy in aligned memory if the array is misaligned. alignment: in bytes.
[[nodiscard]] Array aligned(const Array& array, std::size_t alignment);

}  // namespace safetensors::python
