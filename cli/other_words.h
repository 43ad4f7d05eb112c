// Words of other programs that people type for a command.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// The arguments with the first one replaced, if it is a word that stands for a command: "list" for "ls", "tree" for
// "ls --tree". Other arguments stay as they are.
[[nodiscard]] std::vector<std::string> with_command_name(std::vector<std::string> arguments);

// The hint for a word that stands for no command, but for a task: "search names: safetensors ls PATH --match '*TEXT*'".
// The text is empty if the word is not known.
[[nodiscard]] std::string_view hint_of_word(std::string_view word);

}  // namespace safetensors::cli
