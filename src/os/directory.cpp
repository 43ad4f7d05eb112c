// Lists directories and expands patterns such as `models/*/*.safetensors`.
//
// expand_pattern() goes component by component and keeps the list of paths that match until now. It lists a directory
// only for a component with wildcards. Results are sorted, because the order of readdir() is arbitrary.
#include "os/directory.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/glob.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system_error.h"

namespace safetensors::os {
namespace {

// Returns whether an error means that a pattern has no match in a directory. Every other error is reported, because it
// could hide files that match. only: no other directory can have a match.
bool means_no_match(int error_number, bool only) noexcept {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP || error_number == ENAMETOOLONG ||
         (!only && (error_number == EACCES || error_number == EPERM));
}

// Appends the next component to each of the paths, and returns the results that exist.
Result<std::vector<std::string>> expand_component(const std::vector<std::string>& paths, std::string_view component) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (!base::is_glob(component)) {
      std::string whole = path + std::string(component);
      if (kind_of(whole) != PathKind::nothing) found.push_back(std::move(whole));
      continue;
    }
    Result<std::vector<std::string>> names = list_directory(path.empty() ? "." : path, true);
    if (!names && means_no_match(names.error().os_error, paths.size() == 1)) continue;
    if (!names) return names;
    for (const std::string& name : *names) {
      const bool shown = !name.starts_with('.') || component.starts_with('.');
      if (shown && base::glob_match(component, name)) found.push_back(path + name);
    }
  }
  return found;
}

}  // namespace

PathKind kind_of(const std::string& path) noexcept {
  FileStatus status;
  if (status_of_path(path.c_str(), Symlinks::follow, status) == 0)
    return status.is_directory() ? PathKind::directory : PathKind::other;
  // A dangling symlink is an existing name.
  if (errno == ENOENT && status_of_path(path.c_str(), Symlinks::keep, status) != 0) return PathKind::nothing;
  return errno == ENOTDIR || errno == ENAMETOOLONG ? PathKind::nothing : PathKind::other;
}

Result<std::vector<std::string>> list_names(Descriptor directory, const std::string& path,
                                            const std::function<bool(std::string_view)>& keep, std::size_t max_names) {
  std::vector<std::string> names;
  const auto visit = [&](std::string_view name) {
    if (max_names-- == 0) return false;
    if (name != "." && name != ".." && keep(name)) names.emplace_back(name);
    return true;
  };
  bool begun = false;
  const int error_number = directory.valid() ? visit_names(std::move(directory), visit, begun) : errno;
  if (error_number != 0 && begun)
    return system_error(Errc::read_failed, error_number, "cannot read the directory", path);
  if (error_number != 0)
    return system_error(error_number == ENOMEM ? Errc::out_of_memory : Errc::open_failed, error_number, "cannot open",
                        path);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::vector<std::string>> list_directory(const std::string& path, bool hidden) {
  Descriptor opened(retry([&] { return open_at(kWorkingDirectory, path.c_str(), kOpenDirectory); }));
  return list_names(std::move(opened), path, [&](std::string_view name) { return hidden || name[0] != '.'; });
}

Result<std::vector<std::string>> list_open_directory(int descriptor, const std::string& path) {
  // Another open file, so that no other reader of the descriptor moves its position.
  Descriptor opened(retry([&] { return open_at(descriptor, ".", kOpenDirectory); }));
  return list_names(std::move(opened), path, [](std::string_view) { return true; });
}

std::string join_path(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

Result<std::vector<std::string>> expand_pattern(std::string_view pattern) {
  std::vector<std::string> paths{""};
  while (!pattern.empty() && !paths.empty()) {
    const std::size_t end = std::min(pattern.find('/'), pattern.size());
    const std::size_t next = std::min(pattern.find_first_not_of('/', end), pattern.size());
    if (end != 0) {
      Result<std::vector<std::string>> expanded = expand_component(paths, pattern.substr(0, end));
      if (!expanded) return expanded;
      paths = *std::move(expanded);
    }
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

}  // namespace safetensors::os
