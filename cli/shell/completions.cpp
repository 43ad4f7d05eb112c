// The subcommand completions: prints the script that completes command lines in a shell. The scripts know no command
// and no option. They run the hidden verb __complete (complete.cpp).
#include "arguments.h"
#include "command.h"
#include "json_output.h"

namespace safetensors::cli {
namespace {

// It needs bash 4 and no other package. Bash separates words at =, so --sort=size is three words. The script evaluates
// no word of the user. Readline quotes the names of files.
constexpr std::string_view kBash = R"bash(# bash completion for safetensors, made by: safetensors completions bash
_safetensors() {
  local word=${COMP_WORDS[COMP_CWORD]} prefix='' kind='' found=() some=() models='' file
  mapfile -t found < <(command safetensors __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  kind=${found[0]} found=("${found[@]:1}")
  if [[ $word == --*=* ]]; then prefix=${word%%=*}= word=${word#*=}; fi
  case $kind in
    words) found=("${found[@]%%$'\t'*}") ;;
    path | model)
      # For a model: folders and model files, or all files if there is no model file.
      # Without the quotes of the user: readline adds quotes to candidates again.
      case $word in
        \'* | \"*) word=${word:1} ;;
        *) word=${word//\\/} ;;
      esac
      compopt -o filenames 2>/dev/null
      mapfile -t found < <(compgen -f -- "$word")
      for file in "${found[@]}"; do
        if [[ $file == *.safetensors || $file == *.safetensors.*json ]]; then models=1 some+=("$file"); fi
        if [[ -d ${file/#\~\//$HOME/} ]]; then some+=("$file"); fi
      done
      if [[ $kind == model && -n $models ]]; then found=("${some[@]}"); fi
      ;;
  esac
  COMPREPLY=("${found[@]/#/$prefix}")
}
complete -F _safetensors safetensors
)bash";

// It can be a file of $fpath, or be sourced.
constexpr std::string_view kZsh = R"zsh(#compdef safetensors
# zsh completion for safetensors, made by: safetensors completions zsh
_safetensors() {
  local -a found texts
  found=("${(@f)$(command safetensors __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  local kind=$found[1]
  found=("${(@)found[2,-1]}")
  if [[ $PREFIX == --*=* ]]; then compset -P '--*='; fi
  case $kind in
    path) _files ;;
    model) _files -g '*.safetensors(|.*json)(-.)' ;;
    words)
      texts=("${(@)found/$'\t'/  -- }")
      found=("${(@)found%%$'\t'*}")
      if (( $#found )); then compadd -l -d texts -a found; fi
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

constexpr std::string_view kFish = R"fish(# fish completion for safetensors, made by: safetensors completions fish
function __safetensors_complete
    set -l word (commandline -ct)
    set -l prefix (string match -r -- '^--[^=]*=' "$word")
    set -l typed (string replace -- "$prefix" '' "$word")
    set -l given (commandline -opc)
    set -l found (command safetensors __complete $given[2..-1] "$word" 2>/dev/null)
    switch "$found[1]"
        case path
            set found '' (__fish_complete_path "$typed")
        case model
            __fish_complete_suffix .safetensors
    end
    for line in $found[2..-1]
        echo "$prefix$line"
    end
end

complete -c safetensors -f -k -a '(__safetensors_complete)'
)fish";

Exit run_completions(const Arguments& given, Console& console) {
  if (given.positionals.size() != 1) throw UsageError("for which SHELL: bash, zsh or fish?");
  const std::string& shell = given.positionals[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    throw UsageError(not_a_choice("SHELL", kCompletions.words, shell));
  const std::string script(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  if (!given.json()) {
    console.out(script);
    return Exit::good;
  }
  Json json(console, "completions");
  json.field("shell", shell).line().field("script", script);
  json.finish();
  return Exit::good;
}

}  // namespace

const Command kCompletions = {
    .heading = "more",
    .name = "completions",
    .summary = "print the completion script of a shell",
    .title = "Print the script that completes command lines in a shell.",
    .usage = "SHELL",
    .description = R"(SHELL is bash, zsh or fish. The script completes commands, options, their values and paths.
cmake --install installs it where shells look for it. Without that, use one of these:

  bash  source <(safetensors completions bash)    in ~/.bashrc
  zsh   source <(safetensors completions zsh)     in ~/.zshrc, after compinit
  fish  safetensors completions fish | source     in config.fish)",
    .options = {&kJsonOption, 1},
    .words = "bash|zsh|fish",
    .arguments = Values::any,
    .examples = R"(source <(safetensors completions bash)
safetensors completions fish > ~/.config/fish/completions/safetensors.fish)",
    .exits = "0 printed; 2 usage",
    .run = run_completions,
};

}  // namespace safetensors::cli
