// Writes an index. The members of `metadata` are copied token by token, so the index is valid JSON whatever the caller
// gives.
#include "format/checkpoint/index_text.h"

#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "json/copy.h"
#include "json/reader.h"
#include "json/writer.h"

namespace safetensors::format {
namespace {

constexpr unsigned kMemberDepth = 2;  // of the members of metadata and of weight_map

// Appends the members of an object, except total_size.
bool append_members(json::Reader& reader, std::string& out) {
  if (!reader.open('{', "it is not an object")) return false;
  std::set<std::string, std::less<>> seen;
  for (bool more = !reader.consume('}'); more;) {
    std::string_view key;
    std::size_t start = 0;
    if (!reader.key(key, start)) return false;
    if (!seen.emplace(key).second) return reader.fail(Errc::duplicate_name, start, "a second member of this name");
    const std::size_t before = out.size();
    out += ',';
    json::append_line(out, kMemberDepth);
    json::append_ascii_string(out, key);
    out += ": ";
    const bool skipped = key == "total_size";
    if (!json::copy_value(reader, kMemberDepth, &out, json::Lines::indented)) return false;
    if (skipped) out.resize(before);
    if (!reader.next('}', more)) return false;
  }
  return reader.end();
}

}  // namespace

Status IndexText::metadata(std::uint64_t total_size, std::string_view others) {
  text_ = "{\n  \"metadata\": {\n    \"total_size\": ";
  json::append_integer(text_, total_size);
  if (!others.empty()) {
    std::string text(others);  // the reader changes its text
    text.append(json::Reader::kPadding, '\0');
    json::Reader reader(text.data(), others.size());
    if (!append_members(reader, text_)) {
      const json::Failure& failure = reader.failure();
      return base::make_error(Errc::invalid_argument, "index_metadata must be a JSON object: byte " +
                                                          std::to_string(failure.offset) + ": " + failure.what);
    }
  }
  text_ += "\n  },\n  \"weight_map\": {";
  return {};
}

void IndexText::tensor(std::string_view name, std::string_view file) {
  if (std::exchange(has_tensor_, true)) text_ += ',';
  json::append_line(text_, kMemberDepth);
  json::append_ascii_string(text_, name);
  text_ += ": ";
  json::append_ascii_string(text_, file);
}

std::string IndexText::finish() && {
  text_ += "\n  }\n}";
  return std::move(text_);
}

// Each entry is a line that ends with `: "FILE"` and perhaps a comma, because JSON escapes the ends of lines in names.
// The name of a file has no colon, so the last `: "` of the line stands before it. The members of `metadata` are
// deeper, so the first line of this form at depth 1 begins the entries.
std::string rename_files(std::string_view text, std::span<const std::string> from, std::span<const std::string> to) {
  constexpr std::string_view kEntries = "\n  \"weight_map\": {";
  const auto quoted = [](const std::string& name) {
    std::string literal;
    json::append_ascii_string(literal, name);
    return literal;
  };
  std::map<std::string, std::string, std::less<>> renamed;
  for (std::size_t i = 0; i < from.size(); ++i) renamed.emplace(quoted(from[i]), quoted(to[i]));
  std::size_t done = text.find(kEntries) + kEntries.size();
  std::string out(text.substr(0, done));
  for (std::size_t end = 0; (end = text.find('\n', done + 1)) != text.npos; done = end) {
    std::string_view entry = text.substr(done, end - done);
    const std::string_view comma = entry.ends_with(',') ? "," : "";
    entry.remove_suffix(comma.size());
    const std::size_t colon = entry.rfind(": \"");
    if (colon == entry.npos) break;  // a line after the last entry
    const std::size_t file = colon + 2;
    out.append(entry.substr(0, file)).append(renamed.find(entry.substr(file))->second).append(comma);
  }
  return out.append(text.substr(done));
}

}  // namespace safetensors::format
