// Matches with regexec() of the C library: it is what sed -E uses, and needs no other library. The command never calls
// setlocale(), so each byte is a character. A match after the first one begins inside of the name (REG_STARTEND), so
// `^`, `\b` and `\<` see the text before it.
#include "substitution.h"

#include "text/formatted.h"

#include <array>

namespace safetensors::cli {
namespace {

Error invalid(std::string message) {
  return {.code = Errc::invalid_argument, .path = {}, .message = std::move(message)};
}

// Returns the end of the bracket expression that begins at `begin`, such as `[^]/]` or `[[:alpha:]/]`. npos: no end.
std::size_t end_of_bracket(std::string_view text, std::size_t begin) {
  std::size_t i = begin + 1;
  if (i < text.size() && text[i] == '^') ++i;
  if (i < text.size() && text[i] == ']') ++i;  // the first one is a character of the set
  for (; i < text.size() && text[i] != ']'; ++i) {
    if (text[i] != '[' || i + 1 == text.size()) continue;
    const char kind = text[i + 1];
    if (kind != ':' && kind != '.' && kind != '=') continue;
    const std::size_t end = text.find(std::string{kind, ']'}, i + 2);
    if (end == text.npos) return end;
    i = end + 1;
  }
  return i < text.size() ? i + 1 : text.npos;
}

// Splits off the text up to the next delimiter without a backslash before it. brackets: skips delimiters inside of
// bracket expressions. Returns false if the text has no such delimiter.
bool split_field(std::string_view& rest, char delimiter, bool brackets, std::string& field) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) {
      // A delimiter with a backslash is the delimiter itself. Other pairs keep their backslash.
      if (rest[i + 1] != delimiter) field += '\\';
      field += rest[++i];
    } else if (rest[i] == delimiter) {
      rest.remove_prefix(i + 1);
      return true;
    } else if (brackets && rest[i] == '[') {
      const std::size_t end = end_of_bracket(rest, i);
      if (end == rest.npos) return false;
      for (; i < end; ++i) {
        // As outside: a delimiter with a backslash is the delimiter. Any other backslash is a character of the set.
        if (rest[i] != '\\' || rest[i + 1] != delimiter) field += rest[i];
      }
      --i;
    } else {
      field += rest[i];
    }
  }
  return false;
}

// Refuses back-references, because their matches can take exponential time, and the names come from strangers. Also
// refuses what sed knows, but regcomp() takes for a plain letter.
Status check_escapes(std::string_view pattern) {
  constexpr std::string_view kKnown = "wWsSbB";
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '[') {
      const std::size_t end = end_of_bracket(pattern, i);
      if (end == pattern.npos) return {};  // regcomp() says so
      i = end - 1;
    } else if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next >= '0' && next <= '9')
        return invalid(formatted("\\{} in RE: back-references are not supported, a match could take years", next));
      const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
      if (letter && kKnown.find(next) == kKnown.npos)
        return invalid(formatted("\\{} in RE: the letters after a backslash are w, W, s, S, b and B", next));
    }
  }
  return {};
}

}  // namespace

void Substitution::Free::operator()(regex_t* regex) const {
  ::regfree(regex);
  delete regex;
}

Status Substitution::parse_replacement(std::string_view text, char delimiter) {
  std::string literal;
  const auto add_group = [&](int group) {
    if (!literal.empty()) pieces_.push_back({std::exchange(literal, {})});
    pieces_.push_back({{}, group});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&' && delimiter != '&') {
      add_group(0);
    } else if (text[i] != '\\') {
      literal += text[i];
    } else if (const char next = i + 1 < text.size() ? text[++i] : '\0'; next >= '0' && next <= '9') {
      const int group = next - '0';
      if (static_cast<std::size_t>(group) > regex_->re_nsub)
        return invalid(formatted("\\{} in TEXT, but the expression has {} groups", group, regex_->re_nsub));
      add_group(group);
    } else if (next == '&' || next == '\\') {
      literal += next;
    } else {
      return invalid(formatted("\\{} in TEXT: after a backslash comes 0 to 9, &, \\ or the delimiter {}",
                               printable(std::string_view(&next, 1)), printable(std::string_view(&delimiter, 1))));
    }
  }
  if (!literal.empty()) pieces_.push_back({std::move(literal)});
  return {};
}

Result<Substitution> Substitution::parse(std::string_view expression) {
  const auto form = [&] { return invalid(formatted("{}: expected s/RE/TEXT/", printable(expression))); };
  if (expression.size() < 4 || expression[0] != 's' || expression[1] == '\\') return form();
  const char delimiter = expression[1];
  std::string_view rest = expression.substr(2);
  std::string pattern;
  std::string text;
  if (!split_field(rest, delimiter, true, pattern) || !split_field(rest, delimiter, false, text)) return form();
  if (pattern.find('\0') != std::string::npos) return form();
  if (Status status = check_escapes(pattern); !status)
    return invalid(formatted("{}: {}", printable(expression), status.error().message));
  Substitution made;
  int flags = REG_EXTENDED;
  for (const char flag : rest) {
    if (flag == 'g') {
      made.every_ = true;
    } else if (flag == 'i') {
      flags |= REG_ICASE;
    } else {
      return invalid(formatted("{}: the flags are g and i", printable(expression)));
    }
  }
  auto regex = std::make_unique<regex_t>();
  if (const int code = ::regcomp(regex.get(), pattern.c_str(), flags); code != 0) {
    std::array<char, 256> why{};
    (void)::regerror(code, regex.get(), why.data(), why.size());
    return invalid(formatted("{}: {}", printable(expression), why.data()));
  }
  made.regex_.reset(regex.release());
  if (Status status = made.parse_replacement(text, delimiter); !status)
    return invalid(formatted("{}: {}", printable(expression), status.error().message));
  return made;
}

void Substitution::append_replacement(std::string_view name, const Match& match, std::string& result) const {
  for (const Piece& piece : pieces_) {
    result += piece.text;
    if (piece.group < 0) continue;
    const regmatch_t& group = match.at(static_cast<std::size_t>(piece.group));
    if (group.rm_so < 0) continue;  // a group of an alternative that did not match
    const auto begin = static_cast<std::size_t>(group.rm_so);
    result += name.substr(begin, static_cast<std::size_t>(group.rm_eo) - begin);
  }
}

Result<std::string> Substitution::apply(std::string_view name) const {
  if (name.size() > kMaxName)
    return invalid(formatted("the name `{}...` has {} bytes, an expression matches up to {} (use --map)",
                             printable(name.substr(0, 60)), name.size(), kMaxName));
  if (name.find('\0') != std::string_view::npos)
    return invalid(
        formatted("the name `{}` has a zero byte, which no expression matches (use --map)", printable(name)));
  const std::string text(name);
  std::string result;
  std::size_t copied = 0;  // bytes of the name before this are in the result
  for (std::size_t start = 0; start <= text.size();) {
    Match match{};
    match[0].rm_so = static_cast<regoff_t>(start);
    match[0].rm_eo = static_cast<regoff_t>(text.size());
    const int code = ::regexec(regex_.get(), text.c_str(), match.size(), match.data(), REG_STARTEND);
    if (code == REG_NOMATCH) break;
    if (code != 0)
      return Error{.code = Errc::out_of_memory,
                   .path = {},
                   .message = formatted("the match of `{}` needs too much memory", printable(name))};
    const auto begin = static_cast<std::size_t>(match[0].rm_so);
    const auto end = static_cast<std::size_t>(match[0].rm_eo);
    // An empty match right after a match does not count.
    if (begin != end || begin != copied || copied == 0) {
      result.append(text, copied, begin - copied);
      append_replacement(name, match, result);
      copied = end;
      if (!every_) break;
    }
    start = begin == end ? end + 1 : end;
  }
  return result.append(text, copied);
}

}  // namespace safetensors::cli
