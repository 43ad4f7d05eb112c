#include "arguments.h"

#include <safetensors/error.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>

namespace safetensors::cli {
namespace {

// CLI11 gives some values a meaning of its own ("[a,b]", "{}", "%%"). This character in front of a value, taken off
// when it arrives, keeps them out of its sight.
constexpr char kGuard = '\x01';

std::string guarded(const std::string& argument) {
  if (argument.size() < 2 || argument[0] != '-') return kGuard + argument;
  const std::size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == std::string::npos) return argument;
  return argument.substr(0, equals + 1) + kGuard + argument.substr(equals + 1);
}

std::string unguarded(std::string value) {
  if (!value.empty() && value[0] == kGuard) value.erase(0, 1);
  return value;
}

}  // namespace

struct Arguments::Parser {
  CLI::Option* add(const std::string& names, CLI::callback_t take) {
    return app.add_option(names, std::move(take))->take_all();
  }

  CLI::App app;
  std::string wrong;  // what a callback finds wrong
};

Arguments::Arguments() : parser_(std::make_unique<Parser>()) {
  parser_->app.set_help_flag();
  parser_->app.allow_extras();
}

Arguments::~Arguments() = default;

void Arguments::flag(const std::string& names, bool& given) {
  parser_->app.add_flag(names, given);
}

void Arguments::value(const std::string& names, std::optional<std::string>& value) {
  std::string& wrong = parser_->wrong;
  const std::string name = names.substr(names.rfind(',') + 1);
  parser_->add(names, [&value, &wrong, name](const CLI::results_t& results) {
    if (results.size() > 1) wrong = name + " is given more than once";
    value = unguarded(results.at(0));
    return true;
  });
}

void Arguments::values(const std::string& names, std::vector<std::string>& values) {
  parser_->add(names, [&values](const CLI::results_t& results) {
    for (const std::string& result : results) values.push_back(unguarded(result));
    return true;
  });
}

void Arguments::positionals(std::vector<std::string>& list) {
  const auto take = [&list](const CLI::results_t& results) {
    for (const std::string& result : results) list.push_back(unguarded(result));
    return true;
  };
  parser_->add("ARGUMENTS", take)->expected(0, CLI::detail::expected_max_vector_size)->allow_extra_args();
}

std::optional<std::string> Arguments::parse(std::span<const std::string> arguments) {
  std::vector<std::string> reversed;
  bool options_end = false;
  for (const std::string& argument : arguments) {
    if (!options_end && argument == "--") {
      options_end = true;
      continue;
    }
    reversed.push_back(options_end ? kGuard + argument : guarded(argument));
  }
  std::reverse(reversed.begin(), reversed.end());
  try {
    parser_->app.parse(std::move(reversed));
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string_view text = error.what();
    return fmt::format("{} needs a value", printable(text.substr(0, text.find(':'))));
  } catch (const CLI::ParseError& error) {
    return printable(error.what());
  }
  if (!parser_->wrong.empty()) return parser_->wrong;
  const std::vector<std::string> unknown = parser_->app.remaining();
  if (!unknown.empty()) return fmt::format("unknown option {}", printable(unguarded(unknown[0])));
  return std::nullopt;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  return text.find_first_not_of("0123456789") == std::string_view::npos ? parse_bytes(text) : std::nullopt;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc{}) return std::nullopt;
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const unsigned shift = unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : 0;
  if ((shift == 0 && !unit.empty()) || (number << shift) >> shift != number) return std::nullopt;
  return number << shift;
}

}  // namespace safetensors::cli
