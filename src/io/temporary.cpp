// Names and locks of temporary files.
//
// Names are random, so no writer waits for another. The lock is flock(), because the system releases it however a
// process ends. Unlike a lock of fcntl(), it belongs to the open file, so no other close() in the process releases it.
#include "io/temporary.h"

#include <algorithm>
#include <cerrno>

#include "os/process.h"
#include "os/system_error.h"

namespace safetensors::io {
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

TemporaryLock lock_temporary(int descriptor, os::System& system) noexcept {
  if (system.file_system(descriptor) != os::FileSystem::local) return TemporaryLock::unknown;
  if (os::retry([&] { return system.lock(descriptor); }) == 0) return TemporaryLock::taken;
  return errno == EWOULDBLOCK ? TemporaryLock::held : TemporaryLock::unknown;
}

}  // namespace safetensors::io
