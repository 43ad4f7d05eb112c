// Writing whole blocks of a file past the page cache (O_DIRECT).
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

inline constexpr std::size_t kDirectChunk = std::size_t{2} << 20;  // of a file, at a multiple of itself
// Measured: what keeps the disk busy while the memory for the next write is filled.
inline constexpr unsigned kDirectThreads = 4;

// A range of a file, cut at multiples of kDirectChunk.
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

// Aligned memory of kDirectChunk bytes, for as many threads as write at once; the others wait.
class ScratchPool {
 public:
  // Returns itself to the pool, which it must not outlive.
  class Lease {
   public:
    Lease(ScratchPool& pool, std::shared_ptr<std::byte> memory) noexcept : pool_(&pool), memory_(std::move(memory)) {}
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    // Where the bytes of a chunk go that starts at offset: in phase with the file.
    [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return memory_.get() + offset % kDirectChunk; }

   private:
    ScratchPool* pool_;
    std::shared_ptr<std::byte> memory_;
  };

  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() = default;

  // Error: out_of_memory, if there is no memory for even one.
  [[nodiscard]] Result<Lease> take();

 private:
  void give_back(std::shared_ptr<std::byte> memory) noexcept;

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::shared_ptr<std::byte>> free_;
  unsigned made_ = 0;
};

class DirectFile {
 public:
  // A second descriptor of the file that descriptor is of, by its name in a directory, or through /proc where name is
  // nullptr. nullptr where the system
  // cannot write so, or where nothing would be gained: memory, network and user-space file systems.
  [[nodiscard]] static std::unique_ptr<DirectFile> open(int directory, const char* name, int descriptor,
                                                        os::System& system);
  // Whether the system has not yet refused a write.
  [[nodiscard]] bool usable() const noexcept { return usable_.load(std::memory_order_relaxed); }
  // Offset and size of a write are multiples of it. It is a multiple of the page's size, so that no page is written
  // both ways, and of the alignment of memory, so that memory in phase with the file is aligned.
  [[nodiscard]] std::size_t block() const noexcept { return block_; }
  // Whether memory can be written from where it is.
  [[nodiscard]] bool aligned(const std::byte* memory) const noexcept {
    return reinterpret_cast<std::uintptr_t>(memory) % memory_alignment_ == 0;
  }

  struct Outcome {
    std::size_t written;  // from the start
    int number;           // 0: what is not written is to be written through the page cache; else why it cannot be
  };
  // From any number of threads at once.
  [[nodiscard]] Outcome write(std::uint64_t offset, std::span<const std::byte> blocks) noexcept;

 private:
  DirectFile(os::Descriptor descriptor, const os::DirectAlignment& alignment, os::System& system) noexcept;

  os::System& system_;
  const os::Descriptor descriptor_;
  const std::size_t block_;
  const std::size_t memory_alignment_;
  std::atomic<bool> usable_{true};
};

}  // namespace safetensors::io
