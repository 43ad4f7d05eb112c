// Parses the command line of one subcommand with getopt_long(), the parser of the C library.
//
// getopt_long() also accepts the beginning of a long option. This is refused here: a new option could make the
// beginning ambiguous later. An argument such as -1 is positional, because slices and names can begin like this. For
// getopt_long(), each digit is an option with an optional value, so it takes the whole argument at once.
#include "arguments.h"

#include <getopt.h>
#include <safetensors/error.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/byte_size.h"
#include "file/did_you_mean.h"
#include "text/text.h"

namespace safetensors::cli {
namespace {

constexpr int kPositional = 1;     // the result of getopt_long() for a positional argument
constexpr int kFirstOption = 256;  // option i has the code kFirstOption + i, above all letters

bool is_digit(int code) {
  return code >= '0' && code <= '9';
}

std::string needs_value(const std::string& name) {
  return formatted("--{} needs a value", name);
}

// The unknown option that begins with `letter`, in an argument of one or several letters. getopt_long() counts bytes,
// so the letter may be only the first byte of a character.
std::string_view unknown_letter(std::string_view argument, char letter) {
  const std::size_t begin = std::min(argument.find(letter, 1), argument.size() - 1);
  std::size_t end = begin + 1;
  while (end < argument.size() && (static_cast<unsigned char>(argument[end]) & 0xC0) == 0x80) ++end;
  return argument.substr(begin, end - begin);
}

// Returns whether the command takes models. The words for its arguments in its usage tell.
bool takes_models(const Command& command) {
  const std::string_view usage = command.usage;
  return usage.find(" PATH") != usage.npos || usage.find(" IN") != usage.npos || usage.find(" A B") != usage.npos;
}

}  // namespace

Arguments::Arguments(const Command& command) : command_(command.name), takes_models_(takes_models(command)) {
  for (const cli::Option& option : command.options) {
    options_.push_back(
        {option_letter(option), std::string(option_name(option)), option.choices, nullptr, option.value != nullptr});
  }
}

// The index of the option with this code.
std::size_t Arguments::option_of(int code) const {
  if (code >= kFirstOption) return static_cast<std::size_t>(code - kFirstOption);
  const auto found = std::ranges::find(options_, static_cast<char>(code), &Option::letter);
  return static_cast<std::size_t>(found - options_.begin());
}

void Arguments::bind(std::string_view name, std::function<void(const char* value)> take, bool takes_value,
                     bool repeats) {
  const auto option = std::ranges::find(options_, name, &Option::name);
  if (option == options_.end() || option->takes_value != takes_value) std::abort();
  option->take = std::move(take);
  option->repeats = repeats;
}

void Arguments::flag(std::string_view name, bool& given) {
  bind(
      name, [&given](const char*) { given = true; }, false, true);
}

void Arguments::value(std::string_view name, std::optional<std::string>& value) {
  bind(
      name, [&value](const char* text) { value = text; }, true, false);
}

void Arguments::values(std::string_view name, std::vector<std::string>& values) {
  bind(
      name, [&values](const char* text) { values.emplace_back(text); }, true, true);
}

std::optional<std::string> Arguments::take(int code, std::string_view spelled, const char* value) {
  Option& option = options_[option_of(code)];
  if (spelled.starts_with("--") && spelled.substr(2, spelled.find('=') - 2) != option.name)
    return formatted("unknown option {} (is it --{}?)", printable(spelled.substr(0, spelled.find('='))), option.name);
  if (std::exchange(option.given, true) && !option.repeats)
    return formatted("--{} is given more than once", option.name);
  if (option.choices != nullptr) {
    const auto choices = split_choices(option.choices);
    if (std::ranges::find(choices, std::string_view(value)) == choices.end())
      return not_a_choice("--" + option.name, option.choices, value);
  }
  option.take(value);
  return std::nullopt;
}

// argument: with its dashes. letter: the unknown one, if it has one dash. "-json" suggests --json, too.
std::string Arguments::unknown(std::string_view argument, int letter) const {
  const bool is_long = argument.starts_with("--");
  const std::string_view given = argument.substr(0, argument.find('='));
  if (takes_models_ && (given == "--recursive" || (!is_long && letter == 'R')))
    return formatted("{} has no --recursive: it {}", command_,
                     command_ == "page" ? "makes one page per model, run it for each"
                                        : "takes one model at a time, run it for each");
  file::DidYouMean similar(given.substr(is_long ? 2 : 1));
  for (const Option& option : options_) {
    if (!similar.offer(option.name)) break;
  }
  (void)similar.offer("help");
  const bool suggests = !similar.best().empty() && similar.meant().size() > 1;
  return formatted("unknown option {}{}{}", is_long ? "" : "-",
                   printable(is_long ? given : unknown_letter(argument, static_cast<char>(letter))),
                   suggests ? formatted(" (did you mean --{}?)", similar.best()) : "");
}

std::optional<std::string> Arguments::parse(std::span<const std::string> arguments) {
  std::vector<std::string> copies(arguments.begin(), arguments.end());
  std::string program = "safetensors";
  std::vector<char*> argv = {program.data()};
  for (std::string& copy : copies) argv.push_back(copy.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(argv.size()) - 1;

  std::string letters = "-:";  // '-': report positional arguments in order; ':': report a missing value as ':'
  std::vector<::option> table;
  for (const Option& option : options_) {
    if (!option.take) std::abort();
    const int code = kFirstOption + static_cast<int>(table.size());
    table.push_back({option.name.c_str(), option.takes_value ? required_argument : no_argument, nullptr, code});
    if (option.letter != '\0') (letters += option.letter) += option.takes_value ? ":" : "";
  }
  // A digit is positional, unless it is the letter of an option.
  const auto is_number = [&](int code) {
    return is_digit(code) && std::ranges::find(options_, static_cast<char>(code), &Option::letter) == options_.end();
  };
  for (char digit = '0'; digit <= '9'; ++digit) {
    if (is_number(digit)) (letters += digit) += "::";
  }
  table.push_back({});
  opterr = 0;
  optind = 0;  // resets getopt_long()
  while (true) {
    const std::string_view spelled =
        argc > std::max(optind, 1) ? argv[static_cast<std::size_t>(std::max(optind, 1))] : "";
    const int code = ::getopt_long(argc, argv.data(), letters.c_str(), table.data(), nullptr);
    if (code == -1) break;
    if (code == kPositional) {
      positionals_->emplace_back(optarg);
    } else if (is_number(code) && spelled[1] == code) {
      positionals_->emplace_back(spelled);
    } else if (is_number(code)) {
      return unknown(spelled, code);
    } else if (code == ':') {
      return needs_value(options_[option_of(optopt)].name);
    } else if (code != '?') {
      if (auto wrong = take(code, spelled, optarg)) return wrong;
    } else if (optopt >= kFirstOption) {
      return formatted("--{} takes no value", options_[option_of(optopt)].name);
    } else {
      return unknown(spelled, optopt);
    }
  }
  for (int i = optind; i < argc; ++i) positionals_->emplace_back(argv[static_cast<std::size_t>(i)]);
  return std::nullopt;
}

std::string not_a_choice(std::string_view what, std::string_view choices, std::string_view text) {
  file::DidYouMean similar(text);
  const auto list = split_choices(choices);
  std::string error = formatted("{} is ", what);
  for (std::size_t i = 0; i < list.size(); ++i) {
    (void)similar.offer(list[i]);
    (error += i == 0 ? "" : i + 1 < list.size() ? ", " : " or ") += list[i];
  }
  error += formatted(", not {}", printable(text));
  return similar.best().empty() ? error : error + formatted(" (did you mean {}?)", similar.best());
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos ? base::parse_size(text) : std::nullopt;
}

}  // namespace safetensors::cli
