// Parses names of frameworks and chooses the Maker. NumPy and torch have a Maker in C++. For the others a function of
// the Python package converts NumPy arrays.
#include "framework.h"

#include <array>
#include <cstring>
#include <utility>

namespace safetensors::python {
namespace {

constexpr std::array<std::pair<std::string_view, Framework>, 11> kFrameworks = {{
    {"pt", Framework::torch},
    {"torch", Framework::torch},
    {"pytorch", Framework::torch},
    {"np", Framework::numpy},
    {"numpy", Framework::numpy},
    {"tf", Framework::tensorflow},
    {"tensorflow", Framework::tensorflow},
    {"jax", Framework::flax},
    {"flax", Framework::flax},
    {"mlx", Framework::mlx},
    {"paddle", Framework::paddle},
}};

// The name of the framework in safetensors._arrays.converters.
const char* converter_name(Framework framework) noexcept {
  switch (framework) {
    case Framework::tensorflow:
      return "tf";
    case Framework::flax:
      return "jax";
    case Framework::mlx:
      return "mlx";
    default:
      return "paddle";
  }
}

// Makes NumPy arrays and converts them by a function of the Python package. MLX and Paddle work without ml_dtypes:
// their functions receive the bits as unsigned integers, and the name of the dtype.
class ConvertingMaker final : public Maker {
 public:
  ConvertingMaker(Framework framework, const Device& device)
      : bits_(framework == Framework::mlx || framework == Framework::paddle),
        numpy_(make_numpy_maker(bits_)),
        convert_(import_own("_arrays.converters").attr("converter")(converter_name(framework), to_str(device.name))) {}
  nb::object make(const Array& array) override { return converted(array.dtype(), numpy_->make(array)); }
  nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) override {
    return converted(array.dtype(), numpy_->make_inside(array, whole, memory));
  }

 private:
  nb::object converted(Dtype dtype, const nb::object& made) {
    const char* const name = bits_ ? extended_name(dtype) : nullptr;
    return never_unwound([&] { return name == nullptr ? convert_(made) : convert_(made, name); });
  }

  bool bits_;
  std::shared_ptr<Maker> numpy_;
  nb::object convert_;
};

}  // namespace

Framework parse_framework(std::string_view name) {
  for (const auto& [known, framework] : kFrameworks) {
    if (known == name) return framework;
  }
  raise("framework " + std::string(name) + " is invalid");
}

void check_device(Framework framework, const Device& device) {
  if (device.cpu() || framework == Framework::torch || framework == Framework::paddle) return;
  raise("Device " + device.given + " is not supported for framework " + name_of(framework));
}

const char* name_of(Framework framework) noexcept {
  switch (framework) {
    case Framework::numpy:
      return "numpy";
    case Framework::torch:
      return "pytorch";
    case Framework::tensorflow:
      return "tensorflow";
    case Framework::flax:
      return "flax";
    case Framework::mlx:
      return "mlx";
    case Framework::paddle:
      break;
  }
  return "paddle";
}

std::shared_ptr<Maker> make_maker(Framework framework, const Device& device) {
  switch (framework) {
    case Framework::numpy:
      return make_numpy_maker();
    case Framework::torch:
      return make_torch_maker(device);
    default:
      return std::make_shared<ConvertingMaker>(framework, device);
  }
}

std::shared_ptr<Maker> make_probed_maker(Framework framework, const Device& device) {
  std::shared_ptr<Maker> maker = make_maker(framework, device);
  if (device.cpu()) return maker;
  try {
    (void)maker->make(Array(Dtype::U8, Shape({0}), {}, nullptr, MemoryKind::owned));
  } catch (const nb::python_error& error) {
    raise_refused(error, "device " + device.given + " cannot be used: ");
  }
  return maker;
}

Array aligned(const Array& array, std::size_t alignment) {
  const std::span<const std::byte> bytes = array.bytes();
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return array;
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new (bytes.size(), std::align_val_t{64})),
                                  [](std::byte* p) noexcept { ::operator delete (p, std::align_val_t{64}); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<std::byte> own_bytes(copy.get(), bytes.size());
  return Array(array.dtype(), array.shape(), own_bytes, std::move(copy), MemoryKind::owned);
}

}  // namespace safetensors::python
