// A plugin with a static copy of the library. It exports one function.
#include "copy.h"

// A class of the plugin that derives from one of the library.
class Nothing final : public safetensors::Source {
 public:
  safetensors::Result<std::uint64_t> size() const noexcept override { return std::uint64_t{0}; }
  safetensors::Result<std::size_t> read_at(std::uint64_t, safetensors::Span<std::byte>) const noexcept override {
    return 0;
  }
};

// Copies elements of a type of the library. At -O0, GCC exports functions of the standard library over this type. With
// -fvisibility-inlines-hidden, it does not.
static bool copies() {
  const std::vector<safetensors::Error> elements(1);
  const std::vector<safetensors::Error> copied = elements;
  return copied.size() == 1;
}

extern "C" __attribute__((visibility("default"))) Copy describe_copy() {
  if (safetensors::File::from_source(std::make_shared<Nothing>()) || !copies()) return {};
  return this_copy();
}
