// Reads directories with readdir(), and symlinks with readlinkat().
#include "os/directory.h"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

namespace safetensors::os {
namespace {

DIR* stream_of(void* handle) noexcept {
  return static_cast<DIR*>(handle);
}

}  // namespace

DirectoryStream::DirectoryStream(int descriptor) noexcept : handle_(::fdopendir(descriptor)) {}

DirectoryStream::DirectoryStream(const char* path) noexcept : handle_(::opendir(path)) {}

DirectoryStream::~DirectoryStream() {
  if (handle_ != nullptr) ::closedir(stream_of(handle_));
}

int DirectoryStream::descriptor() const noexcept {
  return ::dirfd(stream_of(handle_));
}

const char* DirectoryStream::next() noexcept {
  errno = 0;  // readdir() returns null at the end and on errors. Only errno tells them apart.
  const dirent* const entry = ::readdir(stream_of(handle_));
  return entry == nullptr ? nullptr : entry->d_name;
}

int read_link_at(int directory, const char* name, std::string& target) {
  target.resize(PATH_MAX);
  const ssize_t length = ::readlinkat(directory, name, target.data(), target.size());
  if (length < 0) return -1;
  target.resize(static_cast<std::size_t>(length));
  return 0;
}

}  // namespace safetensors::os
