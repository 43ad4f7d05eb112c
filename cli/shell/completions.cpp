// The subcommand completions: prints the script that completes command lines in a shell. For names from a model, the
// scripts run the hidden verb __complete (candidates.cpp).
#include "arguments.h"
#include "command.h"
#include "help_parts.h"
#include "json_output.h"
#include "shells.h"
#include "text/formatted.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr const char kCompletionsDescription[] =
    R"(SHELL is bash, zsh or fish. The script completes commands, options, their values
and paths. It also completes names of tensors, dtypes and keys of the metadata,
from the header of the model on the command line. cmake --install installs it
where shells look for it. Without that, use one of these:

  bash  source <(safetensors completions bash)    in ~/.bashrc
  zsh   source <(safetensors completions zsh)     in ~/.zshrc, after compinit
  fish  safetensors completions fish | source     in config.fish)";

constexpr Option kCompletionsTable[] = {
    kJsonOption,
};

constexpr const char* kCompletionsExamples[] = {
    "source <(safetensors completions bash)",
    "safetensors completions fish > ~/.config/fish/completions/safetensors.fish",
};

Exit run_completions(std::span<const std::string> given, Console& console) {
  std::vector<std::string> shells;
  bool as_json = false;
  Arguments arguments(kCompletions);
  arguments.positionals(shells);
  arguments.flag("json", as_json);
  if (const auto wrong = arguments.parse(given)) return console.usage("completions", *wrong);
  if (shells.size() != 1) return console.usage("completions", "for which SHELL: bash, zsh or fish?");
  const std::string& shell = shells[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish")
    return console.usage("completions", not_a_choice("SHELL", kCompletions.words, shell));
  const std::string script = shell == "bash"  ? bash_completions()
                             : shell == "zsh" ? zsh_completions()
                                              : fish_completions();
  if (!as_json) {
    console.out(script);
    return Exit::good;
  }
  Json json(console, "completions");
  json.field("shell", shell).line().field("script", script);
  json.finish();
  return Exit::good;
}

std::string spaced(std::string_view choices) {
  std::string words(choices);
  std::ranges::replace(words, '|', ' ');
  return words;
}

}  // namespace

std::vector<const Command*> all_commands() {
  std::vector<const Command*> all;
  for (const CommandGroup& group : command_groups())
    all.insert(all.end(), group.commands.begin(), group.commands.end());
  return all;
}

bool takes_command(const Command& command) {
  return command.words != nullptr && command.words == std::string_view(kCommandWords);
}

std::string first_words(const Command& command) {
  if (command.words == nullptr) return "";
  if (!takes_command(command)) return spaced(command.words);
  std::string words;
  for (const std::string_view name : command_names()) (words += words.empty() ? "" : " ") += name;
  return words;
}

std::string choice_words(const Option& option) {
  return option.choices == nullptr ? "" : spaced(option.choices);
}

std::string single_quoted(std::string_view text, std::string_view escaped_quote) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += escaped_quote;
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

const Command kCompletions = {
    .name = "completions",
    .summary = "print the completion script of a shell",
    .title = "Print the script that completes command lines in a shell.",
    .usage = "safetensors completions SHELL [--json]",
    .description = kCompletionsDescription,
    .options = kCompletionsTable,
    .words = "bash|zsh|fish",
    .arguments = Values::any,
    .examples = kCompletionsExamples,
    .exits = "0 printed; 2 usage",
    .run = run_completions,
};

}  // namespace safetensors::cli
