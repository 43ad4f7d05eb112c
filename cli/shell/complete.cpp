// The hidden verb __complete, which the completion scripts run. Its arguments are the words of the command line up to
// the cursor. The last argument is the part of a word that is typed already. The first line of the output is one of:
//
//   path, folder, model  nothing: the shell completes files
//   words                one candidate per line, often followed by a tab and a text
//   names                one candidate per line, which the script has to quote
//
// Names come from strangers, so candidates have no control characters and no invisible ones: a line is always one
// candidate. The scripts pass the words as they are, still quoted. This program unquotes them, because a shell that
// does so would evaluate them.
#include "command.h"
#include "input.h"
#include "text/text.h"

#include "format/dtype/cast.h"
#include "os/file_status.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace safetensors::cli {
namespace {

// Removes the quotes of a shell from a word. A quote that is still open ends with the word.
std::string unquoted(std::string_view word) {
  std::string text;
  char quote = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote && quote != 0) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && i + 1 < word.size()) {
      text += word[++i];
    } else {
      text += c;
    }
  }
  const char* const home = std::getenv("HOME");
  if (word.starts_with("~/") && home != nullptr) text.replace(0, 1, home);
  return text;
}

bool exists(const std::string& path) {
  os::FileStatus status;
  return !path.empty() && os::status_of_path(path.c_str(), os::Symlinks::follow, status) == 0;
}

// Returns the model on the command line: the first word that is an existing path, as it is or without its quotes.
std::optional<std::string> model_of(std::span<const std::string> words) {
  for (const std::string& word : words) {
    if (word.starts_with('-')) continue;
    for (std::string path : {word, unquoted(word)}) {
      if (exists(path)) return path;
    }
  }
  return std::nullopt;
}

// Returns a pattern that matches the name. ? stands for each control character and each invisible one.
std::string pattern_of(std::string_view name) {
  std::string pattern;
  while (!name.empty()) {
    const std::string_view character = first_character(name);
    if (character != "\\" && printable(character) != character) {
      pattern += '?';
    } else {
      if (std::string_view("*?[\\").find(character[0]) != std::string_view::npos) pattern += '\\';
      pattern += character;
    }
    name.remove_prefix(character.size());
  }
  return pattern;
}

void to_lower_case(std::string& text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

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

Candidates option_names(const Command& command) {
  Candidates list = {described("--help", "show a help text")};
  for (const Option& option : command.options)
    list.push_back(described(formatted("--{}", option_name(option)), brief(command, option)));
  return list;
}

// Returns the option that takes the next word, or nullptr. word: "--sort", "-s".
const Option* option_with_value(const Command& command, std::string_view word) {
  for (const Option& option : command.options) {
    const bool named = word.starts_with("--") ? word.substr(2) == option_name(option)
                                              : word.size() == 2 && word[1] == option_letter(option);
    if (named && option.value != nullptr) return &option;
  }
  return nullptr;
}

Wanted argument_of(const Command& command, std::size_t index) {
  if (command.words != nullptr && index-- == 0) return choices_of(command.words);
  return {.values = index != 0 && command.after_model ? *command.after_model : command.arguments};
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
  if (pending != nullptr) return {.values = pending->values};
  if (!only_arguments && word.starts_with('-')) return {.words = option_names(command)};
  return argument_of(command, count);
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

// The candidates of an option or argument, from the model on the command line if there is one.
Candidates candidates_of(Values values, std::span<const std::string> words, Console& console) {
  Candidates list;
  const auto model = values == Values::cast ? std::nullopt : model_of(words);
  if (!model && (values == Values::cast || values == Values::dtypes)) {
    for (const Dtype dtype : all_dtypes()) {
      const bool castable = format::castable(Dtype::F32, dtype) || format::castable(Dtype::I64, dtype);
      if (castable || values == Values::dtypes) list.emplace_back(to_string(dtype));
    }
  }
  if (!model) return list;
  const Result<Input> input = Input::open(*model, console, {}, PipeData::part);
  if (!input) return {};
  for (const TensorInfo* tensor : infos(*input)) {
    if (values == Values::tensor) list.push_back(printable(tensor->name));
    if (values == Values::pattern) list.push_back(pattern_of(tensor->name));
    if (values == Values::dtypes) list.emplace_back(to_string(tensor->dtype));
  }
  for (const File& file : input->files()) {
    if (values != Values::key) break;
    for (const auto& [key, value] : file.metadata()) list.push_back(printable(key));
  }
  return list;
}

// Prints the candidates that begin with the typed text. A list of dtypes is completed at its last part.
void print_matching(Candidates candidates, Values values, std::string_view typed, Console& console) {
  const std::size_t list = values == Values::dtypes ? typed.rfind(',') + 1 : 0;
  const std::string_view last = typed.substr(list);
  const bool has_lower_case = std::ranges::any_of(last, [](char c) { return c >= 'a' && c <= 'z'; });
  if ((values == Values::dtypes || values == Values::cast) && has_lower_case)
    std::ranges::for_each(candidates, to_lower_case);
  std::ranges::sort(candidates, natural_less);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const std::string& candidate : candidates) {
    if (!candidate.empty() && candidate.starts_with(last))
      console.out(formatted("{}{}\n", list == 0 ? "" : printable(typed.substr(0, list)), candidate));
  }
}

}  // namespace

Exit run_complete(std::span<const std::string> given, Console& console) {
  if (given.empty()) return Exit::usage;
  const Wanted wanted = wanted_of(given);
  std::string_view word = given.back();
  if (word.starts_with("--")) word.remove_prefix(std::min(word.find('=') + 1, word.size()));
  if (word == "=") word = {};
  constexpr std::string_view kKinds[] = {"words", "path", "folder", "model"};  // by Values
  const auto kind = static_cast<std::size_t>(wanted.values);
  console.out(formatted("{}\n", kind < std::size(kKinds) ? kKinds[kind] : "names"));
  for (const std::string& candidate : wanted.words) {
    if (candidate.starts_with(word)) console.out(candidate + "\n");
  }
  if (kind >= std::size(kKinds))
    print_matching(candidates_of(wanted.values, given.subspan(1, given.size() - 2), console), wanted.values,
                   unquoted(word), console);
  return Exit::good;
}

}  // namespace safetensors::cli
