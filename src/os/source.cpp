// Defaults of Source: its bytes are not in memory.
#include <safetensors/source.h>

namespace safetensors {
inline namespace v0 {

Source::~Source() = default;

}  // namespace v0
}  // namespace safetensors
