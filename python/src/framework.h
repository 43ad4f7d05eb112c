// The frameworks, and how each gets its arrays.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "device.h"
#include "support.h"

namespace safetensors::python {

enum class Framework : std::uint8_t { numpy, torch, tensorflow, flax, mlx, paddle };

// "pt", "torch", "np", ...; raises SafetensorError for any other.
[[nodiscard]] Framework parse_framework(std::string_view name);
// Raises SafetensorError where the framework's tensors cannot be put there.
void check_device(Framework framework, const Device& device);
// As errors call it: "numpy", "pytorch", ...
[[nodiscard]] const char* name_of(Framework framework) noexcept;

// Makes a framework's arrays over memory that it then shares. Holds modules and dtypes, so that one Maker for many
// tensors is the fast way. Calls from several threads at once are allowed.
class Maker {
 public:
  Maker() = default;
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;
  virtual ~Maker() = default;

  // The tensor [begin, begin + size of it) of memory, whose object is made by make_memory (of a Maker that needs it).
  [[nodiscard]] virtual nb::object make(const Array& array) = 0;
  // Many arrays over one memory: array must lie in `whole`, of which memory is the object.
  [[nodiscard]] virtual nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) {
    (void)whole, (void)memory;
    return make(array);
  }
  // Whether the framework knows the dtype, where that can be told without a tensor of it.
  [[nodiscard]] virtual bool has(Dtype dtype) const { return (void)dtype, true; }
  // Whether get_tensor gives views that share their memory with each other, as torch's do.
  [[nodiscard]] virtual bool shares() const noexcept { return false; }
  // Whether slices are taken by the framework from the whole tensor, or by us.
  [[nodiscard]] virtual bool indexes() const noexcept { return false; }
};

// Imports the framework.
// extended_as_bits: what NumPy has only with ml_dtypes is made as unsigned integers, without that package.
[[nodiscard]] std::shared_ptr<Maker> make_numpy_maker(bool extended_as_bits = false);
// The name that ml_dtypes has for what NumPy lacks, or null.
[[nodiscard]] const char* extended_name(Dtype dtype) noexcept;
[[nodiscard]] std::shared_ptr<Maker> make_torch_maker(const Device& device);
[[nodiscard]] std::shared_ptr<Maker> make_maker(Framework framework, const Device& device);
// The same, after one empty tensor was made on the device: SafetensorError where the framework cannot.
[[nodiscard]] std::shared_ptr<Maker> make_probed_maker(Framework framework, const Device& device);

// A copy whose memory is aligned, if the array's is not; else the array.
[[nodiscard]] Array aligned(const Array& array, std::size_t alignment);

}  // namespace safetensors::python
