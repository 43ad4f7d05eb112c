// Writes files whose bytes are all in memory, with several threads.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/file_writer.h"
#include "io/progress.h"

namespace safetensors::io {

struct Piece {
  std::uint64_t offset;  // from the start of the file
  std::span<const std::byte> bytes;
};

struct Image {
  FileWriter* file;
  std::span<const Piece> pieces;  // in file order from byte 0 on, without gaps and without empty pieces
  std::uint64_t size;             // bytes of all pieces
};

// Writes and finishes each file. Uses at most kDirectThreads threads. Memory: at most 8 MiB if any file is written
// directly, else at most 1 MiB per thread. Only the calling thread calls progress. Errors: those of FileWriter,
// cancelled.
[[nodiscard]] Status write_images(std::span<const Image> images, const Progress& progress) noexcept;

}  // namespace safetensors::io
