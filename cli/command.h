// The table entry of a subcommand. The parser of its options, its help, its man page, the completions of the shells and
// the option tables of docs/cli.md all come from this entry.
#pragma once

#include "console.h"
#include "exit_code.h"

#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// The values that an option takes. Shells complete them.
enum class Values : unsigned char { any, path };

// An option of a subcommand.
struct Option {
  const char* names;              // "--json", or "-m,--match"
  const char* value;              // the name of its value, "GLOB". nullptr: a flag
  const char* text;               // lines of the help. nullptr for kJsonOption, whose text names the subcommand
  const char* choices = nullptr;  // the values that it accepts: "name|size"
  Values values = Values::any;    // otherwise, the kind of values
};

inline constexpr Option kJsonOption = {"--json", nullptr, nullptr};

// Texts have no line feed at their end. Lines have at most 80 columns, those of options at most 57.
struct Command {
  const char* name;
  const char* summary;                         // one line for the list of commands
  const char* title;                           // the first sentence of the help
  const char* usage;                           // one or several forms, one per line
  const char* description = nullptr;           // paragraphs above the options
  const char* options_heading = nullptr;       // a line above the options
  std::span<const Option> options;             // without --help
  const char* details = nullptr;               // paragraphs below the options
  std::span<const char* const> examples = {};  // command lines
  const char* exits;                           // the exit codes and what they mean
  Exit (*run)(std::span<const std::string> arguments, Console& console);
};

// Subcommands that belong together.
struct CommandGroup {
  const char* heading;
  std::span<const Command* const> commands;
};
// All subcommands, in the order of the help.
[[nodiscard]] std::span<const CommandGroup> command_groups();

// The text of `safetensors --help`, and of `safetensors NAME --help`.
[[nodiscard]] std::string overview();
[[nodiscard]] std::string help_text(const Command& command);

// The parts of Option::names: the letter, or 0, and the name without dashes.
[[nodiscard]] char option_letter(const Option& option);
[[nodiscard]] std::string_view option_name(const Option& option);
// Option::text, or the text of kJsonOption.
[[nodiscard]] std::string option_text(const Command& command, const Option& option);

extern const Command kLs;
extern const Command kInfo;
extern const Command kHeader;
extern const Command kMeta;
extern const Command kVerify;
extern const Command kCat;
extern const Command kDiff;
extern const Command kClean;
extern const Command kVersion;

}  // namespace safetensors::cli
