// The tensors of a Checkpoint that nobody keeps.
#include <safetensors/safetensors.h>

std::uint64_t first() {
#ifdef MISUSE
  return safetensors::Checkpoint::open("model").value().tensors()[0].nbytes();  // expect: deleted
#else
  const safetensors::Checkpoint model = safetensors::Checkpoint::open("model").value();
  return model.tensors()[0].nbytes();
#endif
}
