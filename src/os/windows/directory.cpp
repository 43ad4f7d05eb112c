// Lists directories with FindFirstFile(), and reads symlinks and mount points.
#include "os/directory.h"

#include <winioctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/error.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system_error.h"
#include "os/windows/native.h"

namespace safetensors::os {
namespace {

struct Listing {
  int descriptor = -1;
  HANDLE search = INVALID_HANDLE_VALUE;
  WIN32_FIND_DATAW entry{};
  bool first = true;
  std::string name;

  ~Listing() {
    if (search != INVALID_HANDLE_VALUE) (void)::FindClose(search);
    if (descriptor >= 0) (void)windows::close_descriptor(descriptor);
  }
};

Listing* listing_of(void* handle) noexcept {
  return static_cast<Listing*>(handle);
}

// Begins to list an open directory. After a failure, the caller still owns the descriptor.
void* begin(int descriptor) noexcept {
  try {
    const HANDLE handle = windows::handle_of(descriptor);
    if (handle == INVALID_HANDLE_VALUE) return nullptr;
    std::wstring folder = windows::path_of(handle);
    if (folder.empty()) return nullptr;
    if (folder.ends_with(L'\\')) folder.pop_back();  // the root of a volume
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

// Returns the target in the bytes of a symlink or a mount point. The headers of Windows declare no structure for them.
// Empty: the bytes are invalid.
std::wstring target_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kFields = 8;  // behind the tag and the size: four numbers of 16 bits
  constexpr std::size_t kTextOfLink = 20, kTextOfMountPoint = 16;
  ULONG tag = 0;
  struct {
    std::uint16_t offset, size, printed_offset, printed_size;
  } fields;
  if (bytes.size() < kTextOfLink) return {};
  std::memcpy(&tag, bytes.data(), sizeof tag);
  std::memcpy(&fields, bytes.data() + kFields, sizeof fields);
  const std::span<const std::byte> texts =
      bytes.subspan(tag == IO_REPARSE_TAG_SYMLINK ? kTextOfLink : kTextOfMountPoint);
  const bool printed = fields.printed_size != 0;  // the text that users see, such as `C:\x` and not `\??\C:\x`
  const std::size_t offset = printed ? fields.printed_offset : fields.offset;
  const std::size_t size = printed ? fields.printed_size : fields.size;
  if (offset > texts.size() || size > texts.size() - offset) return {};
  std::wstring target(size / sizeof(wchar_t), L'\0');
  std::memcpy(target.data(), texts.data() + offset, target.size() * sizeof(wchar_t));
  if (target.starts_with(L"\\??\\")) target[1] = L'\\';
  return target;
}

}  // namespace

DirectoryStream::DirectoryStream(int descriptor) noexcept : handle_(begin(descriptor)) {}

DirectoryStream::DirectoryStream(const char* path) noexcept : handle_(nullptr) {
  const int descriptor = open_at(kWorkingDirectory, path, kOpenDirectory);
  if (descriptor < 0) return;
  handle_ = begin(descriptor);
  if (handle_ != nullptr) return;
  const int error_number = errno;
  (void)windows::close_descriptor(descriptor);
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
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  const windows::Handle link(::CreateFileW(path->c_str(), FILE_READ_ATTRIBUTES, windows::kShareAll, nullptr,
                                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT,
                                           nullptr));
  if (!link.valid()) return windows::fail();
  if (windows::link_tag(link.get()) == 0) return windows::fail(ERROR_NOT_A_REPARSE_POINT);
  const auto bytes = std::make_unique<std::byte[]>(MAXIMUM_REPARSE_DATA_BUFFER_SIZE);
  DWORD size = 0;
  if (!::DeviceIoControl(link.get(), FSCTL_GET_REPARSE_POINT, nullptr, 0, bytes.get(), MAXIMUM_REPARSE_DATA_BUFFER_SIZE,
                         &size, nullptr))
    return windows::fail();
  const std::wstring found = target_of({bytes.get(), size});
  if (found.empty()) return windows::fail(ERROR_INVALID_FUNCTION);
  target = windows::to_utf8(found);
  return 0;
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
