// A directory for one test, and functions that look at its files.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>
#include <safetensors/error.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/directory.h"

namespace safetensors::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_((std::filesystem::temp_directory_path() / "safetensors-test-XXXXXX").generic_string()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Names in the directory, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return std::move(bytes).str();
}

inline void put(const std::string& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(stream.flush()) << path;
}

inline mode_t mode_of(const std::string& path) {
  struct stat status;
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & mode_t{07777};
}

inline ino_t inode_of(const std::string& path) {
  struct stat status;
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_ino;
}

// Forks a child for result_of(). A child that hangs is killed after one minute.
inline pid_t start_child(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  // Nothing thrown may leave: the child would go on with the tests.
  if (child == 0)
    [&]() noexcept {
      ::alarm(60);
      ::_exit(check() ? 0 : 1);
    }();
  return child;
}

// 0 when the check was true, 1 when it was false, or what it gave to _exit(); 1000 + the signal that killed it.
inline int result_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

inline int in_child(const std::function<bool()>& check) {
  return result_of(start_child(check));
}

// Descriptors of this process that lead below path.
inline std::size_t open_below(const std::string& path) {
  const auto open = os::paths_of_open_files();
  EXPECT_TRUE(open.ok());
  return static_cast<std::size_t>(std::count_if(open->begin(), open->end(), [&](const std::string& each) {
    std::error_code no_link;
    const std::string target = std::filesystem::read_symlink(each, no_link).string();
    return (no_link ? each : target).starts_with(path);
  }));
}

// Pseudorandom bytes: no two ranges of them are equal.
inline std::string noise(std::size_t size, std::uint64_t seed = 0) {
  std::string bytes(size, '\0');
  std::uint64_t state = 88172645463325252U ^ seed * 0x9E3779B97F4A7C15U;
  for (std::size_t i = 0; i < size; i += 8) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::memcpy(bytes.data() + i, &state, std::min<std::size_t>(8, size - i));
  }
  return bytes;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Returns the bytes of an Array, also of a temporary one.
template <class Memory>
std::string data_of(const Memory& memory) {
  return text_of(memory.bytes());
}

// The error of something that must have failed.
template <class Outcome>
Error error_of(const Outcome& outcome) {
  EXPECT_FALSE(outcome.ok());
  return outcome.ok() ? Error{} : outcome.error();
}

// Fails with the error's text.
template <class Outcome>
testing::AssertionResult succeeds(const Outcome& outcome) {
  if (outcome.ok()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << to_string(outcome.error().code) << ": " << outcome.error().to_string();
}

}  // namespace safetensors::test
