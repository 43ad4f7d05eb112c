// Copies a JSON value from a text to another text: in one line, or in the lines of Python's json.dumps(indent=2).
#pragma once

#include <string>
#include <string_view>

#include "json/reader.h"

namespace safetensors::json {

// The places of line breaks in the copy.
enum class Lines : unsigned char {
  one,       // no white space at all
  indented,  // a line per element, two spaces per level
};

// Reads a value of any type and appends it to out, which may be null. Numbers keep their text. Strings are written by
// append_string(), or by append_ascii_string() if the copy is indented. open: the number of containers that are open
// around the value, in the text of the reader and in the copy. Returns false on failure, as the functions of Reader do.
// Throws std::bad_alloc if there is an out.
[[nodiscard]] bool copy_value(Reader& reader, unsigned open, std::string* out, Lines lines = Lines::one);

// Begins a line with two spaces per level.
void append_line(std::string& out, unsigned depth);

}  // namespace safetensors::json
