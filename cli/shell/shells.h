// The completion scripts of shells, made from the table of commands.
#pragma once

#include "command.h"

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Returns the first argument of the verb kCompleteVerb for these values. Returns nullptr if it has no candidates for
// them.
[[nodiscard]] const char* candidate_kind(Values values);

[[nodiscard]] std::string bash_completions();
[[nodiscard]] std::string zsh_completions();
[[nodiscard]] std::string fish_completions();

// All commands of all groups, in the order of the help.
[[nodiscard]] std::vector<const Command*> all_commands();
// Whether the first argument is the name of a command.
[[nodiscard]] bool takes_command(const Command& command);
// The choices of the first argument, separated by spaces, or empty.
[[nodiscard]] std::string first_words(const Command& command);
// Option::choices separated by spaces, or empty.
[[nodiscard]] std::string choice_words(const Option& option);
// The text in single quotes. escaped_quote: the spelling of a single quote inside of them.
[[nodiscard]] std::string single_quoted(std::string_view text, std::string_view escaped_quote);

}  // namespace safetensors::cli
