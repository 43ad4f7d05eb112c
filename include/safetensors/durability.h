/// @file
/// The guarantee of functions that write files.
#pragma once

#include <cstdint>

namespace safetensors {
inline namespace v0 {

/// The guarantee of a writing function when it returns without error.
///
/// At every level, other programs see the old file or the new file, never a mixture. After an error, the old file is
/// unchanged and no other file remains next to it.
enum class Durability : std::uint8_t {
  full,  ///< the new file survives a power cut
  file,  ///< after a power cut, the path has the old file or the new file
  none,  ///< after a power cut, the path has the old file, the new file, an empty file, or zeros
};

}  // namespace v0
}  // namespace safetensors
