// The descriptors of many files, with a limit for the number of open ones.
#pragma once

#include <safetensors/error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "os/descriptor.h"
#include "os/file_status.h"

namespace safetensors::os {

class DescriptorPool;

// Keeps a descriptor open while this object lives. It must not outlive the file that it comes from.
class Lease {
 public:
  // A lease without a pool: the owner of the descriptor keeps it open.
  explicit Lease(int descriptor) noexcept : descriptor_(descriptor) {}
  Lease(DescriptorPool& pool, std::size_t slot, int descriptor, std::uint64_t process) noexcept
      : pool_(&pool), slot_(slot), process_(process), descriptor_(descriptor) {}
  Lease(Lease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        slot_(other.slot_),
        process_(other.process_),
        descriptor_(other.descriptor_) {}
  Lease& operator=(Lease&&) = delete;
  ~Lease();

  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  DescriptorPool* pool_ = nullptr;
  std::size_t slot_ = 0;
  std::uint64_t process_ = 0;
  int descriptor_;
};

// Opens the descriptor of a slot. Must not throw.
class Opener {
 public:
  Opener() = default;
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;
  [[nodiscard]] virtual Result<Descriptor> open() const noexcept = 0;

 protected:
  ~Opener() = default;
};

// One slot per file. Thread-safe. It has no locks, so the child of a fork can use it in whatever state the parent's
// threads left it.
//
// fork() copies the descriptors before the memory. So a slot in the child may name a descriptor that does not exist
// there, or that is another file. The child uses a descriptor from the parent only after it has checked that it is the
// slot's file. A descriptor that a thread opens or closes during the fork may stay open in the child.
class DescriptorPool {
 public:
  // limit: maximum number of open descriptors, at least 1. More are open only while more are in use. Throws
  // std::bad_alloc.
  DescriptorPool(std::size_t slots, std::size_t limit);
  DescriptorPool(const DescriptorPool&) = delete;
  DescriptorPool& operator=(const DescriptorPool&) = delete;
  ~DescriptorPool();

  // Returns the slot's descriptor and opens it if it is closed. If the system has no more descriptors, closes the idle
  // ones and calls the opener once more. Errors: those of the opener.
  [[nodiscard]] Result<Lease> acquire(std::size_t slot, const Opener& opener) noexcept;
  // Stores the identity of the slot's file. The opener, or the holder of the slot's first lease, calls it before other
  // threads can use the slot. Two openers of one slot may call it at the same time with the same identity.
  void identify(std::size_t slot, const FileIdentity& identity) noexcept;
  // Closes the slot for good. Nobody may use it at that time or later.
  void close(std::size_t slot) noexcept;

 private:
  friend class Lease;
  // Process, descriptor and number of users, or 0 for a closed slot. One atomic, so all of it changes at once.
  using State = std::uint64_t;
  struct Slot {
    std::atomic<State> state{0};
    std::atomic<std::uint64_t> device{0};
    std::atomic<std::uint64_t> inode{0};
    std::atomic<bool> recent{false};  // used since the hand passed it last
  };

  [[nodiscard]] static bool is_open(const Slot& slot, State state, std::uint64_t process) noexcept;
  [[nodiscard]] int enter(Slot& slot, std::uint64_t process) noexcept;
  [[nodiscard]] Result<Descriptor> open(const Opener& opener) noexcept;
  void leave(std::size_t slot, std::uint64_t process) noexcept;
  bool close_idle() noexcept;

  const std::size_t size_;
  const std::size_t limit_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::size_t> open_{0};  // number of slots that are open or about to be
  std::atomic<std::size_t> hand_{0};  // the hand of the clock, modulo size_
};

inline Lease::~Lease() {
  if (pool_ != nullptr) pool_->leave(slot_, process_);
}

// Returns half of the descriptor limit of this process (RLIMIT_NOFILE), at least 1. The other half is for the program.
[[nodiscard]] std::size_t descriptor_limit() noexcept;

}  // namespace safetensors::os
