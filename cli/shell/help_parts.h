// The parts of the texts of the table entries, for pages that lay them out anew.
#pragma once

#include "command.h"

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Values and their meanings: "raw   the bytes" is a row.
struct TextRow {
  std::string word;
  std::string meaning;
};

// The text of an option: a text of one line, rows, and again a text. Each may be empty.
struct OptionText {
  std::string text;
  std::vector<TextRow> rows;
  std::string after;
};
[[nodiscard]] OptionText parse_option_text(const Command& command, const Option& option);

// The options of a command, and --help.
[[nodiscard]] std::vector<Option> options_and_help(const Command& command);

// One short line: the text up to its first semicolon or sentence.
[[nodiscard]] std::string brief(const Command& command, const Option& option);

// The names of all commands, in the order of the help.
[[nodiscard]] std::vector<std::string_view> command_names();

}  // namespace safetensors::cli
