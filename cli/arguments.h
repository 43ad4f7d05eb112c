// The command line of one subcommand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// Options may stand before, between and after the positional arguments; after "--" everything is positional. Values
// arrive byte for byte. The variables must outlive parse().
class Arguments {
 public:
  // names: "--json" or "-o,--output".
  void flag(const std::string& names, bool& given);
  void value(const std::string& names, std::optional<std::string>& value);
  void values(const std::string& names, std::vector<std::string>& values);  // may be given several times
  void positionals(std::vector<std::string>& list) { positionals_ = &list; }

  // Nothing if all arguments are good, else the first error, safe to show. From one thread at a time.
  [[nodiscard]] std::optional<std::string> parse(std::span<const std::string> arguments);

 private:
  struct Option {
    char letter;  // or 0
    std::string name;
    std::function<void(const char* value)> take;
    bool takes_value;
    bool repeats;
    bool given = false;
  };
  void add(const std::string& names, std::function<void(const char* value)> take, bool takes_value, bool repeats);
  [[nodiscard]] std::optional<std::string> take(Option& option, std::string_view spelled, const char* value);

  std::vector<Option> options_;
  std::vector<std::string>* positionals_ = nullptr;
};

// A number: digits only.
[[nodiscard]] std::optional<std::uint64_t> parse_number(std::string_view text);

// A number of bytes: digits only, with an optional KiB, MiB or GiB at the end.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace safetensors::cli
