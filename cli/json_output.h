// Writes a JSON document to the console without building it in memory.
#pragma once

#include "console.h"

#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace safetensors::cli {

// The caller opens and closes containers. This class adds commas and quotes. Numbers are exact, strings are escaped
// (text.h).
class Json {
 public:
  // Opens the document's object with "schema": "safetensors.NAME/1".
  Json(Console& console, std::string_view schema);
  // Closes that object and ends the line.
  void finish();

  Json& open(char bracket);   // '{' or '['
  Json& close(char bracket);  // '}' or ']'
  Json& line();               // the next key or value begins a new line
  Json& key(std::string_view name);
  Json& string(std::string_view text);
  Json& number(std::uint64_t number);
  Json& boolean(bool value);
  Json& null();
  Json& raw(std::string_view json);  // a value that is JSON already

  // Shorthands for a key and its value.
  Json& field(std::string_view name, std::string_view text) { return key(name).string(text); }
  Json& field(std::string_view name, const char* text) { return key(name).string(text); }
  Json& field(std::string_view name, std::uint64_t number_) { return key(name).number(number_); }
  // A template, because std::size_t is another type than std::uint64_t on macOS: it could convert to either one.
  template <std::same_as<bool> Bool>
  Json& field(std::string_view name, Bool value) {
    return key(name).boolean(value);
  }
  Json& field(std::string_view name, ShapeView shape);
  // "error": {"code", "number", "rule", "offset", "os_error", "message"}. Members that do not apply are null.
  Json& error(const Error& error);

 private:
  void separate();

  Console& console_;
  std::string indent_;
  bool first_ = true;  // whether the open container is still empty
  bool after_key_ = false;
  bool line_ = false;
};

// Runs `one` for each path and returns the highest exit code.
// as_json: the output is one JSON document of this command. Its field `list` is an array with one object per path, and
// `one` adds fields to the object of its path. Without as_json, `json` is null.
Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Exit(const std::string& path, Json* json)>& one,
                   std::string_view list = "files");

}  // namespace safetensors::cli
