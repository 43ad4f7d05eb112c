// Rules about texts that the package shares with the command: patterns of names, paths, sizes.
#include "base/byte_size.h"
#include "base/glob.h"
#include "module.h"
#include "signals.h"

namespace safetensors::python {
namespace {

nb::list matching(nb::handle pattern, nb::handle names) {
  nb::list found;
  const std::optional<std::string_view> glob = to_name(pattern, "pattern");
  if (!glob) return found;
  std::size_t round = 0;
  for (const nb::handle name : nb::iter(names)) {
    check_signals(round++);
    const std::optional<std::string_view> text = to_name(name, "names");
    if (text && base::glob_match(*glob, *text)) found.append(name);
  }
  return found;
}

nb::object size_digits(nb::handle text) {
  const std::optional<std::string_view> utf8 = to_name(text, "text");
  const std::optional<std::string> digits = utf8 ? base::size_digits(*utf8) : std::nullopt;
  return digits ? to_str(*digits) : nb::none();
}

}  // namespace

void define_texts(nb::module_& module) {
  module.def(
      "_is_pattern",
      [](nb::handle text) {
        const std::optional<std::string_view> utf8 = to_name(text, "text");
        return utf8 && base::is_glob(*utf8);
      },
      nb::arg("text").none(), "Whether the text holds `*`, `?` or `[`.");
  module.def("_matching", &matching, nb::arg("pattern").none(), nb::arg("names").none(),
             "The names that the pattern matches, in their order. Patterns are those of the command.");
  module.def(
      "_path_text",
      [](nb::handle path, const std::string& argument, const std::string& expected) {
        return from_path(to_path(path, argument, expected));
      },
      nb::arg("path").none(), nb::arg("argument"), nb::arg("expected"),
      "The str of a path. Raises TypeError, which names the argument and what was expected, or ValueError.");
  module.def("_size_digits", &size_digits, nb::arg("text").none(),
             "The decimal digits of the bytes that a text such as \"1.5GB\" stands for, or None.");
}

}  // namespace safetensors::python
