// The door to a system that is not there: every call on files fails with ENOSYS, "not implemented by the system". A
// program reads from memory and from Sources of its own, on the thread that calls.
#include "os/system.h"

#include <cerrno>
#include <cstring>

#include "os/descriptor.h"
#include "os/directory.h"
#include "os/dynamic_library.h"
#include "os/file_status.h"
#include "os/path.h"

namespace safetensors::os {
namespace {

int fail() noexcept {
  errno = ENOSYS;
  return -1;
}

}  // namespace

const int kWorkingDirectory = -100;

int open_at(int, const char*, OpenFlags, std::uint32_t) noexcept {
  return fail();
}

std::ptrdiff_t read_at(int, void*, std::size_t, std::uint64_t) noexcept {
  return fail();
}

Readable readable(int) noexcept {
  errno = ENOSYS;
  return Readable::unknown;
}

int duplicate_for_reading(int) noexcept {
  return fail();
}

std::string generic_path(std::string_view path) {
  return std::string(path);
}

bool is_absolute(std::string_view path) noexcept {
  return path.starts_with('/');
}

std::string without_end_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string name_key(std::string_view name) {
  return std::string(name);
}

std::string absolute_path(const std::string& path) {
  return path;
}

void Descriptor::reset() noexcept {
  descriptor_ = -1;
}

int status_of(int, FileStatus&) noexcept {
  return fail();
}

int status_at(int, const char*, Symlinks, FileStatus&) noexcept {
  return fail();
}

int status_of_path(const char*, Symlinks, FileStatus&) noexcept {
  return fail();
}

FileSystem file_system_of(int) noexcept {
  return FileSystem::local;
}

bool on_local_device(int) noexcept {
  return false;
}

DirectoryStream::DirectoryStream(int) noexcept : handle_(nullptr) {
  errno = ENOSYS;
}

DirectoryStream::DirectoryStream(const char*) noexcept : handle_(nullptr) {
  errno = ENOSYS;
}

DirectoryStream::~DirectoryStream() = default;

int DirectoryStream::descriptor() const noexcept {
  return -1;
}

const char* DirectoryStream::next() noexcept {
  errno = ENOSYS;
  return nullptr;
}

int read_link_at(int, const char*, std::string&) {
  return fail();
}

Result<std::vector<std::string>> paths_of_open_files() {
  return list_directory(".");  // the error
}

DynamicLibrary::DynamicLibrary(const char*) noexcept : handle_(nullptr) {}

DynamicLibrary::~DynamicLibrary() = default;

void* DynamicLibrary::find(const char*) const noexcept {
  return nullptr;
}

const char* DynamicLibrary::last_error() noexcept {
  return "this build has no operating system";
}

const bool DescriptorPath::kLeadsToSameFile = false;

DescriptorPath::DescriptorPath(int) noexcept {
  std::memset(text, 0, sizeof text);  // no file has this name
}

int System::open_at(int, const char*, OpenFlags, std::uint32_t) noexcept {
  return fail();
}

int System::close(int) noexcept {
  return fail();
}

std::ptrdiff_t System::write_at(int, const void*, std::size_t, std::uint64_t) noexcept {
  return fail();
}

std::ptrdiff_t System::read_at(int, void*, std::size_t, std::uint64_t) noexcept {
  return fail();
}

std::ptrdiff_t System::copy_range(int, std::uint64_t, int, std::uint64_t, std::size_t) noexcept {
  return fail();
}

int System::direct_alignment(int, DirectAlignment&) noexcept {
  return fail();
}

int System::preallocate(int, std::uint64_t) noexcept {
  return fail();
}

int System::start_writeback(int) noexcept {
  return fail();
}

int System::sync(int) noexcept {
  return fail();
}

int System::sync_file_system(int) noexcept {
  return fail();
}

int System::change_mode(int, std::uint32_t) noexcept {
  return fail();
}

int System::change_owner(int, std::uint32_t, std::uint32_t) noexcept {
  return fail();
}

int System::rename_at(int, const char*, const char*) noexcept {
  return fail();
}

int System::unlink_at(int, const char*) noexcept {
  return fail();
}

int System::make_directory(int, const char*, std::uint32_t) noexcept {
  return fail();
}

int System::remove_directory(int, const char*) noexcept {
  return fail();
}

int System::rename_new(int, const char*, const char*) noexcept {
  return fail();
}

int System::link_at(int, int, const char*) noexcept {
  return fail();
}

bool System::linkable(int) noexcept {
  return false;
}

int System::duplicate(int) noexcept {
  return fail();
}

int System::lock(int) noexcept {
  return fail();
}

int System::unlock(int) noexcept {
  return fail();
}

}  // namespace safetensors::os
