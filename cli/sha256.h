// SHA-256 of files, for the subcommands hash and verify.
#pragma once

#include <safetensors/error.h>
#include <safetensors/source.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace safetensors::cli {

// The name and the version of the library that computes digests, such as "OpenSSL 3.0.19", or "none".
[[nodiscard]] std::string sha256_library();
// The error of a build that has no such library.
[[nodiscard]] Error sha256_missing();

// Computes one digest. Used by one thread.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  // A failure stays until finish().
  void update(std::span<const std::byte> bytes);
  // Returns the digest as 64 hexadecimal digits in lower case. Error: unsupported.
  [[nodiscard]] Result<std::string> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the digest of the bytes [begin, end) of a source. Calls read(bytes) after each read, which returns false to
// cancel. Errors: those of the source, file_truncated, cancelled, unsupported.
[[nodiscard]] Result<std::string> sha256_of(const Source& source, std::uint64_t begin, std::uint64_t end,
                                            const std::function<bool(std::uint64_t bytes)>& read);

}  // namespace safetensors::cli
