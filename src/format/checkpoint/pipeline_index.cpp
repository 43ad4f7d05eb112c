// Reads the object with the strict reader. A member is kept only if its value is an array of exactly two strings.
#include "format/checkpoint/pipeline_index.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "json/reader.h"

namespace safetensors::format {
namespace {

class PipelineIndexParser {
 public:
  // text: with the padding of the reader behind `size` bytes.
  PipelineIndexParser(char* text, std::size_t size) : reader_(text, size) {}

  bool parse() {
    if (!reader_.open('{', "expected an object")) return false;
    for (bool more = !reader_.consume('}'); more;) {
      std::string_view key;
      std::size_t start = 0;
      if (!reader_.key(key, start)) return false;
      PipelineComponent component{std::string(key), {}, {}};
      bool is_pair = false;
      if (!value(component, is_pair) || !reader_.next('}', more)) return false;
      if (is_pair && !component.name.starts_with('_')) components_.push_back(std::move(component));
    }
    return reader_.end();
  }
  [[nodiscard]] const json::Failure& failure() const { return reader_.failure(); }
  [[nodiscard]] std::vector<PipelineComponent> take() { return std::move(components_); }

 private:
  bool value(PipelineComponent& component, bool& is_pair) {
    if (reader_.peek() != '[') return reader_.skip_value(1);
    if (!reader_.open('[', "expected an array")) return false;
    std::size_t strings = 0;
    std::size_t count = 0;
    for (bool more = !reader_.consume(']'); more; ++count) {
      if (count < 2 && reader_.peek() == '"') {
        std::string_view text;
        if (!reader_.string(text)) return false;
        (count == 0 ? component.library : component.class_name) = text;
        ++strings;
      } else if (!reader_.skip_value(2)) {
        return false;
      }
      if (!reader_.next(']', more)) return false;
    }
    is_pair = count == 2 && strings == 2;
    return true;
  }

  json::Reader reader_;
  std::vector<PipelineComponent> components_;
};

}  // namespace

Result<std::vector<PipelineComponent>> parse_pipeline_index(std::string text) {
  const std::size_t size = text.size();
  text.resize(size + json::Reader::kPadding);
  PipelineIndexParser parser(text.data(), size);
  if (parser.parse()) return parser.take();
  Error error = base::make_error(parser.failure().code, parser.failure().what);
  error.offset = parser.failure().offset;
  return error;
}

}  // namespace safetensors::format
