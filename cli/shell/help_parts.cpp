// Takes the help texts of the table apart. The texts are laid out for a terminal of 80 columns, so a line with two
// spaces in its middle is a row of a table, and a line that begins with spaces continues the row above it.
#include "help_parts.h"

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr std::string_view kColumnGap = "  ";

void append_words(std::string& text, std::string_view words) {
  if (!text.empty()) text += ' ';
  text += words;
}

std::string_view without_leading_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    lines.push_back(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), lines.back().size() + 1));
  }
  return lines;
}

}  // namespace

OptionText parse_option_text(const Command& command, const Option& option) {
  OptionText parts;
  const std::string text = option_text(command, option);
  for (const std::string_view line : split_lines(text)) {
    const std::size_t gap = line.find(kColumnGap);
    if (gap == 0 && !parts.rows.empty()) {
      append_words(parts.rows.back().meaning, without_leading_spaces(line));
    } else if (gap != std::string_view::npos && gap > 0) {
      parts.rows.push_back({std::string(line.substr(0, gap)), std::string(without_leading_spaces(line.substr(gap)))});
    } else {
      append_words(parts.rows.empty() ? parts.text : parts.after, line);
    }
  }
  return parts;
}

std::vector<Option> options_and_help(const Command& command) {
  std::vector<Option> options(command.options.begin(), command.options.end());
  options.push_back({kHelpOption.names, nullptr, "show a help text"});
  return options;
}

std::string brief(const Command& command, const Option& option) {
  const OptionText parts = parse_option_text(command, option);
  std::string text = parts.text;
  if (text.empty()) {
    for (const TextRow& row : parts.rows) text += (text.empty() ? "" : ", ") + row.word;
  }
  for (const std::string_view end : {"; ", ". "}) text.resize(std::min(text.find(end), text.size()));
  return text;
}

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const CommandGroup& group : command_groups()) {
    for (const Command* command : group.commands) names.emplace_back(command->name);
  }
  return names;
}

}  // namespace safetensors::cli
