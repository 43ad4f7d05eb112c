// A name is a list of words and of the separators before them. Words are marked as dropped, in the order of their
// worth, until the rest fits. What tells tensors of a model apart is the number of the layer and the end of the name.
#include "text/fold.h"

#include "text/display_width.h"

#include <algorithm>
#include <vector>

namespace safetensors::cli {
namespace {

constexpr std::string_view kEllipsis = "\u2026";

struct Word {
  std::string_view text;   // with the separator before it
  std::size_t width;       // of text
  std::size_t separators;  // 1 if text begins with a separator, which is not shown behind an ellipsis, otherwise 0
  bool number;
  bool dropped = false;
};

bool is_separator(char c) {
  return std::string_view("./_-").find(c) != std::string_view::npos;
}

std::vector<Word> split(std::string_view text, std::string_view separators) {
  std::vector<Word> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, std::min(text.find_first_of(separators, 1), text.size()));
    const std::size_t begin = is_separator(word[0]) ? 1 : 0;
    const bool number = word.size() > begin && word.find_first_not_of("0123456789", begin) == std::string_view::npos;
    words.push_back({word, display_width(word), begin, number});
    text.remove_prefix(word.size());
  }
  return words;
}

class FoldedName {
 public:
  FoldedName(std::string_view name, std::size_t columns)
      : indent_(name.substr(0, std::min(name.find_first_not_of(' '), name.size()))),
        words_(split(name.substr(indent_.size()), "./")),
        width_(display_width(name)),
        columns_(columns) {}

  [[nodiscard]] std::string text() const {
    std::string text(indent_);
    bool gap = false;
    for (const Word& word : words_) {
      if (!word.dropped) text += word.text.substr(gap ? word.separators : 0);
      if (word.dropped && !gap) text += kEllipsis;
      gap = word.dropped;
    }
    return text;
  }

  [[nodiscard]] std::size_t width() const { return width_; }

  // Drops whole parts. Returns whether the rest fits.
  bool drop_parts() {
    for (std::size_t i = 0; i + 2 < words_.size(); ++i) drop(i);
    if (words_.size() > 2) drop(words_.size() - 1);
    return width_ <= columns_;
  }

  // Splits the parts that are left, and drops their words: at first all but the last of each. Returns whether the rest
  // fits.
  bool drop_words() {
    std::vector<Word> words;
    std::vector<std::size_t> first;
    std::vector<std::size_t> inner;
    for (const Word& part : words_) {
      const std::vector<Word> inside = part.dropped ? std::vector<Word>{part} : split(part.text, "_-");
      for (std::size_t i = 0; i + 1 < inside.size(); ++i) (i == 0 ? first : inner).push_back(words.size() + i);
      words.insert(words.end(), inside.begin(), inside.end());
    }
    words_ = std::move(words);
    for (const std::size_t i : inner) drop(i);
    for (const std::size_t i : first) drop(i);
    if (words_.size() > 1) drop(words_.size() - 1);
    return width_ <= columns_;
  }

 private:
  // Drops a word that is no number, unless the name fits.
  void drop(std::size_t i) {
    Word& word = words_[i];
    if (width_ <= columns_ || word.number || word.dropped) return;
    const bool last = i + 1 == words_.size();
    const bool gap_before = i > 0 && words_[i - 1].dropped;
    const bool gap_behind = !last && words_[i + 1].dropped;
    width_ -= word.width - (gap_before ? word.separators : 0);
    if (!last && !gap_behind) width_ -= words_[i + 1].separators;
    if (!gap_before && !gap_behind) ++width_;
    if (gap_before && gap_behind) --width_;
    word.dropped = true;
  }

  std::string_view indent_;
  std::vector<Word> words_;
  std::size_t width_;  // of text()
  const std::size_t columns_;
};

// The length of the longest beginning of text that fits and ends behind a space or a comma.
std::size_t whole_words(std::string_view text, std::size_t columns) {
  std::size_t size = 0;
  for (std::size_t end = text.find_first_of(" ,"); end != std::string_view::npos;
       end = text.find_first_of(" ,", end + 1)) {
    if (display_width(text.substr(0, end + 1)) > columns) break;
    size = end + 1;
  }
  return size;
}

}  // namespace

std::string fold_name(std::string_view name, std::size_t columns) {
  if (display_width(name) <= columns) return std::string(name);
  FoldedName folded(name, columns);
  const bool fits = folded.drop_parts() || folded.drop_words();
  // If a long word was dropped, its ends say more than the words that are left.
  return fits && folded.width() >= columns / 2 ? folded.text() : fit_width(name, columns);
}

std::string fold_words(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  const std::size_t head = whole_words(text, (columns - 1) / 2);
  std::size_t tail = text.size();  // the longest end of whole words that fits
  const std::size_t used = display_width(text.substr(0, head)) + 1;
  for (std::size_t begin = text.find_last_of(" ,"); begin != std::string_view::npos && begin >= head;) {
    if (used + display_width(text.substr(begin + 1)) > columns) break;
    tail = begin + 1;
    begin = begin == 0 ? std::string_view::npos : text.find_last_of(" ,", begin - 1);
  }
  if (head + text.size() - tail > 0)
    return std::string(text.substr(0, head)).append(kEllipsis).append(text.substr(tail));
  return fit_width(text, columns);
}

std::string wrap_words(std::string_view text, std::size_t columns, std::size_t indent) {
  if (columns <= indent) return std::string(text);
  std::string lines;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::size_t width = display_width(text.substr(0, end));
    if (used > indent && width > 0 && used + width > columns) {
      lines.erase(lines.find_last_not_of(' ') + 1);
      lines.append("\n").append(indent, ' ');
      used = indent;
    }
    const std::string_view word = text.substr(0, end + 1);  // with the space or line feed behind it
    lines += word;
    used = word.ends_with('\n') ? 0 : used + width + (word.size() - end);
    text.remove_prefix(word.size());
  }
  return lines;
}

}  // namespace safetensors::cli
