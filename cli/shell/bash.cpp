// The completion script of bash. It needs bash 4 and no other package. Bash separates words at =, so --sort=size is
// three words. The script evaluates no word of the user and no name: candidates come from the table, from compgen and
// from the command itself, one per line. Readline quotes the names of files, and the script quotes other names.
#include "help_parts.h"
#include "shells.h"
#include "text/formatted.h"

namespace safetensors::cli {
namespace {

const char* bash_kind(Values values) {
  switch (values) {
    case Values::path:
      return "path";
    case Values::folder:
      return "folder";
    case Values::model:
      return "model";
    default:
      return candidate_kind(values) != nullptr ? candidate_kind(values) : "any";
  }
}

constexpr std::string_view kBashBegin = R"(# bash completion for safetensors, made by: safetensors completions bash

# Sets kind and words: which values an option takes. An empty kind: none.
_safetensors_value() {
  kind='' words=''
  case $1 in
)";

constexpr std::string_view kBashArguments = R"(  esac
}

# The same for the argument of a command with this index.
_safetensors_argument() {
  kind='' words=''
  case $1 in
)";

constexpr std::string_view kBashOptions = R"(  esac
}

# Sets words: the options of a command.
_safetensors_options() {
  words=''
  case $1 in
)";

constexpr std::string_view kBashEnd = R"(  esac
}

# Adds the paths that begin with the word. For the kind model, adds folders and model files, or all files if there is no model file.
_safetensors_paths() {
  local action=-f file found=() some=() models=''
  if [[ $kind == folder ]]; then action=-d; fi
  # Without the quotes of the user: readline adds quotes to candidates again.
  case $word in
    \'* | \"*) word=${word:1} ;;
    *) word=${word//\\/} ;;
  esac
  compopt -o filenames 2>/dev/null
  mapfile -t found < <(compgen "$action" -- "$word")
  if [[ $kind == model ]]; then
    for file in "${found[@]}"; do
      case $file in
        *.safetensors | *.index.json) models=1 some+=("$file") ;;
        *) if [[ -d ${file/#\~\//$HOME/} ]]; then some+=("$file"); fi ;;
      esac
    done
    if [[ -n $models ]]; then found=("${some[@]}"); fi
  fi
  COMPREPLY=("${found[@]/#/$prefix}")
}

# Offers the candidates that the command finds in the model on the command line. The command unquotes the words, and prints one
# candidate per line. This function quotes the candidates: readline does not quote $ and ` in words that are no file names, and the
# shell would then run them.
_safetensors_candidates() {
  local sq="'\\''" bang="\"'!'\""
  local found=()
  mapfile -t found < <(command safetensors __complete "$kind" "$word" "${COMP_WORDS[@]:2}" 2>/dev/null)
  if ((${#found[@]} == 0)); then return; fi
  case $word in
    \'*) found=("${found[@]//\'/$sq}") ;;
    \"*)
      found=("${found[@]//\\/\\\\}")
      found=("${found[@]//\"/\\\"}")
      found=("${found[@]//\$/\\\$}")
      found=("${found[@]//\`/\\\`}")
      found=("${found[@]//!/$bang}")
      ;;
    *) mapfile -t found < <(printf '%q\n' "${found[@]}") ;;
  esac
  COMPREPLY=("${found[@]/#/$prefix}")
}

_safetensors() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} prefix='' kind='' words='' option='' dashes='' count=0
  local i given
  COMPREPLY=()
  for ((i = 2; i < COMP_CWORD; i++)); do
    given=${COMP_WORDS[i]}
    if [[ -n $option && $given == = ]]; then
      continue
    elif [[ -n $option ]]; then
      option=''
    elif [[ -z $dashes && $given == -- ]]; then
      dashes=1
    elif [[ -z $dashes && $given == -?* ]]; then
      _safetensors_value "$command $given"
      if [[ -n $kind ]]; then option=$given; fi
    else
      count=$((count + 1))
    fi
  done
  if [[ -n $option && $word == = ]]; then
    word=''
  elif [[ -z $option && -z $dashes && $word == --*=* ]]; then
    option=${word%%=*}
    prefix=$option=
    word=${word#*=}
  fi
  if ((COMP_CWORD == 1)); then
    _safetensors_argument 'safetensors 0'
  elif [[ -n $option ]]; then
    _safetensors_value "$command $option"
  elif [[ -z $dashes && $word == -* ]]; then
    kind=words
    _safetensors_options "$command"
  else
    _safetensors_argument "$command $count"
  fi
  case $kind in
    words) mapfile -t COMPREPLY < <(compgen -P "$prefix" -W "$words" -- "$word") ;;
    path | folder | model) _safetensors_paths ;;
    names | patterns | keys | dtypes | casts | codes) _safetensors_candidates ;;
  esac
}

complete -F _safetensors safetensors
)";

std::string bash_value(const Command& command, const Option& option) {
  if (option.value == nullptr) return "";
  std::string names = formatted("'{} --{}'", command.name, option_name(option));
  if (option_letter(option) != '\0') names += formatted(" | '{} -{}'", command.name, option_letter(option));
  const std::string words = choice_words(option);
  return formatted("    {}) kind={}{} ;;\n", names, words.empty() ? bash_kind(option.values) : "words",
                   words.empty() ? "" : formatted(" words='{}'", words));
}

std::string bash_argument(const Command& command) {
  const std::string words = first_words(command);
  std::string lines;
  if (!words.empty()) lines = formatted("    '{} 0') kind=words words='{}' ;;\n", command.name, words);
  if (!command.after_model)
    return lines + formatted("    '{} '*) kind={} ;;\n", command.name, bash_kind(command.arguments));
  lines += formatted("    '{} {}') kind={} ;;\n", command.name, words.empty() ? 0 : 1, bash_kind(command.arguments));
  return lines + formatted("    '{} '*) kind={} ;;\n", command.name, bash_kind(*command.after_model));
}

std::string bash_options(const Command& command) {
  std::string names;
  for (const Option& option : options_and_help(command)) {
    if (!names.empty()) names += ' ';
    if (option_letter(option) != '\0') names += formatted("-{} ", option_letter(option));
    names += formatted("--{}", option_name(option));
  }
  return formatted("    {}) words='{}' ;;\n", command.name, names);
}

}  // namespace

std::string bash_completions() {
  std::string names;
  for (const std::string_view name : command_names()) (names += name) += ' ';
  std::string script(kBashBegin);
  for (const Command* command : all_commands()) {
    for (const Option& option : command->options) script += bash_value(*command, option);
  }
  script += kBashArguments;
  script += formatted("    'safetensors 0') kind=words words='{}help --help --version' ;;\n", names);
  for (const Command* command : all_commands()) script += bash_argument(*command);
  script += formatted("    'help 0') kind=words words='{}' ;;\n", names.substr(0, names.size() - 1));
  script += kBashOptions;
  for (const Command* command : all_commands()) script += bash_options(*command);
  return script += kBashEnd;
}

}  // namespace safetensors::cli
