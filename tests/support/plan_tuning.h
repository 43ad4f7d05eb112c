// Small chunks, and another driver of devices, as long as an object lives.
#pragma once

#include <cstdint>
#include <utility>

#include "plan/tuning.h"

namespace safetensors::test {

class ChunkBytes {
 public:
  explicit ChunkBytes(std::uint64_t bytes) noexcept : old_(std::exchange(plan::tuning.chunk_bytes, bytes)) {}
  ChunkBytes(const ChunkBytes&) = delete;
  ChunkBytes& operator=(const ChunkBytes&) = delete;
  ~ChunkBytes() { plan::tuning.chunk_bytes = old_; }

 private:
  const std::uint64_t old_;
};

class CudaDriver {
 public:
  explicit CudaDriver(const char* driver) noexcept : old_(std::exchange(plan::tuning.cuda_driver, driver)) {}
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;
  ~CudaDriver() { plan::tuning.cuda_driver = old_; }

 private:
  const char* const old_;
};

}  // namespace safetensors::test
