// Lists directories with FindFirstFile(), and reads symlinks and mount points.
#include "os/directory.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/error.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system_error.h"
#include "os/windows/native.h"

#include <winioctl.h>

namespace safetensors::os {
namespace {

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

int visit_names(Descriptor directory, const std::function<bool(std::string_view)>& visit, bool& begun) {
  std::wstring folder = windows::path_of(windows::handle_of(directory.get()));
  if (folder.empty()) return errno;
  if (folder.ends_with(L'\\')) folder.pop_back();  // the root of a volume
  WIN32_FIND_DATAW entry{};
  const std::unique_ptr<void, decltype(&::FindClose)> search(
      ::FindFirstFileExW((folder + L"\\*").c_str(), FindExInfoBasic, &entry, FindExSearchNameMatch, nullptr,
                         FIND_FIRST_EX_LARGE_FETCH),
      ::FindClose);
  bool found = search.get() != INVALID_HANDLE_VALUE;
  begun = found;
  while (found && visit(windows::to_utf8(entry.cFileName))) found = ::FindNextFileW(search.get(), &entry) != 0;
  if (found) return 0;
  const DWORD error = ::GetLastError();
  if (error == ERROR_NO_MORE_FILES || error == ERROR_FILE_NOT_FOUND) return 0;  // the last, or a directory without one
  windows::fail(error);
  return errno;
}

int read_link_at(int directory, const char* name, std::string& target) {
  const auto path = windows::native_path(directory, name);
  if (!path) return -1;
  const windows::Handle link(windows::open_path(*path, FILE_READ_ATTRIBUTES, FILE_FLAG_OPEN_REPARSE_POINT));
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
  std::vector<std::string> paths;
  for (int descriptor = 0; descriptor < windows::kMaxDescriptors; ++descriptor) {
    const HANDLE handle = windows::handle_of(descriptor);
    if (handle == INVALID_HANDLE_VALUE || ::GetFileType(handle) != FILE_TYPE_DISK) continue;
    if (const std::wstring path = windows::path_of(handle); !path.empty()) paths.push_back(windows::to_utf8(path));
  }
  return paths;
}

}  // namespace safetensors::os
