// The completion script of fish: a `complete` per command, option and argument. Predicates look at the second word of
// the command line, because a later word may be the name of a command, too: `safetensors meta ls`.
#include "help_parts.h"
#include "shells.h"
#include "text/formatted.h"

namespace safetensors::cli {
namespace {

constexpr std::string_view kFishBegin = R"fish(# fish completion for safetensors, made by: safetensors completions fish

# Whether the command line has no command yet.
function __safetensors_no_command
    test (count (commandline -opc)) -eq 1
end

# Whether the command is one of the arguments.
function __safetensors_is
    set -l given (commandline -opc)
    test (count $given) -ge 2; and contains -- $given[2] $argv
end

# Whether the next word is the first argument of this command.
function __safetensors_first
    set -l given (commandline -opc)
    test (count $given) -eq 2; and test $given[2] = $argv[1]
end

# Returns 0 if one of the arguments is an existing path.
function __safetensors_has_model
    set -l given (commandline -opc)
    for word in $given[3..-1]
        test -e "$word"; and return 0
    end
    return 1
end

# Prints the candidates that the command finds in the model on the command line, one per line.
function __safetensors_candidates
    set -l given (commandline -opc)
    command safetensors __complete $argv[1] (commandline -ct) $given[3..-1] 2>/dev/null
end

# Model files and folders, then other files.
function __safetensors_models
    __fish_complete_suffix .safetensors
end

complete -c safetensors -f
complete -c safetensors -n __safetensors_no_command -s h -l help -d 'show a help text'
complete -c safetensors -n __safetensors_no_command -l version -d 'show the version'
complete -c safetensors -n __safetensors_no_command -a help -d 'show the help text of a command'
)fish";

std::string fish_quoted(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') escaped += '\\';
    escaped += c;
  }
  return single_quoted(escaped, "\\'");
}

// The arguments of `complete` for values.
std::string fish_values(Values values, const std::string& words) {
  if (!words.empty()) return formatted(" -a {}", fish_quoted(words));
  if (const char* const kind = candidate_kind(values)) return formatted(" -a '(__safetensors_candidates {})'", kind);
  switch (values) {
    case Values::path:
      return " -F";
    case Values::folder:
      return " -a '(__fish_complete_directories)'";
    case Values::model:
      return " -a '(__safetensors_models)'";
    default:
      return "";
  }
}

std::string fish_option(const Command& command, const Option& option) {
  std::string line = formatted("complete -c safetensors -n '__safetensors_is {}'", command.name);
  if (option_letter(option) != '\0') line += formatted(" -s {}", option_letter(option));
  line += formatted(" -l {}", option_name(option));
  if (option.value != nullptr) {
    line += option.values == Values::path && option.choices == nullptr ? " -r" : " -x";
    line += fish_values(option.values, choice_words(option));
  }
  return line + formatted(" -d {}\n", fish_quoted(brief(command, option)));
}

std::string fish_command(const Command& command) {
  std::string lines = formatted("\ncomplete -c safetensors -n __safetensors_no_command -a {} -d {}\n", command.name,
                                fish_quoted(command.summary));
  for (const Option& option : options_and_help(command)) lines += fish_option(command, option);
  const std::string words = first_words(command);
  if (!words.empty()) {
    lines += formatted("complete -c safetensors -n '__safetensors_first {}' -a {}\n", command.name, fish_quoted(words));
  }
  std::string but_first = words.empty() ? "" : formatted("; and not __safetensors_first {}", command.name);
  if (command.after_model) {
    lines += formatted("complete -c safetensors -n '__safetensors_is {}; and __safetensors_has_model' -k{}\n",
                       command.name, fish_values(*command.after_model, ""));
    but_first += "; and not __safetensors_has_model";
  }
  if (command.arguments != Values::any) {
    lines += formatted("complete -c safetensors -n '__safetensors_is {}{}' -k{}\n", command.name, but_first,
                       fish_values(command.arguments, ""));
  }
  return lines;
}

}  // namespace

std::string fish_completions() {
  std::string script(kFishBegin);
  std::string names;
  for (const std::string_view name : command_names()) (names += names.empty() ? "" : " ") += name;
  for (const Command* command : all_commands()) script += fish_command(*command);
  return script += formatted("\ncomplete -c safetensors -n '__safetensors_first help' -a {}\n", fish_quoted(names));
}

}  // namespace safetensors::cli
