// Walks over the text once and tracks open brackets. It does not parse JSON, so it works for invalid headers, too. Only
// the top level and the metadata are spread over lines: indentation never grows with hostile depth.
#include "text/pretty_json.h"

#include <algorithm>
#include <vector>

namespace safetensors::cli {
namespace {

class Layout {
 public:
  explicit Layout(std::string_view text) : text_(text) { out_.reserve(text.size() + text.size() / 4); }

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kWhite = " \t\n\r";

  void step() {
    const char c = text_[at_];
    if (kWhite.find(c) != std::string_view::npos) {
      ++at_;
    } else if (c == '"') {
      string();
    } else {
      punctuation(c);
      ++at_;
    }
  }

  void string() {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, text_.size());
    const std::string_view token = text_.substr(at_, end - at_);
    if (spread_.size() == 1) metadata_next_ = token == "\"__metadata__\"";
    out_ += token;
    at_ = end;
  }

  void punctuation(char c) {
    if (c == '{' || c == '[') {
      open(c);
    } else if ((c == '}' || c == ']') && !spread_.empty()) {
      const bool spread = spread_.back();
      spread_.pop_back();
      if (spread && !empty_here()) line();
      out_ += c;
    } else if (c == ',') {
      out_ += c;
      if (!spread_.empty() && spread_.back()) {
        line();
      } else {
        out_ += ' ';
      }
    } else if (c == ':') {
      out_ += ": ";
    } else {
      out_ += c;
    }
  }

  void open(char c) {
    out_ += c;
    spread_.push_back(c == '{' && (spread_.empty() || (spread_.size() == 1 && metadata_next_)));
    if (spread_.back() && !closes_next()) line();
  }

  [[nodiscard]] bool closes_next() const {
    const std::size_t next = text_.find_first_not_of(kWhite, at_ + 1);
    return next != std::string_view::npos && text_[next] == '}';
  }
  [[nodiscard]] bool empty_here() const { return !out_.empty() && out_.back() == '{'; }

  void line() {
    out_ += '\n';
    out_.append(2 * spread_.size(), ' ');
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> spread_;  // for each open container, whether each item begins a line
  bool metadata_next_ = false;
};

}  // namespace

std::string pretty_json(std::string_view text) {
  return Layout(text).run();
}

}  // namespace safetensors::cli
