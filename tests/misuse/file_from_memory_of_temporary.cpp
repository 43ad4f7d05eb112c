// The File reads the bytes again and again, so they must outlive it.
#include <safetensors/safetensors.h>

#include <vector>

std::vector<std::byte> download();

bool valid() {
#ifdef MISUSE
  return safetensors::File::from_memory(download(), nullptr).ok();  // expect: deleted
#else
  const auto bytes = std::make_shared<const std::vector<std::byte> >(download());
  return safetensors::File::from_memory(*bytes, bytes).ok();
#endif
}
