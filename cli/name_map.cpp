// Reads a list of names with stdio, at most 256 MiB of it. Asks before it opens whether the path is a file, because a
// FIFO without a writer never opens.
#include "name_map.h"

#include "text/text.h"

#include "os/file_status.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <set>

namespace safetensors::cli {

Status read_name_map(const std::string& path, NameMap& names) {
  constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
  const auto fail = [&](Errc code, std::string message, int error_number = 0) {
    return Error{.code = code, .os_error = error_number, .path = path, .message = std::move(message)};
  };
  os::FileStatus there;
  if (os::status_of_path(path.c_str(), os::Symlinks::follow, there) != 0)
    return fail(Errc::open_failed, "cannot open: " + system_text(errno), errno);
  if (!there.is_regular()) return fail(Errc::not_regular_file, "not a regular file: save the names to a file first");
  if (there.identity.size > kMaxBytes) return fail(Errc::invalid_argument, "more than 256 MiB of names");
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  if (!file) return fail(Errc::open_failed, "cannot open: " + system_text(errno), errno);
  std::string text;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, got);
    if (text.size() > kMaxBytes) return fail(Errc::invalid_argument, "more than 256 MiB of names");
  }
  if (std::ferror(file.get()) != 0) return fail(Errc::read_failed, "cannot read: " + system_text(errno), errno);
  std::string_view rest = text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    std::string_view one = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.empty()) continue;
    const std::size_t tab = one.find('\t');
    if (tab == std::string_view::npos || one.find('\t', tab + 1) != std::string_view::npos)
      return fail(Errc::invalid_argument, formatted("line {}: expected OLD, a tab and NEW", line));
    if (!names.emplace(one.substr(0, tab), one.substr(tab + 1)).second)
      return fail(Errc::invalid_argument, formatted("line {}: an earlier line has the same OLD", line));
  }
  return {};
}

Status check_name_map(const Input& input, const std::string& input_path, const std::string& path,
                      const NameMap& names) {
  std::set<std::string_view> known;
  for (const Listed& listed : input.tensors()) known.insert(listed.info->name);
  for (const auto& [old, renamed] : names) {
    if (!known.contains(old))
      return Error{
          .code = Errc::not_found,
          .path = path,
          .message = formatted("`{}` is not a tensor of {}", printable(old), printable(shown_path(input_path)))};
  }
  return {};
}

}  // namespace safetensors::cli
