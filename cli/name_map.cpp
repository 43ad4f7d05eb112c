// Reads a list of names, and compares it with the names of the input.
#include "name_map.h"

#include "text/text.h"

#include <algorithm>
#include <set>

namespace safetensors::cli {

Status read_name_map(const std::string& path, NameMap& names) {
  const Result<std::string> text = read_text(path, "names");
  if (!text) return text.error();
  const auto fail = [&](std::size_t line, const char* what) {
    return fault(Errc::invalid_argument, formatted("line {}: {}", line, what), path);
  };
  std::string_view rest = *text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    std::string_view one = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    if (one.ends_with('\r')) one.remove_suffix(1);
    if (one.empty()) continue;
    const std::size_t tab = one.find('\t');
    if (tab == std::string_view::npos || one.find('\t', tab + 1) != std::string_view::npos)
      return fail(line, "expected OLD, a tab and NEW");
    if (!names.emplace(one.substr(0, tab), one.substr(tab + 1)).second)
      return fail(line, "an earlier line has the same OLD");
  }
  return {};
}

Status check_name_map(const Input& input, const std::string& input_path, const std::string& path,
                      const NameMap& names) {
  std::set<std::string_view> known;
  for (const Listed& listed : input.tensors()) known.insert(listed.info->name);
  for (const auto& [old, renamed] : names) {
    if (!known.contains(old))
      return fault(Errc::not_found,
                   formatted("`{}` is not a tensor of {}", printable(old), printable(shown_path(input_path))), path);
  }
  return {};
}

}  // namespace safetensors::cli
