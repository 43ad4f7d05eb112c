// Writes each token of a value while it is read.
#include "json/copy.h"

#include "json/walk.h"
#include "json/writer.h"

namespace safetensors::json {
namespace {

struct Copy {
  std::string& out;
  const bool indented;

  bool scalar(Reader& reader, unsigned open) {
    if (reader.peek() == '"') {
      std::string_view text;
      if (!reader.string(text)) return false;
      append(text);
      return true;
    }
    const char* const start = reader.position();
    if (!reader.skip_value(open)) return false;
    out.append(start, static_cast<const char*>(reader.position()));
    return true;
  }
  void bracket(char opening) { out += opening; }
  void element(unsigned open) {
    if (indented) append_line(out, open);
  }
  void key(std::string_view text) {
    append(text);
    out += indented ? ": " : ":";
  }
  void comma() { out += ','; }
  void end(char closing, unsigned open, bool empty) {
    if (indented && !empty) append_line(out, open);
    out += closing;
  }
  void append(std::string_view text) { indented ? append_ascii_string(out, text) : append_string(out, text); }
};

}  // namespace

bool copy_value(Reader& reader, unsigned open, std::string& out, Lines lines) {
  return walk_value(reader, open, Copy{out, lines == Lines::indented});
}

void append_line(std::string& out, unsigned depth) {
  out += '\n';
  out.append(std::size_t{2} * depth, ' ');
}

}  // namespace safetensors::json
