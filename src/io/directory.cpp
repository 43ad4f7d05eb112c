#include "io/directory.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>

#include "io/system_error.h"

namespace safetensors::io {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

// Bytes of the character at the front of text; counted by the bytes that follow the first in UTF-8.
std::size_t character_size(std::string_view text) noexcept {
  std::size_t size = 1;
  while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
  return size;
}

struct Set {
  std::size_t size = kNone;  // of its text with both brackets; kNone: it is never closed
  bool contains = false;
};

// The set at the front of pattern.
Set match_set(std::string_view pattern, std::string_view character) noexcept {
  const auto take = [&pattern](std::size_t at) { return pattern.substr(at, character_size(pattern.substr(at))); };
  const bool negated = pattern.size() > 1 && (pattern[1] == '!' || pattern[1] == '^');
  const std::size_t first = negated ? 2 : 1;
  bool found = false;
  for (std::size_t at = first; at < pattern.size();) {
    if (pattern[at] == ']' && at != first) return {at + 1, found != negated};
    const std::string_view low = take(at);
    std::string_view high = low;
    at += low.size();
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      high = take(at + 1);
      at += 1 + high.size();
    }
    found = found || (low <= character && character <= high);
  }
  return {};
}

// How much of pattern takes the one character; kNone: it does not.
std::size_t match_character(std::string_view pattern, std::string_view character) noexcept {
  if (pattern.empty()) return kNone;
  if (pattern[0] == '?') return 1;
  if (pattern[0] == '[') {
    const Set set = match_set(pattern, character);
    if (set.size != kNone) return set.contains ? set.size : kNone;
  }
  const std::size_t escape = pattern[0] == '\\' && pattern.size() > 1 ? 1 : 0;
  return pattern.substr(escape).starts_with(character) ? escape + character.size() : kNone;
}

// The names that the next component adds to each of paths; last: nothing follows it.
std::vector<std::string> expand_component(const std::vector<std::string>& paths, std::string_view component) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (!is_pattern(component)) {
      std::string whole = path + std::string(component);
      if (kind_of(whole) != PathKind::nothing) found.push_back(std::move(whole));
      continue;
    }
    const Result<std::vector<std::string>> names = list_directory(path.empty() ? "." : path, true);
    if (!names) continue;
    for (const std::string& name : *names) {
      if (matches_pattern(component, name)) found.push_back(path + name);
    }
  }
  return found;
}

}  // namespace

PathKind kind_of(const std::string& path) noexcept {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0) return S_ISDIR(status.st_mode) ? PathKind::directory : PathKind::other;
  // A link that leads nowhere is a name.
  if (errno == ENOENT && ::lstat(path.c_str(), &status) != 0) return PathKind::nothing;
  return errno == ENOTDIR || errno == ENAMETOOLONG ? PathKind::nothing : PathKind::other;
}

Result<std::vector<std::string>> list_directory(const std::string& path, bool hidden) {
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(path.c_str()));
  if (!directory) return system_error(Errc::open_failed, errno, "cannot open", path);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* const entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name[0] != '.' || (hidden && name != "." && name != "..")) names.emplace_back(name);
  }
  if (errno != 0) return system_error(Errc::read_failed, errno, "cannot read the directory", path);
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

bool is_pattern(std::string_view text) noexcept {
  return text.find_first_of("*?[") != kNone;
}

bool matches_pattern(std::string_view pattern, std::string_view name) noexcept {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  // Where to go on after a mismatch: one character further behind the last star. Time: pattern x name.
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = kNone;
  std::size_t behind = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      behind = n;
      continue;
    }
    const std::string_view character = name.substr(n, character_size(name.substr(n)));
    if (const std::size_t taken = match_character(pattern.substr(p), character); taken != kNone) {
      p += taken;
      n += character.size();
      continue;
    }
    if (star == kNone) return false;
    p = star;
    behind += character_size(name.substr(behind));
    n = behind;
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

std::vector<std::string> expand_pattern(std::string_view pattern) {
  std::vector<std::string> paths{""};
  while (!pattern.empty() && !paths.empty()) {
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    const std::size_t next = std::min(pattern.find_first_not_of('/', end), pattern.size());
    if (end != 0) paths = expand_component(paths, pattern.substr(0, end));
    const std::string_view separators = pattern.substr(end, next - end);
    if (!separators.empty()) {
      for (std::string& path : paths) path += separators;
      std::erase_if(paths, [](const std::string& path) { return kind_of(path) != PathKind::directory; });
    }
    pattern.remove_prefix(next);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace safetensors::io
