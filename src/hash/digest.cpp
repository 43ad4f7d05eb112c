// The texts of digests and of algorithms. The Python extension compiles this file, too: it needs no hash function.
#include <safetensors/hash.h>

#include <charconv>
#include <cstddef>
#include <cstdint>

namespace safetensors {
inline namespace v0 {

const char* to_string(HashAlgorithm algorithm) noexcept {
  switch (algorithm) {
    case HashAlgorithm::sha256:
      return "sha256";
    case HashAlgorithm::blake3:
      return "blake3";
  }
  return "unknown";
}

std::optional<HashAlgorithm> hash_algorithm(std::string_view name) noexcept {
  if (name == "sha256") return HashAlgorithm::sha256;
  if (name == "blake3") return HashAlgorithm::blake3;
  return std::nullopt;
}

std::string to_hex(const Digest& digest) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.bytes.size());
  for (const std::uint8_t byte : digest.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::optional<Digest> digest_from_hex(std::string_view text) noexcept {
  Digest digest;
  if (text.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, digest.bytes[i], 16).ptr != digits + 2) return std::nullopt;
  }
  return digest;
}

}  // namespace v0
}  // namespace safetensors
