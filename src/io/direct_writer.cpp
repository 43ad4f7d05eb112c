// Writes whole blocks with O_DIRECT, and lends aligned memory for bytes that are not aligned.
//
// A durable file must reach the device anyway, and a write without the page cache saves one copy and the work of
// reclaiming pages. O_DIRECT has many restrictions that differ between file systems. So every failure means only that
// the caller uses the page cache instead.
#include "io/direct_writer.h"

#include <algorithm>
#include <cerrno>

#include "os/file_status.h"
#include "os/file_system.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::uint32_t kBlock = 4096;

bool power_of_two(std::uint64_t value) noexcept {
  return value != 0 && (value & (value - 1)) == 0;
}

bool fits(const os::DirectAlignment& alignment) noexcept {
  return power_of_two(alignment.memory) && power_of_two(alignment.offset) && alignment.memory <= kDirectChunk &&
         alignment.offset <= kDirectChunk;
}

}  // namespace

std::size_t Chunks::count() const noexcept {
  if (size == 0) return 0;
  return static_cast<std::size_t>((offset + size - 1) / kDirectChunk - offset / kDirectChunk + 1);
}

Chunks::Range Chunks::operator[](std::size_t index) const noexcept {
  const std::uint64_t first = (offset / kDirectChunk + index) * kDirectChunk;
  const std::uint64_t begin = std::max(first, offset);
  return {begin, static_cast<std::size_t>(std::min(first + kDirectChunk, offset + size) - begin)};
}

BounceBufferPool::Lease::~Lease() {
  if (memory_) pool_->give_back(std::move(memory_));
}

Result<BounceBufferPool::Lease> BounceBufferPool::take() {
  std::unique_lock lock(mutex_);
  free_.reserve(kDirectThreads);  // give_back() is noexcept and must not allocate
  // If memory runs out, wait for a buffer of another thread. The first buffer is needed, otherwise nobody would return
  // one.
  bool no_memory = false;
  while (free_.empty()) {
    if (made_ < kDirectThreads && !no_memory) {
      Result<std::shared_ptr<std::byte>> memory = os::allocate(kDirectChunk);
      if (memory) {
        ++made_;
        return Lease(*this, std::move(*memory));
      }
      if (made_ == 0) return std::move(memory).error();
      no_memory = true;
    }
    returned_.wait(lock);
  }
  std::shared_ptr<std::byte> memory = std::move(free_.back());
  free_.pop_back();
  return Lease(*this, std::move(memory));
}

void BounceBufferPool::give_back(std::shared_ptr<std::byte> memory) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(memory));
  }
  returned_.notify_one();
}

DirectWriter::DirectWriter(os::Descriptor descriptor, const os::DirectAlignment& alignment, os::System& system) noexcept
    : system_(system),
      descriptor_(std::move(descriptor)),
      block_(std::max(
          {std::size_t{alignment.offset}, std::size_t{alignment.memory}, std::size_t{kBlock}, os::page_size()})),
      memory_alignment_(alignment.memory) {}

std::unique_ptr<DirectWriter> DirectWriter::open(int directory, const char* name, int descriptor, os::System& system) {
  // Direct writes gain something only on a device. The other file systems accept O_DIRECT without effect, or were never
  // measured.
  if (!os::on_local_device(descriptor)) return nullptr;
  constexpr os::OpenFlags kFlags =
      os::OpenFlags::write | os::OpenFlags::direct | os::OpenFlags::no_wait | os::OpenFlags::no_terminal;
  os::Descriptor opened(name != nullptr
                            ? system.open_at(directory, name, kFlags | os::OpenFlags::no_follow, 0)
                            : system.open_at(os::kWorkingDirectory, os::DescriptorPath(descriptor).text, kFlags, 0));
  os::FileStatus same, expected;
  if (!opened.valid() || os::status_of(opened.get(), same) != 0 || os::status_of(descriptor, expected) != 0 ||
      !same.identity.same_file(expected.identity))
    return nullptr;
  os::DirectAlignment alignment;
  if (system.direct_alignment(opened.get(), alignment) != 0 || !alignment.known)
    alignment = {.known = true, .memory = kBlock, .offset = kBlock};
  if (!fits(alignment)) return nullptr;
  // On file systems with blocks larger than a page, the page cache works in whole blocks.
  const std::uint64_t preferred = same.block_size;
  if (power_of_two(preferred) && preferred <= kDirectChunk)
    alignment.offset = std::max(alignment.offset, static_cast<std::uint32_t>(preferred));
  return std::unique_ptr<DirectWriter>(new DirectWriter(std::move(opened), alignment, system));
}

DirectWriter::Outcome DirectWriter::write(std::uint64_t offset, std::span<const std::byte> blocks) noexcept {
  std::size_t done = 0;
  while (done < blocks.size() && usable()) {
    // A write can be short, for instance after a signal.
    const std::ptrdiff_t count =
        system_.write_at(descriptor_.get(), blocks.data() + done, blocks.size() - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EIO || os::out_of_space(errno))) return {done, errno};
    if (count <= 0) {
      // EINVAL, EOPNOTSUPP, memory that cannot be pinned: a write through the page cache works or reports the error.
      usable_.store(false, std::memory_order_relaxed);
      break;
    }
    done += static_cast<std::size_t>(count);
    if (done % block_ != 0) break;  // The rest is no longer aligned.
  }
  return {done, 0};
}

}  // namespace safetensors::io
