// The table entry of a subcommand. The parser of its options, its help, its usage line and the completions of the
// shells all come from this entry.
#pragma once

#include "console.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// The values that an option or an argument takes. Shells complete them.
enum class Values : unsigned char {
  any,    // shells complete nothing
  path,   // any file
  model,  // a file or a folder that holds tensors
  dtype,  // of the format
};

// An option of a subcommand. A letter means the same in all of them: -b brief, -c columns, -f force, -l long, -m match,
// -n dry run, -o output, -q quiet, -r reverse, -R recursive, -s sort, -t tree.
struct Option {
  const char* names;              // "--json", or "-m,--match"
  const char* value;              // the name of its value, "GLOB". nullptr: a flag
  const char* text;               // lines of the help. nullptr for kJsonOption, whose text names the subcommand
  const char* choices = nullptr;  // the values that it accepts: "name|size". Arguments refuses others
  Values values = Values::any;    // otherwise, the kind of values
  bool repeats = false;           // whether it may be given several times
};

inline constexpr Option kJsonOption = {"--json", nullptr, nullptr};

// One table of options, of several: joined(kChoiceOptions, {{"--top", "N", "show only the first N lines"},
// kJsonOption})
template <std::size_t... Sizes>
constexpr auto joined(const Option (&... tables)[Sizes]) {
  std::array<Option, (Sizes + ...)> all{};
  auto end = all.begin();
  (..., (end = std::copy(tables, tables + Sizes, end)));
  return all;
}

// Options that exclude each other: any of the one list and any of the other. Lists without dashes: "columns|long".
struct Apart {
  const char* options;
  const char* others;
};

class Arguments;

// The help breaks texts into lines of 80 columns. They have no line feed at their end.
struct Command {
  const char* heading = nullptr;  // above it in the list of commands
  const char* name;
  const char* summary;                               // one line for the list of commands
  const char* title;                                 // the first sentence of the help
  const char* usage;                                 // the arguments: one or several forms, one per line
  const char* description = nullptr;                 // paragraphs above the options
  const char* options_heading = nullptr;             // a line above the options
  std::span<const Option> options;                   // without --help
  std::span<const Apart> apart = {};                 // options that exclude each other
  const char* words = nullptr;                       // choices of the first argument: "ls|get"
  Values arguments = Values::model;                  // the other arguments. For shells
  std::optional<Values> after_model = std::nullopt;  // the arguments after the first model, if they differ from it
  const char* details = nullptr;                     // paragraphs below the options
  const char* examples;                              // command lines
  const char* exits;                                 // the exit codes and their meanings
  Exit (*run)(const Arguments& given, Console& console);
};

// All subcommands, in the order of the help.
[[nodiscard]] std::span<const Command* const> commands();
// The subcommand with this name, or nullptr.
[[nodiscard]] const Command* find_command(std::string_view name);
// The text of an error: "unknown command NAME (did you mean ls?)".
[[nodiscard]] std::string no_command(std::string_view name);

// The text of `safetensors --version`: the version, the compiler, the libraries, the dtypes and the limits.
[[nodiscard]] std::string version_text();

// The hidden verb that the completion scripts run.
inline constexpr std::string_view kCompleteVerb = "__complete";
Exit run_complete(std::span<const std::string> arguments, Console& console);

// The text of `safetensors --help`, and of `safetensors NAME --help`.
[[nodiscard]] std::string overview();
[[nodiscard]] std::string help_text(const Command& command);

// The parts of Option::names: the letter, or 0, and the name without dashes.
[[nodiscard]] char option_letter(const Option& option);
[[nodiscard]] std::string_view option_name(const Option& option);
// Returns the option with this name or letter, which includes the dashes: "--sort", "-s". Returns nullptr for any
// other.
[[nodiscard]] const Option* find_option(const Command& command, std::string_view word);
// Option::text, or the text of kJsonOption.
[[nodiscard]] std::string option_text(const Command& command, const Option& option);
// The option --help of every command.
inline constexpr Option kHelpOption = {"-h,--help", nullptr, "this text"};

extern const Command kLs;
extern const Command kInfo;
extern const Command kMeta;
extern const Command kVerify;
extern const Command kCat;
extern const Command kStats;
extern const Command kPage;
extern const Command kDiff;
extern const Command kHash;
extern const Command kSelect;
extern const Command kDrop;
extern const Command kRename;
extern const Command kCast;
extern const Command kMerge;
extern const Command kSplit;
extern const Command kIndex;
extern const Command kCompletions;

}  // namespace safetensors::cli
