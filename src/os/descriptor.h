// Owns a file descriptor and closes it in the destructor. Movable, not copyable.
#pragma once

#include <cstddef>
#include <utility>

namespace safetensors::os {

// The system call. A lock of the open file ends with its last descriptor.
int close(int descriptor) noexcept;

class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept : descriptor_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = other.release();
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }
  // Returns the descriptor and gives up ownership. The caller must close it.
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  void reset() noexcept {
    if (valid()) (void)close(release());
  }

 private:
  int descriptor_ = -1;
};

// A descriptor that is open while this object lives. It must not outlive the file that it comes from.
class Lease {
 public:
  // The file keeps the descriptor open.
  explicit Lease(int descriptor) noexcept : descriptor_(descriptor) {}
  explicit Lease(Descriptor own) noexcept : own_(std::move(own)), descriptor_(own_.get()) {}
  [[nodiscard]] int get() const noexcept { return descriptor_; }

 private:
  Descriptor own_;
  int descriptor_;
};

// Returns half of the descriptor limit of this process (RLIMIT_NOFILE), at least 1. The other half is for the program.
[[nodiscard]] std::size_t descriptor_limit() noexcept;

}  // namespace safetensors::os
