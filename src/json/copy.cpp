// A loop over the tokens of a value, without recursion: a hostile text cannot exhaust the stack. The reader limits the
// depth, so one bit per level says which bracket closes it.
#include "json/copy.h"

#include <bitset>

#include "json/writer.h"

namespace safetensors::json {
namespace {

class Copy {
 public:
  Copy(Reader& reader, unsigned open, std::string& out, Lines lines) noexcept
      : reader_(reader), out_(out), open_(open), outside_(open), indented_(lines == Lines::indented) {}

  bool run() {
    while (true) {
      bool complete = true;
      if (!value(complete)) return false;
      if (!complete) continue;
      bool more = false;
      while (open_ > outside_ && !more) {
        if (!reader_.next(closing(), more)) return false;
        if (!more) close();
      }
      if (open_ == outside_) return true;
      out_ += ',';
      if (!begin_element()) return false;
    }
  }

 private:
  [[nodiscard]] char closing() const { return is_object_[open_] ? '}' : ']'; }

  // Copies a scalar, an empty container, or the opening bracket of another container. complete: false for the last.
  bool value(bool& complete) {
    const char c = reader_.peek();
    if (c == '{' || c == '[') return open(c, complete);
    if (c == '"') {
      std::string_view text;
      if (!reader_.string(text)) return false;
      append(text);
      return true;
    }
    const char* const start = reader_.position();
    if (!reader_.skip_value(open_)) return false;
    out_.append(start, static_cast<const char*>(reader_.position()));
    return true;
  }

  bool open(char bracket, bool& complete) {
    if (open_ == Reader::kMaxDepth)
      return reader_.fail(Errc::json_depth, reader_.offset(), "more than 127 open containers");
    if (!reader_.open(bracket, "")) return false;
    is_object_[++open_] = bracket == '{';
    out_ += bracket;
    if (reader_.consume(closing())) {
      out_ += closing();
      --open_;
      return true;
    }
    complete = false;
    return begin_element();
  }

  void close() {
    const char bracket = closing();
    --open_;
    if (indented_) append_line(out_, open_);
    out_ += bracket;
  }

  bool begin_element() {
    if (indented_) append_line(out_, open_);
    if (!is_object_[open_]) return true;
    std::string_view key;
    std::size_t start = 0;
    if (!reader_.key(key, start)) return false;
    append(key);
    out_ += indented_ ? ": " : ":";
    return true;
  }

  void append(std::string_view text) { indented_ ? append_ascii_string(out_, text) : append_string(out_, text); }

  Reader& reader_;
  std::string& out_;
  unsigned open_;  // open containers, in the text of the reader and in the copy
  const unsigned outside_;
  const bool indented_;
  std::bitset<Reader::kMaxDepth + 1> is_object_;  // index: open_
};

}  // namespace

bool copy_value(Reader& reader, unsigned open, std::string& out, Lines lines) {
  return Copy(reader, open, out, lines).run();
}

void append_line(std::string& out, unsigned depth) {
  out += '\n';
  out.append(std::size_t{2} * depth, ' ');
}

}  // namespace safetensors::json
