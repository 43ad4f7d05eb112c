// The files of a Checkpoint that nobody keeps.
#include <safetensors/safetensors.h>

std::size_t count() {
#ifdef MISUSE
  return safetensors::Checkpoint::open("model").value().files().size();  // expect: deleted
#else
  const safetensors::Checkpoint model = safetensors::Checkpoint::open("model").value();
  return model.files().size();
#endif
}
