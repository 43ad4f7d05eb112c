// Small chunks, an empty page cache, and another driver of devices, as long as an object lives.
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

// Plans read past the page cache, whatever it holds.
class AssumeUncached {
 public:
  AssumeUncached() noexcept : old_(std::exchange(plan::tuning.assume_uncached, true)) {}
  AssumeUncached(const AssumeUncached&) = delete;
  AssumeUncached& operator=(const AssumeUncached&) = delete;
  ~AssumeUncached() { plan::tuning.assume_uncached = old_; }

 private:
  const bool old_;
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
