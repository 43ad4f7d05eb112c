// Both options may be given several times. --exclude wins over --match.
#include "selection.h"

#include "base/glob.h"
#include "text/formatted.h"

#include <safetensors/error.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

bool any_matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::ranges::any_of(globs, [&](const std::string& glob) { return base::glob_match(glob, name); });
}

}  // namespace

void Selection::bind(Arguments& arguments) {
  arguments.values("match", match);
  arguments.values("exclude", exclude);
}

bool Selection::selects(std::string_view name) const {
  return (match.empty() || any_matches(match, name)) && !any_matches(exclude, name);
}

std::string Selection::hint() const {
  for (const std::string& glob : match) {
    if (std::string hint = pattern_hint(glob); !hint.empty()) return hint;
  }
  return {};
}

std::string pattern_hint(std::string_view glob) {
  if (glob.empty() || glob.find_first_of("*?[") != std::string_view::npos) return {};
  return formatted(" (a pattern is for the whole name: try '*{}*')", printable(glob));
}

}  // namespace safetensors::cli
