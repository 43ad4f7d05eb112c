// Writes a JSON document without building it in memory.
#pragma once

#include "console.h"

#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::cli {

// A value that is JSON already.
struct RawJson {
  std::string text;
};

// The caller opens and closes containers. This class adds commas and quotes. Numbers are exact, strings are escaped
// (text.h).
class Json {
 public:
  // Opens the document's object with "schema": "safetensors.NAME/1". out: gets the text, piece by piece.
  Json(std::function<void(std::string_view)> out, std::string_view schema);
  Json(Console& console, std::string_view schema)
      : Json([&console](std::string_view text) { console.out(text); }, schema) {}
  // Closes that object and ends the line.
  void finish();

  Json& open(char bracket);   // '{' or '['
  Json& close(char bracket);  // '}' or ']'
  Json& line();               // the next key or value begins a new line
  Json& key(std::string_view name);
  Json& raw(std::string_view json);  // a value that is JSON already

  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(const std::string& text) { return value(std::string_view(text)); }
  // std::size_t is another type than std::uint64_t on macOS. A pointer would convert to bool.
  template <std::integral Number>
  Json& value(Number number) {
    if constexpr (std::same_as<Number, bool>) return raw(number ? "true" : "false");
    return raw(std::to_string(number));
  }
  // "inf" if the number is not finite.
  Json& value(double number);
  Json& value(const RawJson& json) { return raw(json.text); }
  Json& value(ShapeView shape);
  Json& value(std::nullopt_t /*none*/) { return raw("null"); }
  template <class Value>
  Json& value(const std::optional<Value>& wanted) {
    return wanted ? value(*wanted) : value(std::nullopt);
  }
  Json& value(const std::vector<std::string>& texts) {
    return array(texts, [&](const std::string& text) { value(text); });
  }
  // An array. item: writes the element for an item of the list.
  template <class List, class Item>
  Json& array(const List& list, const Item& item) {
    open('[');
    for (const auto& one : list) item(one);
    return close(']');
  }
  // A key and an array of objects. members: writes those of one object.
  template <class List, class Members>
  Json& objects(std::string_view name, const List& list, const Members& members) {
    return key(name).array(list, [&](const auto& one) {
      line().open('{');
      members(one);
      close('}');
    });
  }
  // A key and its value.
  template <class Value>
  Json& field(std::string_view name, const Value& wanted) {
    return key(name).value(wanted);
  }
  // "error": {"code", "number", "rule", "offset", "os_error", "message"}. Members that do not apply are null.
  Json& error(const Error& error);

 private:
  void separate();

  std::function<void(std::string_view)> out_;
  std::string indent_;
  bool first_ = true;  // whether the open container is still empty
  bool after_key_ = false;
  bool line_ = false;
};

}  // namespace safetensors::cli
