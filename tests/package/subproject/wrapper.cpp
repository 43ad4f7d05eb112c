// A library of the parent project that links ours and is exported with it.
#include "wrapper.h"

bool has_tensor(const char* path, const char* name) {
  const auto file = safetensors::File::open(path);
  return file && file->tensor(name).ok();
}
