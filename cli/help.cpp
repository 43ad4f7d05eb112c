// The list of all subcommands, the texts of --help, which are made from the table entries, and that of --version.
#include "command.h"
#include "sha256.h"
#include "text/text.h"

#include "file/did_you_mean.h"

#include <safetensors/c.h>
#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/header.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr const Command* kCommands[] = {&kLs,   &kInfo,  &kCat,   &kStats,  &kPage,       &kVerify,
                                        &kHash, &kDiff,  &kMeta,  &kSelect, &kDrop,       &kRename,
                                        &kCast, &kMerge, &kSplit, &kIndex,  &kCompletions};

constexpr std::size_t kHelpColumns = 80;

// Appends `before` and text, in lines of 80 columns. All lines after the first are indented as far as the text in it. A
// tab stands for a space at which no line ends.
void append_lines(std::string& help, const std::string& before, std::string_view text) {
  std::string lines = before;
  for (const std::string_view line : split(text, '\n')) {
    if (lines.size() > before.size()) lines.append("\n").append(before.size(), ' ');
    lines += line;
  }
  (help += wrap_words(lines, kHelpColumns, before.size())) += '\n';
}

// Appends paragraphs. A line feed before a letter ends a line of the source, not one of the text.
void append_paragraphs(std::string& help, std::string text) {
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    const bool in_paragraph = text[i - 1] != '\n' && text[i + 1] != '\n' && text[i + 1] != ' ';
    if (text[i] == '\n' && in_paragraph) text[i] = ' ';
  }
  (help += wrap_words(text, kHelpColumns, 0)) += '\n';
}

// "-m, --match GLOB". Options without a letter have spaces in its place.
std::string spelled(const Option& option) {
  std::string text = option_letter(option) != '\0' ? formatted("-{}, ", option_letter(option)) : "    ";
  text += formatted("--{}", option_name(option));
  return option.value == nullptr ? text : text + ' ' + option.value;
}

// Appends the forms of the command line. If there is one form, all options that it does not show itself follow it. If
// there are several forms, [OPTIONS] follows each form without brackets.
void append_usage(std::string& help, const Command& command) {
  std::string before = "usage: ";
  const std::vector<std::string_view> forms = split(command.usage, '\n');
  for (const std::string_view form : forms) {
    std::string text(form);
    if (forms.size() > 1 && form.find('[') == form.npos) text += " [OPTIONS]";
    for (const Option& option : command.options) {
      const std::string name = formatted("--{}", option_name(option));
      const bool shown =
          form.find(name + " ") != form.npos || form.find(spelled(option).substr(0, 2) + " ") != form.npos;
      if (forms.size() > 1 || shown) continue;
      text += formatted(" [{}{}{}]{}", name, option.value == nullptr ? "" : "\t",
                        option.value == nullptr ? "" : option.value, option.repeats ? "..." : "");
    }
    append_lines(help, formatted("{}safetensors {} ", before, command.name), text);
    before.assign(before.size(), ' ');
  }
}

void append_options(std::string& help, const Command& command) {
  std::size_t widest = spelled(kHelpOption).size();
  for (const Option& option : command.options) widest = std::max(widest, spelled(option).size());
  const auto append = [&](const Option& option) {
    append_lines(help, formatted("  {:<{}}   ", spelled(option), widest), option_text(command, option));
  };
  if (command.options_heading != nullptr) (help += command.options_heading) += '\n';
  std::ranges::for_each(command.options, append);
  append(kHelpOption);
}

}  // namespace

std::span<const Command* const> commands() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto* const found = std::ranges::find(kCommands, name, &Command::name);
  return found == std::end(kCommands) ? nullptr : *found;
}

std::string no_command(std::string_view name) {
  file::DidYouMean similar(name);
  for (const Command* command : kCommands) {
    if (!similar.offer(command->name)) break;
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

const Option* find_option(const Command& command, std::string_view word) {
  const auto named = [&](const Option& option) { return std::ranges::count(split(option.names, ','), word) > 0; };
  const auto found = std::ranges::find_if(command.options, named);
  return found == command.options.end() ? nullptr : &*found;
}

std::string option_text(const Command& command, const Option& option) {
  return option.text != nullptr ? option.text : formatted("one JSON document, schema safetensors.{}/1", command.name);
}

std::string overview() {
  std::string text =
      "List, check, read and change safetensors files.\n\n"
      "usage: safetensors COMMAND PATH...\n       safetensors PATH            (the same as info PATH)\n";
  for (const Command* command : kCommands) {
    if (command->heading != nullptr) text += formatted("\n{}:\n", command->heading);
    text += formatted("  {:<11}  {}\n", command->name, command->summary);
  }
  text += '\n';
  append_paragraphs(text, R"('safetensors COMMAND --help' explains a command, with examples. Every command takes --json.
Data goes to standard output, messages go to standard error.)");
  text += '\n';
  append_lines(text, "exit: ",
               "0 success; 1 a negative answer: an invalid file, a name that is not in it, or a difference; 2 usage; "
               "3 an error of the system: cannot open, read or write.\n"
               "With several files all are processed, and the highest code is returned.");
  return text;
}

std::string help_text(const Command& command) {
  std::string help = formatted("{}\n\n", command.title);
  append_usage(help, command);
  help += '\n';
  if (command.description != nullptr) append_paragraphs(help, formatted("{}\n", command.description));
  append_options(help, command);
  if (command.details != nullptr) append_paragraphs(help += '\n', command.details);
  const std::vector<std::string_view> examples = split(command.examples, '\n');
  help += examples.size() == 1 ? "\nexample:\n" : "\nexamples:\n";
  for (const std::string_view example : examples) help += formatted("  {}\n", example);
  append_lines(help += '\n', "exit: ", command.exits);
  std::ranges::replace(help, '\t', ' ');  // see append_lines()
  return help;
}

std::string version_text() {
#if defined(__clang__)
  const std::string compiler = formatted("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  const std::string compiler = formatted("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
#if defined(NDEBUG)
  constexpr const char* kKind = "release";
#else
  constexpr const char* kKind = "with assertions";
#endif
#if defined(SAFETENSORS_HAVE_RE2)
  constexpr const char* kRe2 = ", RE2";
#else
  constexpr const char* kRe2 = "";
#endif
  std::string text = formatted("safetensors {}\n", safetensors_version_string());
  text += formatted("  built with  {}, C++{}, {}\n", compiler, __cplusplus / 100 % 100, kKind);
  text += formatted("  built in    fmt {}.{}.{}{}\n", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100,
                    kRe2);
  text += formatted("  sha256      {}\n", sha256_library());
  std::string dtypes = "  dtypes     ";
  for (const Dtype dtype : all_dtypes()) dtypes += formatted(" {}", to_string(dtype));
  text += wrap_words(dtypes, 74, 14);
  return text + formatted("\n  limits      headers up to {} bytes\n", ParseOptions().max_header_bytes);
}

}  // namespace safetensors::cli
