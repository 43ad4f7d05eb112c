// The command line of one subcommand.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// Options may stand before, between and behind the positional arguments; behind "--" everything is positional. What
// is given arrives byte for byte, whatever characters it is made of. The variables must outlive parse().
class Arguments {
 public:
  Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  ~Arguments();

  // names: "--json" or "-o,--output".
  void flag(const std::string& names, bool& given);
  void value(const std::string& names, std::optional<std::string>& value);
  void values(const std::string& names, std::vector<std::string>& values);  // may be given several times
  void positionals(std::vector<std::string>& values);

  // Nothing when all is well, else what is wrong, safe to show.
  [[nodiscard]] std::optional<std::string> parse(std::span<const std::string> arguments);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

// A number: digits only.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// A number of bytes: digits only, with an optional KiB, MiB or GiB behind.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace safetensors::cli
