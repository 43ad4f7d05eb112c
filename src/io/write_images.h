// Writing files whose bytes are all in memory, by several threads.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "io/file_writer.h"

namespace safetensors::io {

struct Piece {
  std::uint64_t offset;
  std::span<const std::byte> bytes;
};

struct Image {
  FileWriter* file;
  std::span<const Piece> pieces;  // in order, without gaps from byte 0 on, none empty
  std::uint64_t size;
};

// Told how many bytes of all files are written; false cancels.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// Writes and finishes each file. At most kDirectThreads threads or one for each processor, and 8 MiB of memory, or
// 1 MiB for each processor where nothing is written directly. progress is called by the calling thread only.
// Errors: FileWriter's, cancelled.
[[nodiscard]] Status write_images(std::span<const Image> images, const Progress& progress) noexcept;

}  // namespace safetensors::io
