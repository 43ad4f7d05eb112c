// What tests choose in place of the library.
#pragma once

#include <cstdint>

namespace safetensors::plan {

// Set it only while no plan is read.
struct Tuning {
  std::uint64_t chunk_bytes = 0;      // bytes per read; 0: Budget chooses
  bool assume_uncached = false;       // no byte of a file counts as cached
  const char* cuda_driver = nullptr;  // name or path of the library; null: libcuda.so.1
};
inline Tuning tuning;

}  // namespace safetensors::plan
