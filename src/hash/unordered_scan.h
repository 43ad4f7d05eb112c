// One pass over a file for digests that need no order: those of chunks, and the tree of BLAKE3.
#pragma once

#include <safetensors/error.h>
#include <safetensors/file.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors::hash {

// Gives each block of a file to a consumer once, in any order, several at the same time. At most kMaxBytes are in
// memory.
class UnorderedScan final : public os::Tasks {
 public:
  // Gets a block: the offset of its first byte in the file, and its bytes. Must not throw.
  using Consumer = std::function<Status(std::uint64_t offset, std::span<const std::byte> bytes)>;

  // All blocks have block_bytes bytes, except the last one, which may be shorter. meter: counts the bytes. The file and
  // the meter must outlive this.
  UnorderedScan(const File& file, std::size_t block_bytes, io::ProgressMeter& meter, Consumer consumer)
      : file_(file), block_bytes_(block_bytes), meter_(meter), consumer_(std::move(consumer)) {}

  // Reads everything. Uses up to `threads` threads, including the calling thread. Returns an error of the source or of
  // the consumer, if there is one.
  [[nodiscard]] Status run_all(unsigned threads);

  // The work of one thread.
  [[nodiscard]] Status run(std::size_t index) noexcept override;

 private:
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
  class Reader;
  Status take_extent(Reader& reader, std::uint64_t offset, std::size_t size);

  const File& file_;
  const std::size_t block_bytes_;
  io::ProgressMeter& meter_;
  Consumer consumer_;
  std::size_t extent_bytes_ = 0;        // size of the blocks that a thread takes together
  std::atomic<std::uint64_t> next_{0};  // extent
};

}  // namespace safetensors::hash
