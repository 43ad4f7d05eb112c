// Descriptors of many files, of which only so many are open at a time.
#pragma once

#include <safetensors/error.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "os/descriptor.h"
#include "os/file_system.h"

namespace safetensors::os {

class DescriptorPool;

// A descriptor that stays open while this lives. Must not outlive the file that gave it.
class Lease {
 public:
  // Of no pool: whoever owns the descriptor keeps it open.
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

// How the descriptor of a slot is opened. Must not throw.
class Opener {
 public:
  Opener() = default;
  Opener(const Opener&) = delete;
  Opener& operator=(const Opener&) = delete;
  [[nodiscard]] virtual Result<Descriptor> open() const noexcept = 0;

 protected:
  ~Opener() = default;
};

// One slot for each file. All calls from any thread. Without locks, so that a child of a fork may go on whatever its
// parent's threads were doing. The child's descriptors are copied before its memory is: a number that the parent left
// in a slot is used only if it is the slot's file there. What a thread was opening or closing then may stay open.
class DescriptorPool {
 public:
  // limit: how many stay open, at least 1; more only while more are in use. Throws std::bad_alloc.
  DescriptorPool(std::size_t slots, std::size_t limit);
  DescriptorPool(const DescriptorPool&) = delete;
  DescriptorPool& operator=(const DescriptorPool&) = delete;
  ~DescriptorPool();

  // The slot's descriptor, opened if it is not. Where the system has no more descriptors, idle ones are closed and the
  // opener is asked once more. Errors: the opener's.
  [[nodiscard]] Result<Lease> acquire(std::size_t slot, const Opener& opener) noexcept;
  // Which file the slot is of; by who has it leased for the first time.
  void identify(std::size_t slot, const FileIdentity& identity) noexcept;
  // Closes it for good; nobody may be using it.
  void close(std::size_t slot) noexcept;

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  friend class Lease;
  // The process that it is open in, descriptor and users; 0 when closed. All of it changes at once.
  using State = std::uint64_t;
  struct Slot {
    std::atomic<State> state{0};
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::atomic<bool> recent{false};  // used since the hand passed
  };

  [[nodiscard]] static bool is_open(const Slot& slot, State state, std::uint64_t process) noexcept;
  [[nodiscard]] int enter(Slot& slot, std::uint64_t process) noexcept;
  [[nodiscard]] Result<Descriptor> open(const Opener& opener) noexcept;
  void leave(std::size_t slot, std::uint64_t process) noexcept;
  bool close_idle() noexcept;

  const std::size_t size_;
  const std::size_t limit_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::size_t> open_{0};  // or about to be
  std::atomic<std::size_t> hand_{0};
};

inline Lease::~Lease() {
  if (pool_ != nullptr) pool_->leave(slot_, process_);
}

// Half of what this process may have open, at least 1.
[[nodiscard]] std::size_t descriptor_limit() noexcept;

}  // namespace safetensors::os
