// Any bytes as JSON. Our verdict equals that of Boost.JSON and simdjson, except for texts for which these are known to
// be laxer or stricter.
#include <simdjson.h>
#include <boost/json.hpp>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "json/reader.h"
#include "require.h"

namespace {

using fuzz::require;
using safetensors::Errc;
using safetensors::json::Reader;

// A padded copy of the text, as the reader requires it. The reader changes the copy.
class Text {
 public:
  explicit Text(std::string_view text) : bytes_(text.begin(), text.end()) {
    bytes_.resize(text.size() + Reader::kPadding);
  }
  Reader reader() { return Reader(bytes_.data(), bytes_.size() - Reader::kPadding); }

 private:
  std::vector<char> bytes_;
};

Errc verdict(std::string_view text) {
  if (safetensors::base::first_invalid_utf8(text) != std::string_view::npos) return Errc::invalid_utf8;
  Text copy(text);
  Reader reader = copy.reader();
  if (reader.skip_value(0) && reader.end()) return Errc::ok;
  require(reader.failure().offset <= text.size(), "the place is in the text");
  return reader.failure().code;
}

// The limits of depth and of numbers beyond double are our own, so there is nothing to compare.
bool comparable(Errc ours) {
  return ours != Errc::json_depth && ours != Errc::json_number;
}

void compare_boost(std::string_view text, Errc ours) {
  boost::json::parse_options options;
  options.max_depth = 1000;  // no other extension is on by default
  boost::json::error_code error;
  boost::json::monotonic_resource memory;
  const boost::json::value value = boost::json::parse(text, error, &memory, options);
  if (error == boost::json::error::exponent_overflow) return;  // an exponent larger than int, such as 0e9999999999
  require((ours == Errc::ok) == !error, "the verdict of Boost.JSON");
  if (error || !comparable(ours)) return;
  Text copy(text);
  Reader reader = copy.reader();
  std::string_view string;
  std::uint64_t number = 0;
  if (value.is_string()) {
    require(reader.string(string) && string == std::string_view(value.get_string()), "the string of Boost.JSON");
  } else if (value.is_int64() && value.get_int64() >= 0 && text.find('-') == text.npos) {
    require(reader.integer(number) && number == static_cast<std::uint64_t>(value.get_int64()), "the same integer");
  } else if (value.is_uint64()) {
    require(reader.integer(number) && number == value.get_uint64(), "the same integer");
  }
}

void compare_simdjson(std::string_view text, Errc ours) {
  static simdjson::dom::parser parser;
  if (parser.max_depth() != 1000) require(parser.allocate(1 << 16, 1000) == simdjson::SUCCESS, "memory");
  const simdjson::padded_string padded(text);
  const simdjson::error_code error = parser.parse(padded).error();
  if (error == simdjson::NUMBER_ERROR && ours == Errc::ok) return;  // an integer beyond 64 bits
  require((ours == Errc::ok) == (error == simdjson::SUCCESS), "the verdict of simdjson");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Errc ours = verdict(text);
  require(ours == Errc::ok || ours == Errc::invalid_utf8 || ours == Errc::json_syntax || !comparable(ours),
          "a value is ignored whatever its type");
  if (!comparable(ours)) return 0;
  compare_boost(text, ours);
  compare_simdjson(text, ours);
  return 0;
}
