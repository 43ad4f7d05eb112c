// The files of a CheckpointLayout that nobody keeps.
#include <safetensors/safetensors.h>

std::size_t count() {
#ifdef MISUSE
  return safetensors::CheckpointLayout::make({}).value().files().size();  // expect: deleted
#else
  const safetensors::CheckpointLayout layout = safetensors::CheckpointLayout::make({}).value();
  return layout.files().size();
#endif
}
