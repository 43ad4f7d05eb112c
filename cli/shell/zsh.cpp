// The completion script of zsh: a call of _arguments per command. It can be a file of $fpath, or be sourced.
#include "help_parts.h"
#include "shells.h"
#include "text/formatted.h"

namespace safetensors::cli {
namespace {

constexpr std::string_view kZshBegin = R"zsh(#compdef safetensors
# zsh completion for safetensors, made by: safetensors completions zsh

# Model files and folders, or all files if there is no model file.
_safetensors_models() {
  _files -g '*.(safetensors|index.json)(-.)'
}

# Offers the candidates that the command finds in the model on the command line. The command unquotes the words, and prints one
# candidate per line. zsh quotes the candidates.
_safetensors_candidates() {
  local -a found
  found=("${(@f)$(command safetensors __complete "$1" "$PREFIX" "${(@)words[2,-1]}" 2>/dev/null)}")
  found=("${(@)found:#}")
  (( $#found )) && compadd -a found
}

_safetensors_commands() {
  local -a commands
  commands=(
)zsh";

constexpr std::string_view kZshMiddle = R"zsh(  )
  _describe -t commands command commands
}

_safetensors() {
  local curcontext="$curcontext" context state state_descr line
  typeset -A opt_args
  _arguments -C \
    '(- *)'{-h,--help}'[show a help text]' \
    '(- *)--version[show the version]' \
    '1:command:->command' \
    '*::argument:->argument'
  case $state in
    command)
      _safetensors_commands
      return
      ;;
  esac
  case $words[1] in
)zsh";

constexpr std::string_view kZshEnd = R"zsh(    help)
      _arguments -S '1:command:_safetensors_commands'
      ;;
  esac
}

# A file of $fpath is the body of the function. Otherwise, the file is sourced.
if [[ $funcstack[1] == _safetensors ]]; then
  _safetensors "$@"
else
  compdef _safetensors safetensors
fi
)zsh";

// A text inside of a specification: the characters with a meaning there have a backslash.
std::string zsh_text(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_quoted(std::string_view text) {
  return single_quoted(text, "'\\''");
}

std::string zsh_action(Values values) {
  if (const char* const kind = candidate_kind(values)) return formatted(" _safetensors_candidates {}", kind);
  switch (values) {
    case Values::path:
      return "_files";
    case Values::folder:
      return "_files -/";
    case Values::model:
      return "_safetensors_models";
    default:
      return " ";  // a value without candidates
  }
}

std::string zsh_option(const Command& command, const Option& option) {
  std::string rest = formatted("[{}]", zsh_text(brief(command, option), "[]\\"));
  if (option.value != nullptr) {
    const std::string words = choice_words(option);
    rest += formatted(":{}:{}", option.value, words.empty() ? zsh_action(option.values) : formatted("({})", words));
  }
  const std::string name = formatted("--{}{}", option_name(option), option.value == nullptr ? "" : "=");
  if (option_letter(option) == '\0') return zsh_quoted("*" + name + rest);
  return formatted("'*'{{-{}{},{}}}{}", option_letter(option), option.value == nullptr ? "" : "+", name,
                   zsh_quoted(rest));
}

std::string zsh_command(const Command& command) {
  std::string lines = formatted("    {})\n      _arguments -s -S", command.name);
  for (const Option& option : options_and_help(command)) lines += " \\\n        " + zsh_option(command, option);
  if (takes_command(command)) {
    lines += " \\\n        '1:command:_safetensors_commands'";
  } else if (command.words != nullptr) {
    lines += formatted(" \\\n        '1:argument:({})'", first_words(command));
  }
  if (command.after_model) {
    lines += formatted(" \\\n        '{}:path:{}'", command.words != nullptr ? 2 : 1, zsh_action(command.arguments));
    lines += formatted(" \\\n        '*:name:{}'", zsh_action(*command.after_model));
  } else if (command.arguments != Values::any) {
    lines += formatted(" \\\n        '*:path:{}'", zsh_action(command.arguments));
  }
  return lines + "\n      ;;\n";
}

}  // namespace

std::string zsh_completions() {
  std::string script(kZshBegin);
  for (const Command* command : all_commands()) {
    const std::string text = zsh_text(command->summary, ":\\");
    script += formatted("    {}\n", zsh_quoted(formatted("{}:{}", command->name, text)));
  }
  script += "    'help:show the help text of a command'\n";
  script += kZshMiddle;
  for (const Command* command : all_commands()) script += zsh_command(*command);
  return script += kZshEnd;
}

}  // namespace safetensors::cli
