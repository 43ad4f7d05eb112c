// Lists directories with FindFirstFile(), and resolves symlinks with the path of the file behind them.
#include "os/directory.h"

#include <io.h>

#include <cerrno>
#include <memory>
#include <new>

#include "base/error.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

struct Listing {
  int descriptor = -1;
  bool owned = true;
  HANDLE search = INVALID_HANDLE_VALUE;
  WIN32_FIND_DATAW entry{};
  bool first = true;
  std::string name;

  ~Listing() {
    if (search != INVALID_HANDLE_VALUE) (void)::FindClose(search);
    if (descriptor >= 0 && owned) (void)::_close(descriptor);
  }
};

Listing* listing_of(void* handle) noexcept {
  return static_cast<Listing*>(handle);
}

// Begins to list an open directory. After a failure, the caller still owns the descriptor.
void* begin(int descriptor) noexcept {
  try {
    const std::wstring folder = windows::path_of(windows::handle_of(descriptor));
    if (folder.empty()) return nullptr;
    auto listing = std::make_unique<Listing>();
    listing->search = ::FindFirstFileExW((folder + L"\\*").c_str(), FindExInfoBasic, &listing->entry,
                                         FindExSearchNameMatch, nullptr, FIND_FIRST_EX_LARGE_FETCH);
    if (listing->search == INVALID_HANDLE_VALUE && ::GetLastError() != ERROR_FILE_NOT_FOUND) {
      windows::fail();
      return nullptr;
    }
    listing->descriptor = descriptor;
    return listing.release();
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
}

}  // namespace

DirectoryStream::DirectoryStream(int descriptor) noexcept : handle_(begin(descriptor)) {}

DirectoryStream::DirectoryStream(const char* path) noexcept : handle_(nullptr) {
  const int descriptor = open_at(kWorkingDirectory, path, kOpenDirectory);
  if (descriptor < 0) return;
  handle_ = begin(descriptor);
  if (handle_ != nullptr) return;
  const int error_number = errno;
  (void)::_close(descriptor);
  errno = error_number;
}

DirectoryStream::~DirectoryStream() {
  delete listing_of(handle_);
}

int DirectoryStream::descriptor() const noexcept {
  return listing_of(handle_)->descriptor;
}

const char* DirectoryStream::next() noexcept {
  Listing& listing = *listing_of(handle_);
  errno = 0;
  if (listing.search == INVALID_HANDLE_VALUE) return nullptr;  // the directory has no entry
  if (!listing.first && !::FindNextFileW(listing.search, &listing.entry)) {
    if (::GetLastError() != ERROR_NO_MORE_FILES) windows::fail();
    return nullptr;
  }
  listing.first = false;
  try {
    listing.name = windows::to_utf8(listing.entry.cFileName);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  errno = 0;
  return listing.name.c_str();
}

int read_link_at(int directory, const char* name, std::string& target) {
  FileStatus status;
  if (status_at(directory, name, Symlinks::keep, status) != 0) return -1;
  if (!status.is_symlink()) {
    errno = EINVAL;
    return -1;
  }
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  const windows::Handle handle(::CreateFileW(path->c_str(), FILE_READ_ATTRIBUTES, windows::kShareAll, nullptr,
                                             OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr));
  if (!handle.valid()) return windows::fail();
  target = windows::to_utf8(windows::path_of(handle.get()));
  return target.empty() ? -1 : 0;
}

// Knows only the descriptors of the C library, which all files of this library have.
Result<std::vector<std::string>> paths_of_open_files() {
  constexpr int kMostDescriptors = 8192;  // of the universal C library
  std::vector<std::string> paths;
  for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
    const HANDLE handle = windows::handle_of(descriptor);
    if (handle == INVALID_HANDLE_VALUE || ::GetFileType(handle) != FILE_TYPE_DISK) continue;
    if (const std::wstring path = windows::path_of(handle); !path.empty()) paths.push_back(windows::to_utf8(path));
  }
  return paths;
}

}  // namespace safetensors::os
