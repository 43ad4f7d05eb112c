// The command line of one subcommand, parsed by its table entry.
#pragma once

#include "command.h"

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// An error in the command line. The text is escaped for display. main() prints it with a hint about --help.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a number: digits only.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// Options may stand before, between and after the positional arguments. After "--" every argument is positional, and so
// is "-" followed by a digit, unless it is the value of an option. Values are not changed. The functions take the name
// of an option without dashes. An option that the command lacks is never given.
class Arguments {
 public:
  // Throws UsageError for the first error.
  Arguments(const Command& command, std::span<const std::string> words);

  std::vector<std::string> positionals;

  [[nodiscard]] bool has(std::string_view name) const;
  [[nodiscard]] bool json() const { return has("json"); }
  [[nodiscard]] std::optional<std::string> value(std::string_view name) const;
  // All values of an option that may be given several times.
  [[nodiscard]] std::vector<std::string> values(std::string_view name) const;
  // Returns the value as a number. Throws UsageError "--name is KIND" if the value is not a number. parse: parse_size()
  // for sizes such as 5GB.
  using Parser = std::optional<std::uint64_t>(std::string_view text);
  [[nodiscard]] std::optional<std::uint64_t> number(std::string_view name, const char* kind = "a number, such as 10",
                                                    Parser* parse = &parse_number) const;
  // Throws UsageError if there is no positional argument.
  void need_path() const;

 private:
  struct Given {
    const Option* option;
    std::string value;  // empty for a flag
  };
  using Words = std::span<const std::string>;
  using Word = Words::iterator;
  void take(const Option& option, std::string_view value, bool has_value, Word& word, Words words);
  void check_apart() const;
  [[nodiscard]] std::string unknown(std::string_view argument, std::size_t letter) const;

  const Command& command_;
  std::vector<Given> given_;
};

// The text of an error: "WHAT is a, b or c, not TEXT (did you mean b?)". choices: "a|b|c". TEXT is escaped.
[[nodiscard]] std::string not_a_choice(std::string_view what, std::string_view choices, std::string_view text);

}  // namespace safetensors::cli
