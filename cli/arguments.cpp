// Parses the command line of one subcommand by its table entry.
//
// The beginning of a long option is no option: a new option could make it ambiguous later. An argument such as -1 is
// positional, because slices and names can begin like this, unless the digit is the letter of an option.
#include "arguments.h"

#include <safetensors/error.h>

#include <algorithm>

#include "base/byte_size.h"
#include "file/did_you_mean.h"
#include "text/text.h"

namespace safetensors::cli {
namespace {

// "a, b and c". last: the word before the last one. before: comes before each.
std::string enumerated(const std::vector<std::string_view>& names, std::string_view last, std::string_view before) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i)
    list += formatted("{}{}{}", i == 0 ? "" : i + 1 < names.size() ? ", " : last, before, names[i]);
  return list;
}

}  // namespace

Arguments::Arguments(const Command& command, std::span<const std::string> words) : command_(command) {
  bool only_positionals = false;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const std::string_view text = *word;
    const bool option = text.size() > 1 && text[0] == '-' && !only_positionals;
    if (option && text == "--") {
      only_positionals = true;
    } else if (option && text[1] == '-') {
      const std::size_t equals = text.find('=');
      const Option* const found = find_option(command, text.substr(0, equals));
      if (found == nullptr) throw UsageError(unknown(text, 0));
      if (found->value == nullptr && equals != text.npos)
        throw UsageError(formatted("--{} takes no value", option_name(*found)));
      take(*found, equals == text.npos ? std::string_view() : text.substr(equals + 1), equals != text.npos, word,
           words);
    } else if (option && (text[1] < '0' || text[1] > '9' || find_option(command, text.substr(0, 2)) != nullptr)) {
      for (std::size_t i = 1; i < text.size(); ++i) {
        const Option* const found = find_option(command, std::string{'-', text[i]});
        if (found == nullptr) throw UsageError(unknown(text, i));
        take(*found, text.substr(i + 1), i + 1 < text.size(), word, words);
        if (found->value != nullptr) break;
      }
    } else {
      positionals.push_back(*word);
    }
  }
  check_apart();
}

// value: the rest of the word, which is the value of the option if `has_value`. Otherwise the next word is.
void Arguments::take(const Option& option, std::string_view value, bool has_value, Word& word, Words words) {
  const std::string_view name = option_name(option);
  if (option.value == nullptr) return given_.push_back({&option, ""});
  if (!has_value && ++word == words.end()) throw UsageError(formatted("--{} needs a value", name));
  const std::string taken(has_value ? value : std::string_view(*word));
  if (!option.repeats && has(name)) throw UsageError(formatted("--{} is given more than once", name));
  if (option.choices != nullptr && std::ranges::count(split(option.choices, '|'), taken) == 0)
    throw UsageError(not_a_choice(formatted("--{}", name), option.choices, taken));
  given_.push_back({&option, taken});
}

// "--a and --b do not go with --c and --d"
void Arguments::check_apart() const {
  const auto any = [&](const std::vector<std::string_view>& names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return has(name); });
  };
  for (const Apart& apart : command_.apart) {
    const auto names = split(apart.options, '|');
    const auto others = split(apart.others, '|');
    if (any(names) && any(others))
      throw UsageError(formatted("{} {} not go with {}", enumerated(names, " and ", "--"),
                                 names.size() == 1 ? "does" : "do", enumerated(others, " and ", "--")));
  }
}

bool Arguments::has(std::string_view name) const {
  return std::ranges::any_of(given_, [&](const Given& given) { return option_name(*given.option) == name; });
}

std::vector<std::string> Arguments::values(std::string_view name) const {
  std::vector<std::string> list;
  for (const Given& given : given_) {
    if (option_name(*given.option) == name) list.push_back(given.value);
  }
  return list;
}

std::optional<std::string> Arguments::value(std::string_view name) const {
  const std::vector<std::string> list = values(name);
  return list.empty() ? std::nullopt : std::optional(list.back());
}

std::optional<std::uint64_t> Arguments::number(std::string_view name, const char* kind, Parser* parse) const {
  const auto text = value(name);
  const auto number = text ? parse(*text) : std::nullopt;
  if (text && !number) throw UsageError(formatted("--{} is {}", name, kind));
  return number;
}

void Arguments::need_path() const {
  if (positionals.empty()) throw UsageError("which PATH?");
}

// argument: with its dashes. letter: the index of the unknown one, if it has one dash. "-json" suggests --json, too.
std::string Arguments::unknown(std::string_view argument, std::size_t letter) const {
  const bool is_long = letter == 0;
  const std::string_view given = is_long ? argument.substr(0, argument.find('=')) : argument;
  const std::string_view shown = is_long ? given : first_character(argument.substr(letter));
  std::string_view longer;  // the only option that begins so
  file::DidYouMean similar(given.substr(is_long ? 2 : 1));
  for (const Option& option : command_.options) {
    if (!similar.offer(option_name(option))) break;
    if (!is_long || !option_name(option).starts_with(given.substr(2))) continue;
    longer = longer.empty() ? option_name(option) : "-";
  }
  if (!longer.empty() && longer != "-") return formatted("unknown option {} (is it --{}?)", printable(given), longer);
  (void)similar.offer("help");
  const bool suggests = !similar.best().empty() && similar.meant().size() > 1;
  return formatted("unknown option {}{}{}", is_long ? "" : "-", printable(shown),
                   suggests ? formatted(" (did you mean --{}?)", similar.best()) : "");
}

std::string not_a_choice(std::string_view what, std::string_view choices, std::string_view text) {
  file::DidYouMean similar(text);
  const auto list = split(choices, '|');
  for (const std::string_view choice : list) (void)similar.offer(choice);
  const std::string error = formatted("{} is {}, not {}", what, enumerated(list, " or ", ""), printable(text));
  return similar.best().empty() ? error : error + formatted(" (did you mean {}?)", similar.best());
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  return has_only_digits(text) ? base::parse_size(text) : std::nullopt;
}

}  // namespace safetensors::cli
