// The list of all subcommands, and the texts of --help, which are made from the table entries.
#include "command.h"
#include "text/text.h"

#include "file/did_you_mean.h"

#include <safetensors/error.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr const Command* kLook[] = {&kLs, &kInfo, &kCat, &kStats, &kPage};
constexpr const Command* kCheck[] = {&kVerify, &kHash, &kDiff};
constexpr const Command* kEdit[] = {&kMeta, &kSelect, &kDrop, &kRename, &kCast, &kMerge, &kSplit, &kIndex};
constexpr const Command* kMore[] = {&kCompletions};
constexpr CommandGroup kGroups[] = {{"look", kLook}, {"check", kCheck}, {"edit", kEdit}, {"more", kMore}};

// Appends the lines of text. All lines after the first begin with `indent` spaces.
void append_lines(std::string& help, std::string_view text, std::size_t indent) {
  for (std::size_t line = 0; !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    if (line > 0) help.append(indent, ' ');
    (help += one) += '\n';
    text.remove_prefix(std::min(text.size(), one.size() + 1));
  }
}

// "-m, --match GLOB". Options without a letter have spaces in its place.
std::string spelled(const Option& option) {
  std::string text = option_letter(option) != '\0' ? formatted("-{}, ", option_letter(option)) : "    ";
  text += formatted("--{}", option_name(option));
  return option.value == nullptr ? text : text + ' ' + option.value;
}

void append_options(std::string& help, const Command& command) {
  std::size_t widest = spelled(kHelpOption).size();
  for (const Option& option : command.options) widest = std::max(widest, spelled(option).size());
  const auto append = [&](const Option& option) {
    help += formatted("  {:<{}}   ", spelled(option), widest);
    append_lines(help, option_text(command, option), widest + 5);
  };
  if (command.options_heading != nullptr) (help += command.options_heading) += '\n';
  for (const Option& option : command.options) append(option);
  append(kHelpOption);
}

}  // namespace

const Overview kOverview = {
    .title = "List, check, read and change safetensors files.",
    .usage = "safetensors COMMAND PATH...\nsafetensors PATH            (the same as info PATH)",
    .notes = R"('safetensors COMMAND --help' explains a command, with examples. Every command
takes --json. Data goes to standard output, messages go to standard error.)",
    .exits =
        "0 success; 1 a negative answer: an invalid file, a name that is not in it,\n"
        "or a difference; 2 usage; 3 an error of the system: cannot open, read or\n"
        "write.",
    .exit_note = "With several files all are processed, and the highest code is returned.",
};

std::span<const CommandGroup> command_groups() {
  return kGroups;
}

const Command* find_command(std::string_view name) {
  for (const CommandGroup& group : kGroups) {
    for (const Command* command : group.commands) {
      if (command->name == name) return command;
    }
  }
  return nullptr;
}

std::string no_command(std::string_view name) {
  file::DidYouMean similar(name);
  for (const CommandGroup& group : kGroups) {
    for (const Command* command : group.commands) {
      if (!similar.offer(command->name)) break;
    }
  }
  const std::string hint = similar.best().empty() ? "" : formatted(" (did you mean {}?)", similar.best());
  return formatted("unknown command {}{}", printable(name), hint);
}

char option_letter(const Option& option) {
  return option.names[1] == '-' ? '\0' : option.names[1];
}

std::string_view option_name(const Option& option) {
  const std::string_view names = option.names;
  return names.substr(names.find("--") + 2);
}

std::string option_text(const Command& command, const Option& option) {
  return option.text != nullptr ? option.text : formatted("one JSON document, schema safetensors.{}/1", command.name);
}

std::string overview() {
  constexpr std::string_view kExit = "exit: ";
  std::string text = formatted("{}\n\nusage: {}\n", kOverview.title, kOverview.usage);
  std::size_t widest = 0;
  for (const CommandGroup& group : kGroups) {
    for (const Command* command : group.commands) widest = std::max(widest, std::string_view(command->name).size());
  }
  for (const CommandGroup& group : kGroups) {
    text += formatted("\n{}:\n", group.heading);
    for (const Command* command : group.commands)
      text += formatted("  {:<{}}  {}\n", command->name, widest, command->summary);
  }
  (text += formatted("\n{}\n\n", kOverview.notes)) += kExit;
  append_lines(text, formatted("{}\n{}", kOverview.exits, kOverview.exit_note), kExit.size());
  return text;
}

std::string help_text(const Command& command) {
  constexpr std::string_view kUsage = "usage: ";
  constexpr std::string_view kExit = "exit: ";
  std::string help = formatted("{}\n\n{}", command.title, kUsage);
  append_lines(help, command.usage, kUsage.size());
  help += '\n';
  if (command.description != nullptr) help += formatted("{}\n\n", command.description);
  append_options(help, command);
  if (command.details != nullptr) help += formatted("\n{}\n", command.details);
  if (!command.examples.empty()) help += command.examples.size() == 1 ? "\nexample:\n" : "\nexamples:\n";
  for (const char* example : command.examples) help += formatted("  {}\n", example);
  (help += '\n') += kExit;
  append_lines(help, command.exits, kExit.size());
  return help;
}

}  // namespace safetensors::cli
