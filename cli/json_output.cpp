// A comma is due before every member of a container except the first, and never after a key. Members are indented by
// the depth of their container.
#include "json_output.h"

#include "text/text.h"

#include <cmath>

namespace safetensors::cli {

Json::Json(std::function<void(std::string_view)> out, std::string_view schema) : out_(std::move(out)) {
  open('{').key("schema").value(formatted("safetensors.{}/1", schema));
}

void Json::finish() {
  close('}');
  out_("\n");
}

void Json::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) out_(line_ ? "," : ", ");
  if (line_) out_("\n" + indent_);
  first_ = false;
  line_ = false;
}

Json& Json::open(char bracket) {
  separate();
  out_({&bracket, 1});
  first_ = true;
  indent_ += ' ';
  return *this;
}

Json& Json::close(char bracket) {
  out_({&bracket, 1});
  first_ = false;
  line_ = false;
  indent_.pop_back();
  return *this;
}

Json& Json::line() {
  line_ = true;
  return *this;
}

Json& Json::key(std::string_view name) {
  value(name);
  out_(": ");
  after_key_ = true;
  return *this;
}

Json& Json::value(std::string_view text) {
  return raw('"' + json_escaped(text) + '"');
}

Json& Json::value(double number) {
  return std::isfinite(number) ? raw(formatted("{}", number)) : value("inf");
}

Json& Json::raw(std::string_view json) {
  separate();
  out_(json);
  return *this;
}

Json& Json::value(ShapeView shape) {
  return array(shape, [&](std::uint64_t dimension) { value(dimension); });
}

Json& Json::error(const Error& error) {
  key("error").open('{');
  field("code", to_string(error.code)).field("number", std::uint64_t{static_cast<std::uint16_t>(error.code)});
  const auto optional = [&](std::string_view name, bool present, std::uint64_t number) {
    field(name, present ? std::optional(number) : std::nullopt);
  };
  const int rule = format_rule(error.code);
  optional("rule", rule != 0, static_cast<std::uint64_t>(rule));
  optional("offset", error.offset != Error::kNoOffset, error.offset);
  optional("os_error", error.os_error != 0, static_cast<std::uint64_t>(error.os_error));
  return field("message", error.message).close('}');
}

}  // namespace safetensors::cli
