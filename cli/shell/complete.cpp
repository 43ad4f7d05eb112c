// The hidden verb __complete, which the completion scripts run. Its arguments are the words of the command line up to
// the cursor. The last argument is the part of a word that is typed already. The first line of the output is one of:
//
//   path, model  nothing: the shell completes files
//   words        one candidate per line, often followed by a tab and a text
//
// It opens no file: names of strangers have no place in a shell.
#include "command.h"
#include "text/text.h"

#include <safetensors/dtype.h>

#include <algorithm>
#include <iterator>

namespace safetensors::cli {
namespace {

using Candidates = std::vector<std::string>;

// What the last word of a command line may be.
struct Wanted {
  Values values = Values::any;
  Candidates words = {};  // instead of values
};

Wanted choices_of(const char* choices) {
  const std::vector<std::string_view> list = split(choices, '|');
  return {.words = {list.begin(), list.end()}};
}

// "ls<TAB>list tensors".
std::string described(std::string_view word, std::string_view text) {
  return text.empty() ? std::string(word) : formatted("{}\t{}", word, text);
}

// The first sentence of the text of an option. Empty if a table of its values comes first.
std::string brief(const Command& command, const Option& option) {
  std::string text = option_text(command, option);
  if (text.substr(0, text.find('\n')).find("  ") != std::string::npos) return "";
  std::ranges::replace(text, '\n', ' ');
  for (const std::string_view end : {"; ", ". ", ": "}) text.resize(std::min(text.find(end), text.size()));
  return text;
}

// Returns the option that takes the next word, or nullptr. word: "--sort", "-s".
const Option* option_with_value(const Command& command, std::string_view word) {
  const Option* const found = find_option(command, word);
  return found == nullptr || found->value == nullptr ? nullptr : found;
}

// The dtypes, in upper case if the typed text is.
Wanted dtypes(std::string_view typed) {
  Wanted list;
  for (const Dtype dtype : all_dtypes()) {
    std::string word(to_string(dtype));
    const bool upper = !typed.empty() && typed[0] >= 'A' && typed[0] <= 'Z';
    for (char& c : word) c = !upper && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
    list.words.push_back(std::move(word));
  }
  return list;
}

// Returns the part of a word that is typed for the value of an option: behind `--sort=`.
std::string_view typed_value(std::string_view word) {
  if (word.starts_with("--")) word.remove_prefix(std::min(word.find('=') + 1, word.size()));
  return word == "=" ? std::string_view() : word;
}

// given: the words behind the command. bash makes a word of each =.
Wanted wanted_of(const Command& command, std::span<const std::string> given) {
  const Option* pending = nullptr;
  bool only_arguments = false;
  std::size_t count = 0;
  for (const std::string& word : given.first(given.size() - 1)) {
    if (pending != nullptr) {
      if (word != "=") pending = nullptr;
    } else if (!only_arguments && word == "--") {
      only_arguments = true;
    } else if (!only_arguments && word.size() > 1 && word[0] == '-') {
      pending = option_with_value(command, word);
    } else {
      ++count;
    }
  }
  const std::string_view word = given.back();
  if (!only_arguments && pending == nullptr && word.find('=') != std::string_view::npos)
    pending = option_with_value(command, word.substr(0, word.find('=')));
  if (pending != nullptr && pending->choices != nullptr) return choices_of(pending->choices);
  if (pending != nullptr && pending->values == Values::dtype) return dtypes(typed_value(word));
  if (pending != nullptr) return {.values = pending->values};
  if (!only_arguments && word.starts_with('-')) {
    Wanted names = {.words = {described("--help", "show a help text")}};
    for (const Option& option : command.options)
      names.words.push_back(described(formatted("--{}", option_name(option)), brief(command, option)));
    return names;
  }
  if (command.words != nullptr && count-- == 0) return choices_of(command.words);
  return {.values = count != 0 && command.after_model ? *command.after_model : command.arguments};
}

Wanted wanted_of(std::span<const std::string> given) {
  Wanted names;
  for (const Command* command : commands()) names.words.push_back(described(command->name, command->summary));
  if (given.size() > 1 && given[0] != "help") {
    const Command* const command = find_command(given[0]);
    return command == nullptr ? Wanted() : wanted_of(*command, given.subspan(1));
  }
  if (given.size() == 1) {
    for (const char* word : {"help\tshow the help text of a command", "--help", "--version\tshow the version"})
      names.words.emplace_back(word);
  }
  return given.size() > 2 ? Wanted() : names;
}

}  // namespace

Exit run_complete(std::span<const std::string> given, Console& console) {
  if (given.empty()) return Exit::usage;
  const Wanted wanted = wanted_of(given);
  constexpr std::string_view kKinds[] = {"words", "path", "model"};  // by Values
  console.out(formatted("{}\n", kKinds[static_cast<std::size_t>(wanted.values)]));
  for (const std::string& candidate : wanted.words) {
    if (candidate.starts_with(typed_value(given.back()))) console.out(candidate + "\n");
  }
  return Exit::good;
}

}  // namespace safetensors::cli
