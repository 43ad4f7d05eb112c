// The text of the index of a Checkpoint that nobody keeps.
#include <safetensors/safetensors.h>

std::size_t size() {
#ifdef MISUSE
  return safetensors::Checkpoint::open("model").value().index_metadata().size();  // expect: deleted
#else
  const safetensors::Checkpoint model = safetensors::Checkpoint::open("model").value();
  return model.index_metadata().size();
#endif
}
