// The files that the scenarios read. Each byte follows from its offset, so a byte from a wrong offset is found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace safetensors::test::faults {

inline constexpr std::size_t kLargeBytes = (std::size_t{3} << 20) + 100;  // more than a huge page

inline constexpr const char* kSmall = "small.safetensors";  // m: I64 []; w: F32 [4, 6]; metadata
inline constexpr const char* kLarge = "large.safetensors";  // big: U8 [kLargeBytes]; f: F32 [64, 512]
inline constexpr const char* kModel = "model";              // a folder of two shards, a: F32 [256]; b: F32 [256]
inline constexpr const char* kPart = "part.json";           // an index of w in kSmall

// The byte of a tensor at an offset of it.
[[nodiscard]] inline unsigned char byte_at(std::size_t offset) {
  return static_cast<unsigned char>(offset * 2654435761U >> 13 & 0x7f);
}
[[nodiscard]] bool as_expected(const void* bytes, std::size_t size, std::size_t offset = 0);

// Makes them in a directory, and a folder "out" for results.
void make_files(const std::string& directory);

}  // namespace safetensors::test::faults
