// Parses the command line of one subcommand, whose options are those of its table entry.
#pragma once

#include "command.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Options may stand before, between and after the positional arguments. After "--" every argument is positional, and so
// is "-" followed by a digit, unless it is the value of an option. Values are not changed. The variables must outlive
// parse().
class Arguments {
 public:
  explicit Arguments(const Command& command);

  // Each option of the command gets one variable. name: without dashes. A name that the command does not have, and an
  // option without a variable, abort in parse() or before.
  void flag(std::string_view name, bool& given);
  void value(std::string_view name, std::optional<std::string>& value);
  void values(std::string_view name, std::vector<std::string>& values);  // may be given several times
  void positionals(std::vector<std::string>& list) { positionals_ = &list; }

  // Returns nullopt if all arguments are valid, otherwise the text of the first error, escaped for display. Only one
  // thread may call it at a time, because getopt_long() has global state.
  [[nodiscard]] std::optional<std::string> parse(std::span<const std::string> arguments);

 private:
  struct Option {
    char letter;  // or 0
    std::string name;
    const char* choices;  // or nullptr
    std::function<void(const char* value)> take;
    bool takes_value;
    bool repeats = false;
    bool given = false;
  };
  void bind(std::string_view name, std::function<void(const char* value)> take, bool takes_value, bool repeats);
  [[nodiscard]] std::optional<std::string> take(int code, std::string_view spelled, const char* value);
  [[nodiscard]] std::size_t option_of(int code) const;
  [[nodiscard]] std::string unknown(std::string_view argument, int letter) const;

  std::string command_;
  bool takes_models_;
  std::vector<Option> options_;
  std::vector<std::string>* positionals_ = nullptr;
};

// The text of an error: "WHAT is a, b or c, not TEXT (did you mean b?)". choices: "a|b|c". TEXT is escaped.
[[nodiscard]] std::string not_a_choice(std::string_view what, std::string_view choices, std::string_view text);

// Parses a number: digits only.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

}  // namespace safetensors::cli
