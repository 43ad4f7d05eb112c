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
#include <optional>
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

namespace safetensors {
namespace io {
namespace {

constexpr std::string_view kPrefix = ".safetensors-";
constexpr std::string_view kFileSuffix = ".tmp";
constexpr std::string_view kFolderSuffix = ".folder";
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

std::string random_name(std::string_view suffix) {
  std::string name(kPrefix);
  append_random(name);
  return name.append(suffix);
}

bool is_random_name(std::string_view name, std::string_view suffix) noexcept {
  if (name.size() != kPrefix.size() + kDigitCount + suffix.size()) return false;
  if (!name.starts_with(kPrefix) || !name.ends_with(suffix)) return false;
  return all_digits(name.substr(kPrefix.size(), kDigitCount));
}

// The files in the folder of a writer.
struct Contents {
  bool only_files = true;
  std::uint64_t size = 0;    // sum, in bytes
  std::int64_t changed = 0;  // seconds since 1970: time of the last change of any file
};

// Skips what it cannot examine.
Contents contents_of(int folder) {
  Contents contents;
  const Result<std::vector<std::string>> names = os::list_open_directory(folder, "");
  for (const std::string& name : names ? *names : std::vector<std::string>()) {
    os::FileStatus file;
    if (os::status_at(folder, name.c_str(), os::Symlinks::keep, file) != 0) continue;
    contents.only_files = contents.only_files && !file.is_directory();
    contents.size += file.identity.size;
    contents.changed = std::max({contents.changed, file.modified_seconds, file.identity.changed_seconds});
  }
  return contents;
}

// Reports a temporary that stays because of an error.
Temporary failed(Temporary found, Error error) {
  found.state = TemporaryState::failed;
  error.path = found.path;
  found.error = std::move(error);
  return found;
}

// The lock decides. Without locks the age decides, because a living writer changes its file from time to time.
TemporaryState state_of(int file, std::chrono::seconds min_age) {
  switch (lock_temporary(file)) {
    case TemporaryLock::taken:
      return TemporaryState::stale;
    case TemporaryLock::held:
      return TemporaryState::in_use;
    case TemporaryLock::unknown:
      break;
  }
  os::FileStatus status;
  if (os::status_of(file, status) != 0) return TemporaryState::recent;
  std::int64_t changed = std::max(status.modified_seconds, status.identity.changed_seconds);
  if (status.is_directory()) changed = std::max(changed, contents_of(file).changed);
  // A time can lie in the future: time() lags behind by up to one tick, and a server has its own clock.
  const std::int64_t age = std::max(std::int64_t{std::time(nullptr)} - changed, std::int64_t{0});
  return age >= min_age.count() ? TemporaryState::stale : TemporaryState::recent;
}

// Runs while the lock is held, or after the age was checked. The folder of a killed writer holds only files. Returns
// nothing if the temporary is gone.
std::optional<Temporary> remove_stale(int directory, const std::string& name, int file,
                                      const os::FileIdentity& identity, Temporary found) {
  os::FileStatus now;
  if (os::status_at(directory, name.c_str(), os::Symlinks::keep, now) != 0 || !now.identity.same_file(identity))
    return std::nullopt;  // The writer has just put the file in place.
  int error_number = now.is_directory() ? remove_files(file, found.path) : 0;
  if (error_number == 0) {
    const int removed =
        now.is_directory() ? os::remove_directory(directory, name.c_str()) : os::unlink_at(directory, name.c_str());
    if (removed != 0) error_number = errno;
  }
  if (error_number == ENOENT) return std::nullopt;
  if (error_number != 0)
    return failed(std::move(found), os::system_error(Errc::write_failed, error_number, "cannot remove"));
  found.state = TemporaryState::removed;
  return found;
}

// Returns nothing if the name is not that of a temporary, or if its writer has finished.
std::optional<Temporary> clean(int directory, const std::string& name, const std::string& path,
                               const CleanOptions& options) {
  os::FileStatus seen, opened;
  if (os::status_at(directory, name.c_str(), os::Symlinks::keep, seen) != 0) return std::nullopt;
  if (seen.is_regular() ? !is_temporary_name(name) : !seen.is_directory() || !is_temporary_folder_name(name))
    return std::nullopt;
  Temporary found{.path = os::join_path(path, name), .size = seen.identity.size};
  // The lock needs an open file, for reading or for writing.
  os::Descriptor file(os::open_at(directory, name.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  if (!file.valid() && errno == EACCES && seen.is_regular())
    file = os::Descriptor(os::open_at(directory, name.c_str(), os::OpenFlags::write | os::kDistrust, 0));
  if (!file.valid() || os::status_of(file.get(), opened) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return failed(std::move(found), os::system_error(Errc::open_failed, errno, "cannot open"));
  }
  if (!opened.identity.same_file(seen.identity)) return std::nullopt;
  if (opened.is_directory()) {
    const Contents contents = contents_of(file.get());
    found.size = contents.size;
    if (!contents.only_files)
      return failed(std::move(found), base::make_error(Errc::write_failed, "a folder in it was not made by a writer"));
  }
  found.state = state_of(file.get(), options.min_age);
  if (found.state == TemporaryState::stale && !options.dry_run)
    return remove_stale(directory, name, file.get(), opened.identity, std::move(found));
  return found;
}

}  // namespace

std::string temporary_name() {
  return random_name(kFileSuffix);
}

std::string temporary_folder_name() {
  return random_name(kFolderSuffix);
}

bool is_temporary_name(std::string_view name) noexcept {
  return is_random_name(name, kFileSuffix);
}

bool is_temporary_folder_name(std::string_view name) noexcept {
  return is_random_name(name, kFolderSuffix);
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
      switch (lock_temporary(folder)) {
        case TemporaryLock::taken:
          return FolderLock(folder);
        case TemporaryLock::unknown:
          return FolderLock(-1);
        case TemporaryLock::held:
          std::this_thread::sleep_for(kWait);
      }
    }
    return os::system_error(Errc::replace_failed, EWOULDBLOCK, "another writer is changing the files of the folder",
                            path);
  });
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) (void)os::unlock(folder_);
}

Result<std::vector<Temporary>> clean_directory(std::string_view directory, const CleanOptions& options,
                                               std::size_t max_names) noexcept {
  return base::guarded([&]() -> Result<std::vector<Temporary>> {
    if (directory.find('\0') != std::string_view::npos)
      return base::make_error(Errc::invalid_argument, "path contains a zero byte", directory);
    const std::string path = os::generic_path(directory);
    const os::Descriptor opened(os::open_at(os::kWorkingDirectory, path.c_str(), os::kOpenDirectory, 0));
    if (!opened.valid()) return os::system_error(Errc::open_failed, errno, "cannot open", path);
    const auto is_ours = [](std::string_view name) {
      return is_temporary_name(name) || is_temporary_folder_name(name);
    };
    const Result<std::vector<std::string>> names =
        os::list_names(os::Descriptor(os::duplicate(opened.get())), path, is_ours, max_names);
    if (!names) return names.error();
    std::vector<Temporary> all;
    for (const std::string& name : *names) {
      if (std::optional<Temporary> found = clean(opened.get(), name, path, options)) all.push_back(*std::move(found));
    }
    return all;
  });
}

void remove_orphans(const std::string& directory, std::size_t max_names) noexcept {
  (void)base::guarded([&]() -> Status {
    // Without locks, the age proves little: a slow writer may have finished one of its files long ago.
    const CleanOptions options{.min_age = std::chrono::seconds::max()};
    const auto cleaned = clean_directory(directory.empty() ? "." : directory, options, max_names);
    return cleaned ? Status() : Status(cleaned.error());
  });
}

int remove_files(int directory, const std::string& path) {
  const Result<std::vector<std::string>> names = os::list_open_directory(directory, path);
  if (!names) return names.error().os_error;
  for (const std::string& name : *names) {
    if (os::unlink_at(directory, name.c_str()) != 0 && errno != ENOENT) return errno;
  }
  return 0;
}

}  // namespace io
}  // namespace safetensors
