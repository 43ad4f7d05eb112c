// Parses the command line of one subcommand with getopt_long(), the parser of the C library.
//
// getopt_long() also accepts the beginning of a long option. This is refused here: a new option could make the
// beginning ambiguous later. An argument such as -1 is positional, because slices and names can begin like this. For
// getopt_long(), each digit is an option with an optional value, so it takes the whole argument at once.
#include "arguments.h"

#include <getopt.h>
#include <safetensors/error.h>

#include <algorithm>

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

Arguments::Arguments(const Command& command, std::span<const std::string> words) : command_(command) {
  std::vector<std::string> copies(words.begin(), words.end());
  std::string program = "safetensors";
  std::vector<char*> argv = {program.data()};
  for (std::string& copy : copies) argv.push_back(copy.data());
  argv.push_back(nullptr);
  const int argc = static_cast<int>(argv.size()) - 1;

  std::string letters = "-:";  // '-': report positional arguments in order; ':': report a missing value as ':'
  std::vector<::option> table;
  for (const Option& option : command.options) {
    const int code = kFirstOption + static_cast<int>(table.size());
    table.push_back({option_name(option).data(), option.value != nullptr, nullptr, code});
    const char letter = option_letter(option);
    if (letter != '\0') (letters += letter) += option.value != nullptr ? ":" : "";
  }
  // A digit is positional, unless it is the letter of an option.
  const auto is_number = [&](int code) { return is_digit(code) && option_of(code) == nullptr; };
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
      positionals.emplace_back(optarg);
    } else if (is_number(code) && spelled[1] == code) {
      positionals.emplace_back(spelled);
    } else if (is_number(code)) {
      throw UsageError(unknown(spelled, code));
    } else if (code == ':') {
      throw UsageError(formatted("--{} needs a value", option_name(*option_of(optopt))));
    } else if (code != '?') {
      take(*option_of(code), spelled, optarg);
    } else if (optopt >= kFirstOption) {
      throw UsageError(formatted("--{} takes no value", option_name(*option_of(optopt))));
    } else {
      throw UsageError(unknown(spelled, optopt));
    }
  }
  for (int i = optind; i < argc; ++i) positionals.emplace_back(argv[static_cast<std::size_t>(i)]);
  check_apart();
}

// The option with this code, or nullptr.
const Option* Arguments::option_of(int code) const {
  if (code >= kFirstOption) return &command_.options[static_cast<std::size_t>(code - kFirstOption)];
  const auto found = std::ranges::find(command_.options, static_cast<char>(code), option_letter);
  return found == command_.options.end() ? nullptr : &*found;
}

void Arguments::take(const Option& option, std::string_view spelled, const char* value) {
  const std::string_view name = option_name(option);
  if (spelled.starts_with("--") && spelled.substr(2, spelled.find('=') - 2) != name)
    throw UsageError(
        formatted("unknown option {} (is it --{}?)", printable(spelled.substr(0, spelled.find('='))), name));
  if (option.value != nullptr && !option.repeats && has(name))
    throw UsageError(formatted("--{} is given more than once", name));
  if (option.choices != nullptr && std::ranges::count(split(option.choices, '|'), std::string_view(value)) == 0)
    throw UsageError(not_a_choice(formatted("--{}", name), option.choices, value));
  given_.push_back({&option, option.value == nullptr ? "" : value});
}

// "--a and --b do not go with --c and --d"
void Arguments::check_apart() const {
  const auto any = [&](const std::vector<std::string_view>& names) {
    return std::ranges::any_of(names, [&](std::string_view name) { return has(name); });
  };
  const auto text = [](const std::vector<std::string_view>& names) {
    std::string list;
    for (std::size_t i = 0; i < names.size(); ++i)
      list += formatted("{}--{}", i == 0 ? "" : i + 1 < names.size() ? ", " : " and ", names[i]);
    return list;
  };
  for (const Apart& apart : command_.apart) {
    const auto names = split(apart.options, '|');
    const auto others = split(apart.others, '|');
    if (any(names) && any(others))
      throw UsageError(formatted("{} {} not go with {}", text(names), names.size() == 1 ? "does" : "do", text(others)));
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

std::optional<std::uint64_t> Arguments::number(std::string_view name, const char* kind) const {
  const auto text = value(name);
  const auto parsed = text ? parse_number(*text) : std::nullopt;
  if (text && !parsed) throw UsageError(formatted("--{} is {}", name, kind));
  return parsed;
}

std::optional<std::uint64_t> Arguments::size(std::string_view name, const char* kind) const {
  const auto text = value(name);
  const auto parsed = text ? parse_size(*text) : std::nullopt;
  if (text && !parsed) throw UsageError(formatted("--{} is {}", name, kind));
  return parsed;
}

void Arguments::need_path(bool several) const {
  if (positionals.empty() && several) throw UsageError("which PATH?");
  if (positionals.size() != 1 && !several) throw UsageError("takes one PATH");
}

// argument: with its dashes. letter: the unknown one, if it has one dash. "-json" suggests --json, too.
std::string Arguments::unknown(std::string_view argument, int letter) const {
  const bool is_long = argument.starts_with("--");
  const std::string_view given = argument.substr(0, argument.find('='));
  if (takes_models(command_) && (given == "--recursive" || (!is_long && letter == 'R')))
    return formatted("{} has no --recursive: it {}", command_.name,
                     command_.name == std::string_view("page") ? "makes one page per model, run it for each"
                                                               : "takes one model at a time, run it for each");
  file::DidYouMean similar(given.substr(is_long ? 2 : 1));
  for (const Option& option : command_.options) {
    if (!similar.offer(option_name(option))) break;
  }
  (void)similar.offer("help");
  const bool suggests = !similar.best().empty() && similar.meant().size() > 1;
  return formatted("unknown option {}{}{}", is_long ? "" : "-",
                   printable(is_long ? given : unknown_letter(argument, static_cast<char>(letter))),
                   suggests ? formatted(" (did you mean --{}?)", similar.best()) : "");
}

std::string not_a_choice(std::string_view what, std::string_view choices, std::string_view text) {
  file::DidYouMean similar(text);
  const auto list = split(choices, '|');
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
