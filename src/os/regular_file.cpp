// Opens regular files, reads them at offsets, and maps them.
//
// A read at an offset has no shared file position, so threads can read through one descriptor without a lock. A file in
// a pool is opened again by its path; the identity taken at the first open detects a file that was replaced or changed
// meanwhile. The first open may come late (open_later): the thread that opens the file first publishes the identity,
// and all others compare theirs with it.
#include "os/regular_file.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "base/error.h"
#include "os/memory.h"
#include "os/open.h"
#include "os/path.h"
#include "os/residency.h"
#include "os/system.h"
#include "os/system_error.h"

namespace safetensors::os {
namespace {

constexpr std::size_t kMaxRead = 0x7ffff000;  // bytes; the limit of Linux for one read

Error irregular_error(FileKind kind, std::string_view path) {
  Error error =
      base::make_error(Errc::not_regular_file, std::string("not a regular file but ") + describe_irregular(kind), path);
  if (kind == FileKind::directory) error.os_error = EISDIR;
  return error;
}

// The file may have become a FIFO, and open() must not wait for its writer. A terminal must not become the controlling
// terminal.
int open_readable(const char* path) noexcept {
  return retry(
      [&] { return open_at(kWorkingDirectory, path, OpenFlags::read | OpenFlags::no_wait | OpenFlags::no_terminal); });
}

Error changed_error(const FileIdentity& then, const FileIdentity& now) {
  if (!then.same_file(now))
    return base::make_error(Errc::file_changed,
                            "file was replaced: its path leads to another file than the one opened");
  if (then.size != now.size)
    return base::make_error(Errc::file_changed, "file was changed: it had " + std::to_string(then.size) +
                                                    " bytes when it was opened, now it has " +
                                                    std::to_string(now.size));
  return base::make_error(Errc::file_changed, "file was changed after it was opened: its change time is another");
}

class OpenFirst final : public Opener {
 public:
  explicit OpenFirst(const std::string& path) noexcept : path_(path) {}
  [[nodiscard]] Result<Descriptor> open() const noexcept override {
    return base::guarded([&]() -> Result<Descriptor> {
      // Check before open(): some devices act when they are opened, such as a tape that rewinds.
      FileStatus status;
      if (status_of_path(path_.c_str(), Symlinks::follow, status) != 0)
        return system_error(Errc::open_failed, errno, "cannot open", path_);
      if (!status.is_regular()) return irregular_error(status.kind, path_);
      Descriptor descriptor(open_readable(path_.c_str()));
      if (!descriptor.valid()) return system_error(Errc::open_failed, errno, "cannot open", path_);
      return descriptor;
    });
  }

 private:
  const std::string& path_;
};

class OpenAgain final : public Opener {
 public:
  OpenAgain(const std::string& path, const FileIdentity& identity) noexcept : path_(path), identity_(identity) {}
  [[nodiscard]] Result<Descriptor> open() const noexcept override {
    return base::guarded([&]() -> Result<Descriptor> {
      // Check before open() as above, and again after it, because the file can be replaced in between.
      FileStatus status;
      if (status_of_path(path_.c_str(), Symlinks::follow, status) != 0) return refused();
      if (status.identity != identity_) return changed_error(identity_, status.identity);
      Descriptor descriptor(open_readable(path_.c_str()));
      if (!descriptor.valid() || status_of(descriptor.get(), status) != 0) return refused();
      if (status.identity != identity_) return changed_error(identity_, status.identity);
      return descriptor;
    });
  }

 private:
  static Error refused() { return system_error(Errc::open_failed, errno, "cannot open again"); }
  const std::string& path_;
  const FileIdentity& identity_;
};

struct Unmap {
  void* address;
  std::size_t length;
  void operator()(const void*) const noexcept { unmap_file(address, length); }
};

}  // namespace

// Opens the file for the first time, or again if another thread was faster.
class RegularFile::OpenLater final : public Opener {
 public:
  explicit OpenLater(const RegularFile& file) noexcept : file_(file) {}
  [[nodiscard]] Result<Descriptor> open() const noexcept override {
    const Facts* known = file_.facts_.load(std::memory_order_acquire);
    if (known != nullptr) return OpenAgain(file_.path_, known->identity).open();
    Result<Descriptor> descriptor = OpenFirst(file_.path_).open();
    if (!descriptor) return without_path(std::move(descriptor).error());
    return base::guarded([&]() -> Result<Descriptor> {
      if (Status status = publish(descriptor->get()); !status) return std::move(status).error();
      return std::move(descriptor);
    });
  }

 private:
  // The caller of lease() knows the path in the form that the user gave.
  static Error without_path(Error error) noexcept {
    error.path.clear();
    return error;
  }

  Status publish(int descriptor) const {
    const Result<Facts> found = inspect(descriptor, {});
    if (!found) return found.error();
    if (found->identity.size != file_.size_)
      return base::make_error(Errc::file_changed, "file has another size than its header says: it has " +
                                                      std::to_string(found->identity.size) + " bytes, expected " +
                                                      std::to_string(file_.size_));
    auto mine = std::make_unique<const Facts>(*found);
    const Facts* published = nullptr;
    if (file_.facts_.compare_exchange_strong(published, mine.get(), std::memory_order_acq_rel))
      published = mine.release();
    else if (published->identity != found->identity)
      return changed_error(published->identity, found->identity);
    file_.slot_.pool->identify(file_.slot_.slot, published->identity);
    return {};
  }

  const RegularFile& file_;
};

RegularFile::~RegularFile() {
  if (slot_.pool) slot_.pool->close(slot_.slot);
  delete facts_.load(std::memory_order_relaxed);
}

Result<RegularFile::Facts> RegularFile::inspect(int descriptor, std::string_view path) {
  FileStatus status;
  if (status_of(descriptor, status) != 0) return system_error(Errc::open_failed, errno, "cannot open", path);
  if (!status.is_regular()) return irregular_error(status.kind, path);
  const Facts facts{status.identity, file_system_of(descriptor)};
  if (facts.file_system == FileSystem::kernel)
    return base::make_error(Errc::not_regular_file, "not a regular file but one that the kernel makes up (/proc, /sys)",
                            path);
  return facts;
}

// Sets the facts of a new file, which no other thread knows yet.
Status RegularFile::learn(int descriptor, std::string_view path) {
  const Result<Facts> facts = inspect(descriptor, path);
  if (!facts) return facts.error();
  size_ = facts->identity.size;
  facts_.store(new Facts(*facts), std::memory_order_release);
  return {};
}

const RegularFile::Facts& RegularFile::facts() const noexcept {
  static constexpr Facts kUnknown;
  const Facts* facts = facts_.load(std::memory_order_acquire);
  if (facts == nullptr && lease()) facts = facts_.load(std::memory_order_acquire);
  return facts == nullptr ? kUnknown : *facts;
}

Result<std::shared_ptr<const RegularFile>> RegularFile::open(std::string_view path, PoolSlot slot) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    if (path.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
    const std::string terminated(path);
    const OpenFirst opener(terminated);
    const std::shared_ptr<RegularFile> file(new RegularFile);
    if (slot.pool) {
      file->path_ = absolute_path(terminated);
      file->slot_ = std::move(slot);
      const Result<Lease> lease = file->slot_.pool->acquire(file->slot_.slot, opener);
      if (!lease) return lease.error();
      if (Status status = file->learn(lease->get(), path); !status) return std::move(status).error();
      file->slot_.pool->identify(file->slot_.slot, file->identity());
      return std::shared_ptr<const RegularFile>(file);
    }
    Result<Descriptor> descriptor = opener.open();
    if (!descriptor) return std::move(descriptor).error();
    file->descriptor_ = *std::move(descriptor);
    if (Status status = file->learn(file->descriptor_.get(), path); !status) return std::move(status).error();
    return std::shared_ptr<const RegularFile>(file);
  });
}

Result<std::shared_ptr<const RegularFile>> RegularFile::open_later(std::string_view path, std::uint64_t size,
                                                                   PoolSlot slot) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    if (path.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", path);
    const std::shared_ptr<RegularFile> file(new RegularFile);
    file->path_ = absolute_path(std::string(path));
    file->size_ = size;
    file->slot_ = std::move(slot);
    return std::shared_ptr<const RegularFile>(file);
  });
}

Result<std::shared_ptr<const RegularFile>> RegularFile::from_fd(int descriptor) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    const Readable allowed = readable(descriptor);
    if (allowed == Readable::unknown)
      return system_error(Errc::open_failed, errno, "cannot use descriptor " + std::to_string(descriptor));
    if (allowed == Readable::no)
      return base::make_error(Errc::open_failed,
                              "descriptor " + std::to_string(descriptor) + " is not open for reading");
    Descriptor copy(duplicate_for_reading(descriptor));
    if (!copy.valid())
      return system_error(Errc::open_failed, errno, "cannot duplicate descriptor " + std::to_string(descriptor));
    return take(std::move(copy));
  });
}

Result<std::shared_ptr<const RegularFile>> RegularFile::take(Descriptor descriptor) noexcept {
  return base::guarded([&]() -> Result<std::shared_ptr<const RegularFile>> {
    const std::shared_ptr<RegularFile> file(new RegularFile);
    file->descriptor_ = std::move(descriptor);
    if (Status status = file->learn(file->descriptor_.get(), {}); !status) return std::move(status).error();
    return std::shared_ptr<const RegularFile>(file);
  });
}

Result<Lease> RegularFile::lease() const noexcept {
  if (!slot_.pool) return Lease(descriptor_.get());
  return slot_.pool->acquire(slot_.slot, OpenLater(*this));
}

Result<std::size_t> RegularFile::read_at(std::uint64_t offset, std::span<std::byte> destination) const noexcept {
  if (destination.empty() || offset >= kMaxOffset) return std::size_t{0};
  std::size_t length = std::min(destination.size(), kMaxRead);
  length = static_cast<std::size_t>(std::min<std::uint64_t>(length, kMaxOffset - offset));
  // One lease per read, so that the pool can close the descriptor between two reads.
  Result<Lease> descriptor = lease();
  if (!descriptor) return std::move(descriptor).error();
  const std::ptrdiff_t count =
      retry([&] { return os::read_at(descriptor->get(), destination.data(), length, offset); });
  if (count >= 0) return static_cast<std::size_t>(count);
  const int error_number = errno;
  return base::guarded([&]() -> Result<std::size_t> { return read_error(error_number, length, offset); });
}

// While the pages of a private map are touched, the system reads ahead of the touches. Without the advice it reads only
// around each one and waits: 1 GiB took 1.7 s instead of 0.8 s with a window of 128 KiB. The advice has a price: if
// memory is short, the system takes back the pages of this map first. So a file that is cached gets none.
void RegularFile::advise_cold(int descriptor, std::uint64_t offset, std::span<std::byte> pages) const noexcept {
  constexpr double kMinCachedShare = 0.9;
  if (pages.size() < kHugePage || file_system() != FileSystem::local) return;
  if (cached_share(descriptor, offset, pages.size()).value_or(1.0) >= kMinCachedShare) return;
  (void)advise(pages, PageAdvice::sequential);
}

Result<Mapping> RegularFile::map(std::uint64_t offset, std::uint64_t size, MapMode mode) const noexcept {
  return base::guarded([&]() -> Result<Mapping> {
    if (size == 0) return Mapping{};
    const Result<Lease> descriptor = lease();
    if (!descriptor) return descriptor.error();
    FileStatus status;
    if (status_of(descriptor->get(), status) != 0) return system_error(Errc::map_failed, errno, "cannot map");
    // Compare with the size of the file now: an access past its end would raise SIGBUS.
    const std::uint64_t available = status.identity.size;
    if (offset > available || size > available - offset) {
      Error error =
          base::make_error(Errc::file_truncated, "file became shorter: " + std::to_string(size) + " bytes at byte " +
                                                     std::to_string(offset) + " were asked for, it now ends at byte " +
                                                     std::to_string(available));
      error.offset = available;
      return error;
    }
    const auto page = std::uint64_t{page_size()};
    // A map begins at a page boundary.
    const std::uint64_t skipped = offset % page;
    const std::uint64_t length = size + skipped;
    if (length > std::numeric_limits<std::ptrdiff_t>::max())
      return system_error(Errc::map_failed, ENOMEM, "cannot map " + std::to_string(size) + " bytes");
    void* const address = map_file(descriptor->get(), offset - skipped, static_cast<std::size_t>(length), mode);
    if (address == nullptr)
      return system_error(Errc::map_failed, errno,
                          "cannot map " + std::to_string(size) + " bytes at byte " + std::to_string(offset));
    Unmap unmap{address, static_cast<std::size_t>(length)};
    // If the allocation of its counter fails, the shared_ptr calls unmap itself. So the mapping does not leak.
    std::shared_ptr<const void> owner(address, unmap);
    if (mode == MapMode::copy_on_write)
      advise_cold(descriptor->get(), offset - skipped,
                  {static_cast<std::byte*>(address), static_cast<std::size_t>(length)});
    return Mapping{{static_cast<std::byte*>(address) + skipped, static_cast<std::size_t>(size)}, std::move(owner)};
  });
}

Status read_exactly(const Source& source, std::uint64_t offset, std::span<std::byte> destination,
                    base::Cancellation* cancellation) noexcept {
  std::size_t done = 0;
  while (done < destination.size()) {
    if (cancellation != nullptr && cancellation->requested()) return base::opening_cancelled();
    const std::span<std::byte> rest = destination.subspan(done);
    Result<std::size_t> count = source.read_at(offset + done, rest);
    if (!count) {
      Error error = std::move(count).error();
      if (error.code == Errc::ok) error.code = Errc::read_failed;  // A caller's Source may return any code.
      return error;
    }
    if (*count != 0 && *count <= rest.size()) {
      done += *count;
      continue;
    }
    return base::guarded([&]() -> Status {
      if (*count > rest.size())
        return base::make_error(Errc::read_failed, "source returned " + std::to_string(*count) + " bytes, " +
                                                       std::to_string(rest.size()) + " were asked for");
      Error error = base::make_error(Errc::file_truncated,
                                     "file became shorter: " + std::to_string(destination.size()) + " bytes at byte " +
                                         std::to_string(offset) + " were asked for, it now ends at byte " +
                                         std::to_string(offset + done));
      error.offset = offset + done;
      return error;
    });
  }
  return {};
}

}  // namespace safetensors::os
