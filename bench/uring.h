// Reads by io_uring, through raw system calls. Has only the functions that a benchmark needs.
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#if __has_include(<linux/io_uring.h>) && defined(__NR_io_uring_setup)
#include <linux/io_uring.h>
#define SAFETENSORS_BENCH_URING 1
#endif

namespace bench {

#ifdef SAFETENSORS_BENCH_URING

// For one thread only. open() sets errno if the system refuses it.
class Uring {
 public:
  Uring() = default;
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;
  ~Uring() {
    unmap(submissions_);
    unmap(completions_);
    unmap(entries_);
    if (fd_ >= 0) close(fd_);
  }

  [[nodiscard]] bool open(unsigned depth) {
    io_uring_params parameters{};
    fd_ = static_cast<int>(syscall(__NR_io_uring_setup, depth, &parameters));
    if (fd_ < 0) return false;
    const auto& sq = parameters.sq_off;
    const auto& cq = parameters.cq_off;
    if (!map(submissions_, IORING_OFF_SQ_RING, sq.array + parameters.sq_entries * sizeof(unsigned)) ||
        !map(completions_, IORING_OFF_CQ_RING, cq.cqes + parameters.cq_entries * sizeof(io_uring_cqe)) ||
        !map(entries_, IORING_OFF_SQES, parameters.sq_entries * sizeof(io_uring_sqe))) {
      return false;
    }
    sq_tail_ = at(submissions_, sq.tail);
    sq_mask_ = *at(submissions_, sq.ring_mask);
    sq_array_ = at(submissions_, sq.array);
    cq_head_ = at(completions_, cq.head);
    cq_tail_ = at(completions_, cq.tail);
    cq_mask_ = *at(completions_, cq.ring_mask);
    cqes_ = reinterpret_cast<const io_uring_cqe*>(static_cast<char*>(completions_.start) + cq.cqes);
    return true;
  }

  // Queues a read, which the next wait() sends. At most `depth` reads may be under way.
  void read(unsigned slot, int fd, void* to, unsigned size, std::uint64_t offset) {
    const unsigned tail = *sq_tail_;
    const unsigned index = tail & sq_mask_;
    io_uring_sqe& entry = static_cast<io_uring_sqe*>(entries_.start)[index];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = IORING_OP_READ;
    entry.fd = fd;
    entry.addr = reinterpret_cast<std::uintptr_t>(to);
    entry.len = size;
    entry.off = offset;
    entry.user_data = slot;
    sq_array_[index] = index;
    __atomic_store_n(sq_tail_, tail + 1, __ATOMIC_RELEASE);
    ++queued_;
  }

  // Waits for a read. Returns its slot and its result: a number of bytes, or a negative error_number.
  [[nodiscard]] std::pair<unsigned, int> wait() {
    unsigned head = *cq_head_;
    while (queued_ > 0 || head == __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE)) {
      const unsigned least = head == __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE) ? 1 : 0;
      const long sent = syscall(__NR_io_uring_enter, fd_, queued_, least, IORING_ENTER_GETEVENTS, nullptr, 0);
      if (sent < 0 && errno != EINTR) return {0, -errno};
      if (sent > 0) queued_ -= static_cast<unsigned>(sent);
    }
    const io_uring_cqe& done = cqes_[head & cq_mask_];
    const std::pair<unsigned, int> result{static_cast<unsigned>(done.user_data), done.res};
    __atomic_store_n(cq_head_, ++head, __ATOMIC_RELEASE);
    return result;
  }

 private:
  struct Mapped {
    void* start = MAP_FAILED;
    std::size_t size = 0;
  };
  [[nodiscard]] bool map(Mapped& mapped, std::uint64_t what, std::size_t size) const {
    mapped.size = size;
    mapped.start =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, static_cast<off_t>(what));
    return mapped.start != MAP_FAILED;
  }
  static void unmap(const Mapped& mapped) {
    if (mapped.start != MAP_FAILED) munmap(mapped.start, mapped.size);
  }
  static unsigned* at(const Mapped& mapped, unsigned offset) {
    return reinterpret_cast<unsigned*>(static_cast<char*>(mapped.start) + offset);
  }

  int fd_ = -1;
  unsigned queued_ = 0;
  Mapped submissions_, completions_, entries_;
  unsigned *sq_tail_ = nullptr, *sq_array_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  unsigned sq_mask_ = 0, cq_mask_ = 0;
  const io_uring_cqe* cqes_ = nullptr;
};

#else

class Uring {  // io_uring was not available when this was compiled
 public:
  [[nodiscard]] bool open(unsigned) {
    errno = ENOSYS;
    return false;
  }
  void read(unsigned, int, void*, unsigned, std::uint64_t) {}
  [[nodiscard]] std::pair<unsigned, int> wait() { return {0, -ENOSYS}; }
};

#endif

}  // namespace bench
