// A system whose calls fail when the test says so, and a directory in which a file is replaced.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "io/atomic_file.h"
#include "os/file_status.h"
#include "support/io_support.h"

namespace safetensors::test {

using io::AtomicFile;
using io::AtomicFileOptions;
using io::Sync;
using Names = std::vector<std::string>;

// The system, with failures to order. Counts the calls. Writes may come from several threads.
class FaultySystem final : public os::System {
 public:
  int open_errno = 0, write_errno = 0, copy_errno = 0, preallocate_errno = 0, writeback_errno = 0;
  int file_sync_errno = 0, directory_sync_errno = 0, file_system_sync_errno = 0;
  int close_errno = 0, mode_errno = 0, owner_errno = 0, rename_errno = 0;
  std::size_t longest_write = ~std::size_t{0};
  int interruptions = 0;    // so many writes and copies say EINTR first
  int name_collisions = 0;  // so many temporaries are said to exist already
  int writes_before_failure = 0, renames_before_failure = 0;
  int file_syncs = 0, directory_syncs = 0, file_system_syncs = 0, preallocations = 0, writebacks = 0, renames = 0;
  int copies = 0;  // by the system
  int direct_open_errno = 0, direct_write_errno = 0;
  int direct_writes_before_failure = 0, direct_writes = 0;
  std::size_t longest_direct_report = ~std::size_t{0};  // what a direct write says at most, having written all
  std::optional<os::DirectAlignment> alignment;
  int alignment_errno = 0;
  std::vector<std::string> opened;
  std::set<std::thread::id> writers;
  int most_at_once = 0;  // writes
  std::function<void()> before_rename = [] {};
  std::function<void()> before_link = [] {};
  int unnamed_errno = 0;   // of making a file without a name
  int truncate_errno = 0;  // of opening a file to overwrite it
  int link_errno = 0, links_before_failure = 0, links = 0;
  int lock_errno = 0, locks_before_success = 1'000'000;  // so many locks fail
  int duplicate_errno = 0;
  bool no_proc = false;
  os::FileSystem kind = os::FileSystem::local;

  int open_at(int directory, const char* name, os::OpenFlags flags, std::uint32_t permissions) noexcept override {
    opened.emplace_back(name);
    if (has(flags, os::OpenFlags::direct) && direct_open_errno != 0) return fail(direct_open_errno);
    if (open_errno != 0) return fail(open_errno);
    if (has(flags, os::OpenFlags::unnamed) && unnamed_errno != 0) return fail(unnamed_errno);
    if (has(flags, os::OpenFlags::truncate) && !has(flags, os::OpenFlags::only_new) && truncate_errno != 0)
      return fail(truncate_errno);
    if (name_collisions > 0 && has(flags, os::OpenFlags::create)) return --name_collisions, fail(EEXIST);
    const int descriptor = System::open_at(directory, name, flags, permissions);
    if (descriptor >= 0 && has(flags, os::OpenFlags::direct)) note_direct(descriptor, true);
    return descriptor;
  }
  int close(int descriptor) noexcept override {
    note_direct(descriptor, false);
    const int result = System::close(descriptor);
    return close_errno != 0 ? fail(close_errno) : result;
  }
  std::ptrdiff_t write_at(int descriptor, const void* bytes, std::size_t size, std::uint64_t offset) noexcept override {
    const bool direct = is_direct(descriptor);
    if (const int number = order(direct); number != 0) return fail(number);
    count_at_once(1);
    const std::ptrdiff_t count = System::write_at(descriptor, bytes, std::min(size, longest_write), offset);
    count_at_once(-1);
    return direct ? std::min(count, static_cast<std::ptrdiff_t>(std::min(longest_direct_report, size))) : count;
  }
  int direct_alignment(int descriptor, os::DirectAlignment& found) noexcept override {
    if (alignment_errno != 0) return fail(alignment_errno);
    if (!alignment) return System::direct_alignment(descriptor, found);
    found = *alignment;
    return 0;
  }
  std::ptrdiff_t copy_range(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset,
                            std::size_t size) noexcept override {
    ++copies;
    if (interruptions > 0) return --interruptions, fail(EINTR);
    if (copy_errno != 0) return fail(copy_errno);
    return System::copy_range(from, from_offset, to, to_offset, std::min(size, longest_write));
  }
  int preallocate(int descriptor, std::uint64_t size) noexcept override {
    ++preallocations;
    return preallocate_errno != 0 ? fail(preallocate_errno) : System::preallocate(descriptor, size);
  }
  int start_writeback(int descriptor) noexcept override {
    const std::lock_guard lock(mutex_);
    ++writebacks;
    return writeback_errno != 0 ? fail(writeback_errno) : System::start_writeback(descriptor);
  }
  int sync(int descriptor) noexcept override {
    os::FileStatus status;
    const bool directory = os::status_of(descriptor, status) == 0 && status.is_directory();
    std::unique_lock lock(mutex_);
    ++(directory ? directory_syncs : file_syncs);
    lock.unlock();
    const int number = directory ? directory_sync_errno : file_sync_errno;
    return number != 0 ? fail(number) : System::sync(descriptor);
  }
  int sync_file_system(int) noexcept override {
    ++file_system_syncs;
    return file_system_sync_errno != 0 ? fail(file_system_sync_errno) : 0;
  }
  int change_mode(int descriptor, std::uint32_t permissions) noexcept override {
    return mode_errno != 0 ? fail(mode_errno) : System::change_mode(descriptor, permissions);
  }
  int change_owner(int descriptor, std::uint32_t user, std::uint32_t group) noexcept override {
    return owner_errno != 0 ? fail(owner_errno) : System::change_owner(descriptor, user, group);
  }
  int rename_at(int directory, const char* from, const char* to) noexcept override {
    ++renames;
    before_rename();
    if (rename_errno != 0 && renames_before_failure-- <= 0) return fail(rename_errno);
    return System::rename_at(directory, from, to);
  }
  int link_at(int descriptor, int directory, const char* name) noexcept override {
    ++links;
    before_link();
    if (link_errno != 0 && links_before_failure-- <= 0) return fail(link_errno);
    return System::link_at(descriptor, directory, name);
  }
  bool linkable(int descriptor) noexcept override { return !no_proc && System::linkable(descriptor); }
  int duplicate(int descriptor) noexcept override {
    return duplicate_errno != 0 ? fail(duplicate_errno) : System::duplicate(descriptor);
  }
  int lock(int descriptor) noexcept override {
    if (lock_errno != 0 && locks_before_success-- > 0) return fail(lock_errno);
    return System::lock(descriptor);
  }
  os::FileSystem file_system(int descriptor) noexcept override {
    return kind != os::FileSystem::local ? kind : System::file_system(descriptor);
  }

 private:
  // The error number of the next write; 0: the write succeeds.
  int order(bool direct) noexcept {
    const std::lock_guard lock(mutex_);
    writers.insert(std::this_thread::get_id());
    if (direct) ++direct_writes;
    if (interruptions > 0) return --interruptions, EINTR;
    if (write_errno != 0 && writes_before_failure-- <= 0) return write_errno;
    if (direct && direct_write_errno != 0 && direct_writes_before_failure-- <= 0) return direct_write_errno;
    return 0;
  }

  void note_direct(int descriptor, bool direct) {
    const std::lock_guard lock(mutex_);
    if (direct)
      direct_.insert(descriptor);
    else
      direct_.erase(descriptor);
  }
  bool is_direct(int descriptor) {
    const std::lock_guard lock(mutex_);
    return direct_.count(descriptor) != 0;
  }

  void count_at_once(int change) noexcept {
    const std::lock_guard lock(mutex_);
    at_once_ += change;
    most_at_once = std::max(most_at_once, at_once_);
  }

  std::mutex mutex_;
  std::set<int> direct_;  // descriptors that bypass the page cache
  int at_once_ = 0;
  static int fail(int number) noexcept {
    errno = number;
    return -1;
  }
};

inline Status replace(const std::string& path, std::string_view text, os::System& system,
                      const AtomicFileOptions& options = {}) {
  auto file = AtomicFile::create(path, text.size(), options, system);
  if (!file) return file.error();
  if (Status status = (*file)->write_at(0, bytes_of(text)); !status) return status;
  return (*file)->commit();
}

inline Status replace(const std::string& path, std::string_view text, const AtomicFileOptions& options = {}) {
  return replace(path, text, os::real_system(), options);
}

class AtomicFileTest : public testing::Test {
 protected:
  const TemporaryDirectory directory;
  const std::string path = directory / "model";
  FaultySystem system;

  // After an error before the rename: the old file, and nothing beside it.
  void expect_untouched(ino_t inode) const {
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(inode_of(path), inode);
    EXPECT_EQ(directory.names(), Names{"model"});
  }
  Error expect_failure(const AtomicFileOptions& options = {}) {
    put(path, "old");
    const ino_t inode = inode_of(path);
    const Error error = error_of(replace(path, "new", system, options));
    expect_untouched(inode);
    EXPECT_EQ(error.path, path);
    return error;
  }
};

// Writes half of a new file in a child. Calls check() while the child holds the file, then kills the child.
inline void kill_while_writing(
    const std::string& path, const std::function<void()>& check = [] {}) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = start_child([&] {
    auto file = AtomicFile::create(path, 6, {}).value();
    if (file->write_at(0, bytes_of("new")) && ::write(ends[1], "x", 1) == 1) ::pause();
    return false;
  });
  char written = 0;
  ASSERT_EQ(::read(ends[0], &written, 1), 1);
  check();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(result_of(child), 1000 + SIGKILL);
  ::close(ends[0]), ::close(ends[1]);
}

}  // namespace safetensors::test
