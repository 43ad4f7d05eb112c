// Reads /proc/meminfo and the limits of the control groups, version 2. Each group above a group may limit it, too, so
// the smallest number of remaining bytes decides. The usage of a group includes its part of the page cache, which the
// system drops when the group needs memory.
#include "os/available_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "os/descriptor.h"

namespace safetensors::os {
namespace {

constexpr std::string_view kFileKeys[] = {"inactive_file ", "active_file "};  // of memory.stat

// Returns an empty text if the file cannot be read. Longer files are cut.
std::string read_text(const std::string& path) {
  constexpr std::size_t kMaxBytes = std::size_t{32} << 10;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(file.valid() ? kMaxBytes : 0, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + size, text.size() - size);
    if (count <= 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  return text;
}

std::optional<std::uint64_t> number(std::string_view text) noexcept {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::uint64_t value = 0;
  const std::from_chars_result end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc()) return std::nullopt;
  return value;
}

// The number behind a key that begins a line.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view key) noexcept {
  for (std::size_t line = 0; line < text.size();) {
    if (text.substr(line).starts_with(key)) return number(text.substr(line + key.size()));
    const std::size_t end = text.find('\n', line);
    if (end == std::string_view::npos) break;
    line = end + 1;
  }
  return std::nullopt;
}

std::uint64_t room_in(const std::string& folder) {
  return detail::room_of({read_text(folder + "/memory.max"), read_text(folder + "/memory.current"),
                          read_text(folder + "/memory.stat")})
      .value_or(~std::uint64_t{0});
}

}  // namespace

std::optional<std::uint64_t> detail::available_of(std::string_view meminfo) noexcept {
  const std::optional<std::uint64_t> kibibytes = number_after(meminfo, "MemAvailable:");
  if (!kibibytes || *kibibytes > ~std::uint64_t{0} >> 10) return std::nullopt;
  return *kibibytes << 10;
}

std::optional<std::uint64_t> detail::room_of(const GroupTexts& group) noexcept {
  const std::optional<std::uint64_t> limit = number(group.limit);
  const std::optional<std::uint64_t> usage = number(group.usage);
  if (!limit || !usage) return std::nullopt;
  std::uint64_t files = 0;
  for (const std::string_view key : kFileKeys)
    files += std::min(number_after(group.statistics, key).value_or(0), *usage - files);
  return *limit - std::min(*usage - files, *limit);
}

// The line looks like "0::/user.slice".
std::optional<std::string_view> detail::group_of(std::string_view text) noexcept {
  constexpr std::string_view kBegin = "0::";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with(kBegin)) return line.substr(kBegin.size());
  }
  return std::nullopt;
}

// A process in a container may see a path that its own /sys does not have. Then the root, which is in every walk, is
// the group of the container.
std::optional<std::uint64_t> available_memory() {
  const std::optional<std::uint64_t> machine = detail::available_of(read_text("/proc/meminfo"));
  if (!machine) return std::nullopt;
  std::uint64_t bytes = *machine;
  const std::string groups = read_text("/proc/self/cgroup");
  const std::optional<std::string_view> group = detail::group_of(groups);
  if (!group) return bytes;
  const std::string root = "/sys/fs/cgroup";
  for (std::string_view path = *group == "/" ? std::string_view() : *group; !path.empty();) {
    bytes = std::min(bytes, room_in(root + std::string(path)));
    path = path.substr(0, path.find_last_of('/') == std::string_view::npos ? 0 : path.find_last_of('/'));
  }
  return std::min(bytes, room_in(root));
}

}  // namespace safetensors::os
