// Reads the tokens of a value without recursion, so that a hostile text cannot exhaust the stack, and writes each.
#include "json/copy.h"

#include <bitset>

#include "json/writer.h"

namespace safetensors::json {
namespace {

// Where the copy goes, if anywhere.
struct Copy {
  std::string* out;
  const bool indented;

  void text(std::string_view plain) const {
    if (out != nullptr) out->append(plain);
  }
  void string(std::string_view content) const {
    if (out != nullptr) indented ? append_ascii_string(*out, content) : append_string(*out, content);
  }
  void line(unsigned depth) const {
    if (out != nullptr && indented) append_line(*out, depth);
  }

  [[nodiscard]] bool scalar(Reader& reader) const {
    if (reader.peek() == '"') {
      std::string_view content;
      if (!reader.string(content)) return false;
      string(content);
      return true;
    }
    const char* const start = reader.position();
    if (!reader.skip_scalar()) return false;
    text({start, static_cast<std::size_t>(reader.position() - start)});
    return true;
  }
};

}  // namespace

// The depth has a limit, so a bit for each level is enough to know its closing bracket.
bool copy_value(Reader& reader, unsigned open, std::string* out, Lines lines) {
  const Copy copy{out, lines == Lines::indented};
  std::bitset<Reader::kMaxDepth + 1> is_object;  // index: depth
  const unsigned outside = open;
  const auto closing = [&] { return is_object[open] ? '}' : ']'; };
  const auto close = [&] { copy.text(is_object[open--] ? "}" : "]"); };
  while (true) {
    const char c = reader.peek();
    bool more = false;  // another element follows in the innermost container
    bool complete = true;
    if (c == '{' || c == '[') {
      if (open == Reader::kMaxDepth)
        return reader.fail(Errc::json_depth, reader.offset(), "more than 127 open containers");
      (void)reader.consume(c);
      copy.text({&c, 1});
      is_object[++open] = c == '{';
      complete = reader.consume(closing());
      if (complete) close();
    } else if (!copy.scalar(reader)) {
      return false;
    }
    while (complete && open > outside && !more) {
      if (!reader.next(closing(), more)) return false;
      if (!more) copy.line(open - 1), close();
    }
    if (open == outside) return true;
    if (more) copy.text(",");
    copy.line(open);
    if (!is_object[open]) continue;
    std::string_view key;
    std::size_t start = 0;
    if (!reader.key(key, start)) return false;
    copy.string(key);
    copy.text(copy.indented ? ": " : ":");
  }
}

void append_line(std::string& out, unsigned depth) {
  out += '\n';
  out.append(std::size_t{2} * depth, ' ');
}

}  // namespace safetensors::json
