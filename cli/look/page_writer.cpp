// Collects about 1 MiB of text before each write. Keeps the first error for finish(), so that callers need not check
// each call.
#include "page_writer.h"

#include "text/escape.h"
#include "text/formatted.h"

#include <cmath>

namespace safetensors::cli {

void PageWriter::text(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kPiece) flush();
}

void PageWriter::string(std::string_view text) {
  buffer_ += '"';
  for (const char c : json_escaped(text)) {
    if (c == '<') {
      buffer_ += "\\u003c";
    } else {
      buffer_ += c;
    }
  }
  buffer_ += '"';
}

void PageWriter::number(double value) {
  text(std::isfinite(value) ? formatted("{}", value) : "\"inf\"");
}

Status PageWriter::finish() {
  flush();
  return status_;
}

void PageWriter::flush() {
  if (file_ != nullptr && status_) status_ = file_->write(buffer_);
  bytes_ += buffer_.size();
  buffer_.clear();
}

}  // namespace safetensors::cli
