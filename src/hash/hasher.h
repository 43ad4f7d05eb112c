// The hash functions: one interface for SHA-256 and BLAKE3.
#pragma once

#include <safetensors/error.h>
#include <safetensors/hash.h>

#include <cstddef>
#include <memory>
#include <span>

namespace safetensors::hash {

// Computes one digest after the other. Used by one thread at a time.
class Hasher {
 public:
  Hasher() = default;
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  virtual ~Hasher() = default;

  // A failure stays until finish().
  virtual void update(std::span<const std::byte> bytes) noexcept = 0;
  // Returns the digest of all bytes since the last finish(), and begins a new one. Error: unsupported.
  [[nodiscard]] virtual Result<Digest> finish() noexcept = 0;
};

// Errors: unsupported, out_of_memory.
[[nodiscard]] Result<std::unique_ptr<Hasher>> make_hasher(HashAlgorithm algorithm) noexcept;

}  // namespace safetensors::hash
