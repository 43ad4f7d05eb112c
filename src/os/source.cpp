// Defaults of Source: its bytes are not in memory.
#include <safetensors/source.h>

namespace safetensors {
inline namespace v0 {

Source::~Source() = default;

Source::Memory Source::memory(std::uint64_t, std::uint64_t) const {
  return {};
}

}  // namespace v0
}  // namespace safetensors
