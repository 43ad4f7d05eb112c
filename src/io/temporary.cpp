// Names and locks of temporary files, and the removal of those of killed writers.
//
// Names are random, so no writer waits for another. The lock is flock(), because the system releases it however a
// process ends. Unlike a lock of fcntl(), it belongs to the open file, so no other close() in the process releases it.
// FolderLock never blocks in the system, so a program that is stopped while it holds the lock delays others for ten
// minutes and not for ever.
//
// clean_directory() opens each temporary relative to the descriptor of its directory, so a directory that is replaced
// by a symlink meanwhile cannot lead elsewhere. It removes a temporary only while it holds the temporary's lock. A
// writer that has just created the file finds the lock taken and creates another file.
#include "io/temporary.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>
#include <utility>

#include "base/error.h"
#include "os/descriptor.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/path.h"
#include "os/process.h"
#include "os/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::string_view kPrefix = ".safetensors-";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kDigitCount = 16;

// The bits need not be secret, because the system detects a name in use when the file is made.
void append_random(std::string& out) {
  const std::uint64_t random = os::random_bits();
  for (std::size_t i = 0; i < kDigitCount; ++i) out += kDigits[random >> (4 * i) & 15];
}

bool all_digits(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return kDigits.find(c) != std::string_view::npos; });
}

std::int64_t last_change(const os::FileStatus& file) noexcept {
  return std::max(file.modified_seconds, file.identity.changed_seconds);
}

// Returns whether the folder of a writer has only files. changed: set to the time of the last change of any file, if
// that is later. Ignores files that it cannot examine.
bool has_only_files(int folder, std::int64_t& changed) {
  const Result<std::vector<std::string>> names = os::list_open_directory(folder, "");
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    os::FileStatus file;
    if (os::status_at(folder, name.c_str(), os::Symlinks::keep, file) != 0) continue;
    if (file.is_directory()) return false;
    changed = std::max(changed, last_change(file));
  }
  return true;
}

// The lock decides. Without locks the age decides, because a living writer changes its file from time to time.
bool is_stale(int file, std::int64_t changed, std::chrono::seconds min_age) {
  const TemporaryLock lock = lock_temporary(file);
  if (lock != TemporaryLock::unknown) return lock == TemporaryLock::taken;
  // A time can lie in the future: time() lags behind by up to one tick, and a server has its own clock.
  return std::max(std::int64_t{std::time(nullptr)} - changed, std::int64_t{0}) >= min_age.count();
}

// Runs while the lock is held, or after the age was checked. The folder of a killed writer holds only files. Returns
// false if the temporary is gone, because the writer has just put it in place, or if it cannot be removed.
bool remove_stale(int directory, const std::string& name, int file, const os::FileIdentity& identity) {
  os::FileStatus now;
  if (os::status_at(directory, name.c_str(), os::Symlinks::keep, now) != 0 || !now.identity.same_file(identity))
    return false;
  if (!now.is_directory()) return os::unlink_at(directory, name.c_str()) == 0;
  return remove_files(file, name) == 0 && os::remove_directory(directory, name.c_str()) == 0;
}

// Returns whether the name is that of a stale temporary. Also removes it, and returns whether that succeeded.
bool clean(int directory, const std::string& name, const CleanOptions& options) {
  os::FileStatus seen, opened;
  if (os::status_at(directory, name.c_str(), os::Symlinks::keep, seen) != 0) return false;
  if (!seen.is_regular() && !seen.is_directory()) return false;
  if (!is_temporary_name(name, seen.is_regular() ? kTemporaryFile : kTemporaryFolder)) return false;
  // The lock needs an open file, for reading or for writing.
  os::Descriptor file(os::open_at(directory, name.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  if (!file.valid() && errno == EACCES && seen.is_regular())
    file = os::Descriptor(os::open_at(directory, name.c_str(), os::OpenFlags::write | os::kDistrust, 0));
  if (!file.valid() || os::status_of(file.get(), opened) != 0 || !opened.identity.same_file(seen.identity))
    return false;
  std::int64_t changed = last_change(opened);
  if (opened.is_directory() && !has_only_files(file.get(), changed)) return false;
  if (!is_stale(file.get(), changed, options.min_age)) return false;
  return options.dry_run || remove_stale(directory, name, file.get(), opened.identity);
}

}  // namespace

std::string temporary_name(std::string_view end) {
  std::string name(kPrefix);
  append_random(name);
  return name.append(end);
}

bool is_temporary_name(std::string_view name, std::string_view end) noexcept {
  return name.size() == kPrefix.size() + kDigitCount + end.size() && name.starts_with(kPrefix) && name.ends_with(end) &&
         all_digits(name.substr(kPrefix.size(), kDigitCount));
}

int try_names(std::string_view end, const std::function<int(std::string& name)>& make) {
  constexpr int kMaxAttempts = 100;
  int result = EEXIST;
  for (int i = 0; i < kMaxAttempts && (result == EEXIST || result == EINTR || result == EBUSY); ++i) {
    std::string name = temporary_name(end);
    result = make(name);
  }
  return result;
}

std::string random_id() {
  std::string id;
  append_random(id);
  append_random(id);
  return id;
}

bool is_random_id(std::string_view text) noexcept {
  return text.size() == 2 * kDigitCount && all_digits(text);
}

TemporaryLock lock_temporary(int descriptor) noexcept {
  if (os::file_system_of(descriptor) != os::FileSystem::local) return TemporaryLock::unknown;
  if (os::retry([&] { return os::lock(descriptor); }) == 0) return TemporaryLock::taken;
  return errno == EWOULDBLOCK ? TemporaryLock::held : TemporaryLock::unknown;
}

bool keep_temporary(int descriptor) noexcept {
  if (lock_temporary(descriptor) == TemporaryLock::held) return false;
  os::FileStatus made;
  return os::status_of(descriptor, made) != 0 || made.links != 0;
}

Result<FolderLock> FolderLock::take(int folder, std::string_view path, int attempts) noexcept {
  constexpr std::chrono::milliseconds kWait(10);
  return base::guarded([&]() -> Result<FolderLock> {
    for (int i = 0; i < attempts; ++i) {
      const TemporaryLock lock = lock_temporary(folder);
      if (lock != TemporaryLock::held) return FolderLock(lock == TemporaryLock::taken ? folder : -1);
      std::this_thread::sleep_for(kWait);
    }
    return os::system_error(Errc::replace_failed, EWOULDBLOCK, "another writer is changing the files of the folder",
                            path);
  });
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) (void)os::unlock(folder_);
}

Result<std::vector<std::string>> clean_directory(std::string_view directory, const CleanOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::vector<std::string>> {
    if (directory.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", directory);
    const std::string path = os::generic_path(directory);
    const os::Descriptor opened(os::open_at(os::kWorkingDirectory, path.c_str(), os::kOpenDirectory, 0));
    if (!opened.valid()) return os::system_error(Errc::open_failed, errno, "cannot open", path);
    const auto is_ours = [](std::string_view name) {
      return is_temporary_name(name) || is_temporary_name(name, kTemporaryFolder);
    };
    Result<std::vector<std::string>> names =
        os::list_names(os::Descriptor(os::duplicate(opened.get())), path, is_ours, options.max_names);
    if (!names) return names;
    std::erase_if(*names, [&](const std::string& name) { return !clean(opened.get(), name, options); });
    for (std::string& name : *names) name = os::join_path(path, name);
    return names;
  });
}

void remove_orphans(const std::string& directory, std::size_t max_names) noexcept {
  // Without locks, the age proves little: a slow writer may have finished one of its files long ago.
  const CleanOptions options{.min_age = std::chrono::seconds::max(), .max_names = max_names};
  (void)clean_directory(directory.empty() ? std::string_view(".") : directory, options);
}

int remove_files(int directory, const std::string& path) {
  const Result<std::vector<std::string>> names = os::list_open_directory(directory, path);
  if (!names) return names.error().os_error;
  for (const std::string& name : *names) {
    if (os::unlink_at(directory, name.c_str()) != 0 && errno != ENOENT) return errno;
  }
  return 0;
}

}  // namespace safetensors::io
