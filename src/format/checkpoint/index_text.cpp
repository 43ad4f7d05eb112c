// Writes an index. The members of `metadata` are copied token by token, so the index is valid JSON whatever the caller
// gives.
#include "format/checkpoint/index_text.h"

#include <functional>
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
  std::set<std::string, std::less<>> seen;
  const auto append = [&](std::string_view key, std::size_t start) {
    if (!seen.emplace(key).second) return reader.fail(Errc::duplicate_name, start, "a second member of this name");
    const std::size_t before = out.size();
    out += ',';
    json::append_line(out, kMemberDepth);
    json::append_ascii_string(out, key);
    out += ": ";
    const bool skipped = key == "total_size";
    if (!json::copy_value(reader, kMemberDepth, &out, json::Lines::indented)) return false;
    if (skipped) out.resize(before);
    return true;
  };
  return reader.members("it is not an object", append) && reader.end();
}

}  // namespace

Status IndexText::metadata(std::uint64_t total_size, std::string_view others) {
  text_ = "{\n  \"metadata\": {\n    \"total_size\": ";
  text_ += std::to_string(total_size);
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

// Each entry is a line that ends with `: "FILE"` and perhaps a comma, because JSON escapes the ends of lines and the
// quotes in names. The entries of one file follow each other, in the order of the files. The members of `metadata` are
// deeper, so the first line of this form at depth 1 begins the entries.
std::string rename_files(std::string_view text, std::span<const std::string> from, std::span<const std::string> to) {
  constexpr std::string_view kEntries = "\n  \"weight_map\": {";
  const auto end_of_entry = [](const std::string& file) {
    std::string end = ": ";
    json::append_ascii_string(end, file);
    return end;
  };
  std::size_t done = text.find(kEntries) + kEntries.size();
  std::string out(text.substr(0, done));
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::string old_end = end_of_entry(from[i]), new_end = end_of_entry(to[i]);
    while (true) {
      const std::size_t line_end = text.find('\n', done + 2);  // the line begins behind a comma, or where the text does
      const std::size_t end = text[line_end - 1] == ',' ? line_end - 1 : line_end;
      if (!text.substr(done, end - done).ends_with(old_end)) break;
      out.append(text.substr(done, end - old_end.size() - done)).append(new_end);
      done = end;
    }
  }
  return out.append(text.substr(done));
}

}  // namespace safetensors::format
