// Writes whole blocks of a file without the page cache (O_DIRECT). Reads without it: io/source_reader.h.
#pragma once

#include <safetensors/error.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "os/descriptor.h"
#include "os/system.h"

namespace safetensors::io {

inline constexpr std::size_t kDirectChunk = std::size_t{2} << 20;  // bytes; chunks begin at multiples of this
// Minimum size of a file that is opened for direct writes, in bytes. They gain nothing for smaller files.
inline constexpr std::uint64_t kMinDirectFile = std::uint64_t{1} << 20;
// The measured number of threads that keep a disk busy while some of them fill the memory for the next write.
inline constexpr unsigned kDirectThreads = 4;

// Cuts a range of a file at multiples of kDirectChunk.
struct Chunks {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  struct Range {
    std::uint64_t offset;
    std::size_t size;
  };
  [[nodiscard]] std::size_t count() const noexcept;
  [[nodiscard]] Range operator[](std::size_t index) const noexcept;
};

// Lends aligned buffers of kDirectChunk bytes, at most kDirectThreads at a time. Other threads wait for a free buffer.
// Thread-safe.
class BounceBufferPool {
 public:
  // A buffer. The destructor returns it to the pool. It must not outlive the pool.
  class Lease {
   public:
    Lease(BounceBufferPool& pool, std::shared_ptr<std::byte> memory) noexcept
        : pool_(&pool), memory_(std::move(memory)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    // Returns the memory for the bytes of a chunk from `offset` on. Its address and the file offset are equal modulo
    // kDirectChunk, so whole blocks are aligned in memory too.
    [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return memory_.get() + offset % kDirectChunk; }

   private:
    BounceBufferPool* pool_;
    std::shared_ptr<std::byte> memory_;
  };

  BounceBufferPool() = default;
  BounceBufferPool(const BounceBufferPool&) = delete;
  BounceBufferPool& operator=(const BounceBufferPool&) = delete;
  ~BounceBufferPool() = default;

  // Waits for a buffer. Error: out_of_memory, if there is no memory for even one buffer.
  [[nodiscard]] Result<Lease> take();

 private:
  void give_back(std::shared_ptr<std::byte> memory) noexcept;

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::shared_ptr<std::byte>> free_;
  unsigned made_ = 0;  // number of buffers allocated
};

class DirectWriter {
 public:
  // Opens the file of `descriptor` a second time: by its name in a directory, or through /proc if name is nullptr.
  // Returns nullptr if the system cannot write directly, or if direct writes gain nothing: on file systems in memory,
  // over a network or in user space.
  [[nodiscard]] static std::unique_ptr<DirectWriter> open(int directory, const char* name, int descriptor,
                                                          os::System& system);
  // Returns false after the system has refused a write.
  [[nodiscard]] bool usable() const noexcept { return usable_.load(std::memory_order_relaxed); }
  // Offset and size of a write must be multiples of this number of bytes. It is a multiple of the page size, so that no
  // page is written both directly and through the page cache. It is a multiple of the memory alignment too, so that a
  // buffer from BounceBufferPool::Lease::at() is aligned.
  [[nodiscard]] std::size_t block() const noexcept { return block_; }
  // Returns whether the alignment of memory allows a direct write from it.
  [[nodiscard]] bool aligned(const std::byte* memory) const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory) % memory_alignment_ == 0;
  }

  struct Outcome {
    std::size_t written;  // bytes, from the start
    int error_number;     // 0: the caller must write the rest through the page cache; else the error of the file
  };
  // Writes blocks. Thread-safe.
  [[nodiscard]] Outcome write(std::uint64_t offset, std::span<const std::byte> blocks) noexcept;

 private:
  DirectWriter(os::Descriptor descriptor, const os::DirectAlignment& alignment, os::System& system) noexcept;

  os::System& system_;
  const os::Descriptor descriptor_;
  const std::size_t block_;
  const std::size_t memory_alignment_;
  std::atomic<bool> usable_{true};
};

}  // namespace safetensors::io
