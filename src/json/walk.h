// Walks over the tokens of a JSON value, without recursion: a hostile text cannot exhaust the stack.
#pragma once

#include <bitset>

#include "json/reader.h"

namespace safetensors::json {

// Reads a value of any type. Returns false on failure, as the functions of Reader do. The depth has a limit, so a bit
// for each level is enough to know its closing bracket.
// open: the number of containers that are open before the value begins.
// visit: called for each token, in the order of the text:
//   bool scalar(Reader&, unsigned open)  reads a string, a number or a literal. Returns false on failure.
//   void bracket(char)                   an opening bracket
//   void element(unsigned open)          an element of a container begins
//   void key(std::string_view)           in an object, at once after element()
//   void comma()
//   void end(char, unsigned open, bool empty)  a closing bracket. open: the containers around its own.
template <class Visit>
[[nodiscard]] bool walk_value(Reader& reader, unsigned open, Visit&& visit) {
  std::bitset<Reader::kMaxDepth + 1> is_object;  // index: depth
  const unsigned outside = open;
  const auto closing = [&] { return is_object[open] ? '}' : ']'; };
  while (true) {
    const char c = reader.peek();
    bool more = false;  // another element follows in the innermost container
    bool complete = true;
    if (c == '{' || c == '[') {
      if (open == Reader::kMaxDepth)
        return reader.fail(Errc::json_depth, reader.offset(), "more than 127 open containers");
      (void)reader.consume(c);
      visit.bracket(c);
      is_object[++open] = c == '{';
      complete = reader.consume(closing());
      if (complete) visit.end(closing(), open - 1, true), --open;
    } else if (!visit.scalar(reader, open)) {
      return false;
    }
    while (complete && open > outside && !more) {
      if (!reader.next(closing(), more)) return false;
      if (more)
        visit.comma();
      else
        visit.end(closing(), open - 1, false), --open;
    }
    if (open == outside) return true;
    visit.element(open);
    if (!is_object[open]) continue;
    std::string_view key;
    std::size_t start = 0;
    if (!reader.key(key, start)) return false;
    visit.key(key);
  }
}

}  // namespace safetensors::json
