// A Source is shared by pointer.
#include <safetensors/safetensors.h>

struct Empty : safetensors::Source {
  safetensors::Result<std::uint64_t> size() const noexcept override { return std::uint64_t{0}; }
  safetensors::Result<std::size_t> read_at(std::uint64_t, safetensors::Span<std::byte>) const noexcept override {
    return std::size_t{0};
  }
};

std::uint64_t size(const Empty& source) {
#ifdef MISUSE
  const Empty copy = source;  // expect: deleted
  return copy.size().value();
#else
  const Empty& same = source;
  return same.size().value();
#endif
}
