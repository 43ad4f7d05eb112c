// Two tables: words that are another name of a command and take its arguments, and words whose arguments would differ.
// The latter are not run, because a guess could do something else than was meant.
#include "other_words.h"

#include "command.h"

#include <algorithm>
#include <iterator>

namespace safetensors::cli {
namespace {

struct Alias {
  std::string_view word;
  const char* command;
  const char* option = nullptr;
};

constexpr Alias kAliases[] = {
    {"list", "ls"},       {"tree", "ls", "--tree"}, {"validate", "verify"}, {"compare", "diff"},
    {"metadata", "meta"}, {"extract", "select"},    {"check", "verify"},
};

struct Hint {
  std::string_view word;
  std::string_view text;
};

constexpr Hint kHints[] = {
    {"head", "the header: safetensors header PATH; the first values: safetensors cat PATH NAME --slice :5"},
    {"top", "the largest tensors: safetensors ls PATH --sort size"},
    {"grep", "search names: safetensors ls PATH --match '*TEXT*'"},
    {"find", "search names: safetensors ls PATH --match '*TEXT*'"},
    {"show", "the tensors: safetensors ls PATH; values: safetensors cat PATH NAME; a page: safetensors inspect PATH"},
    {"dump", "values: safetensors cat PATH NAME; the header: safetensors header PATH"},
    {"size", "what a model is and takes: safetensors info PATH; the size of tensors: safetensors ls PATH --sort size"},
    {"du", "the size of tensors: safetensors ls PATH --sort size; of modules: safetensors ls PATH --tree"},
    {"cp", "copy with cp; some of the tensors: safetensors select IN OUT --match GLOB"},
    {"convert", "another dtype: safetensors cast IN OUT --to bf16; a .bin or .pt file: load it with torch and save it"},
};

}  // namespace

std::vector<std::string> with_command_name(std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  const auto* const alias = std::ranges::find(kAliases, std::string_view(arguments[0]), &Alias::word);
  if (alias == std::end(kAliases)) return arguments;
  arguments[0] = alias->command;
  if (alias->option != nullptr) arguments.insert(arguments.begin() + 1, alias->option);
  // `metadata PATH` lists.
  if (alias->word == "metadata" && arguments.size() > 1) {
    const std::vector<std::string_view> actions = split_choices(kMeta.words);
    if (std::ranges::find(actions, std::string_view(arguments[1])) == actions.end() && !arguments[1].starts_with('-'))
      arguments.insert(arguments.begin() + 1, "ls");
  }
  return arguments;
}

std::string_view hint_of_word(std::string_view word) {
  const auto* const hint = std::ranges::find(kHints, word, &Hint::word);
  return hint == std::end(kHints) ? std::string_view() : hint->text;
}

}  // namespace safetensors::cli
