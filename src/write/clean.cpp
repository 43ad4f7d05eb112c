// The public clean_directory(). See io/clean.h.
#include "io/clean.h"

namespace safetensors {
inline namespace v0 {

Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options) noexcept {
  return io::clean_directory(directory, options);
}

}  // namespace v0
}  // namespace safetensors
