// Matches with RE2: its time is linear in the name, and its memory has a limit. regexec() of the C library has neither,
// and names come from strangers. RE is translated into the syntax of RE2, so that it means what it means to sed -E, and
// the match is the leftmost longest one. A match after the first one begins inside of the name, so `^`, `\b` and `\B`
// see the text before it.
#include "substitution.h"

#include "text/formatted.h"

#if defined(SAFETENSORS_HAVE_RE2)
#include <re2/re2.h>
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#if !defined(SAFETENSORS_HAVE_RE2)
namespace re2 {
class RE2 {};
}  // namespace re2
#endif

namespace safetensors::cli {

Substitution::Substitution() = default;
Substitution::Substitution(Substitution&&) noexcept = default;
Substitution& Substitution::operator=(Substitution&&) noexcept = default;
Substitution::~Substitution() = default;

#if defined(SAFETENSORS_HAVE_RE2)

namespace {

constexpr std::int64_t kMaxMemory = 256 << 10;  // bytes of an expression and of its matches
constexpr unsigned kMaxRepetition = 1000;       // that of RE2

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

// Appends a bracket expression. A backslash in it is a character of the set, unlike in RE2.
Status append_bracket(std::string_view bracket, std::string& text) {
  for (std::size_t i = 0; i < bracket.size(); ++i) {
    if (bracket[i] == '\\') text += '\\';
    text += bracket[i];
    if (i > 0 && bracket[i] == '[' && (bracket[i + 1] == '.' || bracket[i + 1] == '='))
      return invalid(
          formatted("[{} in RE: a set has characters, ranges and classes such as [:alpha:]", bracket[i + 1]));
  }
  return {};
}

// Appends {N}, {N,}, {N,M} or {,M}, and moves `i` to the last character. RE2 takes other braces for plain characters,
// also {,M}, which sed and POSIX programs do not.
Status append_repetition(std::string_view pattern, std::size_t& i, std::string& text) {
  const std::size_t end = std::min(pattern.find('}', i), pattern.size());
  const std::string_view counts = pattern.substr(i + 1, end - i - 1);
  const std::size_t comma = std::min(counts.find(','), counts.size());
  const auto number = [](std::string_view digits) -> std::optional<unsigned> {
    unsigned value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || rest != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  const auto min = comma == 0 && !counts.empty() ? 0 : number(counts.substr(0, comma));
  const auto max = comma + 1 < counts.size() ? number(counts.substr(comma + 1)) : min;
  if (end == pattern.size() || !min || !max)
    return invalid("{ in RE: expected {N}, {N,}, {N,M} or {,M}, or \\{ for the character");
  if (std::max(*min, *max) > kMaxRepetition)
    return invalid(formatted("{{{}}} in RE: a repetition has at most {} times", counts, kMaxRepetition));
  text += formatted("{{{}", *min);
  if (comma < counts.size()) text += ',';
  if (comma + 1 < counts.size()) text += formatted("{}", *max);
  text += '}';
  i = end;
  return {};
}

// Appends a backslash and a character.
Status append_escape(char next, std::string& text) {
  if (next >= '0' && next <= '9')
    return invalid(formatted("\\{} in RE: back-references are not supported, a match could take years", next));
  if (std::string_view("<>`'").find(next) != std::string_view::npos)
    return invalid(formatted("\\{} in RE: is not supported, use \\b, ^ or $", next));
  const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
  if (letter && std::string_view("wWsSbB").find(next) == std::string_view::npos)
    return invalid(formatted("\\{} in RE: the letters after a backslash are w, W, s, S, b and B", next));
  if (next == 's' || next == 'S') {
    text += next == 's' ? "[[:space:]]" : "[^[:space:]]";  // \s of RE2 has no vertical tab
  } else {
    // RE2 takes a backslash only before these letters and before ASCII that is not part of a word.
    if (letter || (next != '_' && static_cast<unsigned char>(next) < 0x80)) text += '\\';
    text += next;
  }
  return {};
}

// Returns `pattern`, an extended regular expression of POSIX, in the syntax of RE2. Refuses syntax that RE2 reads in
// another way. Also refuses syntax that RE2 does not know, because the errors of RE2 do not name it.
Result<std::string> to_re2(std::string_view pattern) {
  std::string text;
  Status status;
  for (std::size_t i = 0; status && i < pattern.size(); ++i) {
    if (pattern[i] == '[') {
      const std::size_t end = end_of_bracket(pattern, i);
      if (end == pattern.npos) return invalid("[ without ] in RE");
      status = append_bracket(pattern.substr(i, end - i), text);
      i = end - 1;
    } else if (pattern[i] == '{') {
      status = append_repetition(pattern, i, text);
    } else if (pattern[i] == '\\' && i + 1 < pattern.size()) {
      status = append_escape(pattern[++i], text);
    } else {
      text += pattern[i];
    }
  }
  if (!status) return status.error();
  return text;
}

re2::RE2::Options options_of(bool any_case) {
  re2::RE2::Options options;
  options.set_posix_syntax(true);
  options.set_longest_match(true);
  options.set_perl_classes(true);   // \w, \W
  options.set_word_boundary(true);  // \b, \B
  options.set_one_line(true);       // ^ and $ are the ends of the name
  options.set_dot_nl(true);
  options.set_case_sensitive(!any_case);
  options.set_max_mem(kMaxMemory);
  options.set_log_errors(false);
  return options;
}

// Returns the offset after the UTF-8 character at `i`.
std::size_t next_character(std::string_view name, std::size_t i) {
  do ++i;
  while (i < name.size() && (static_cast<unsigned char>(name[i]) & 0xC0) == 0x80);
  return i;
}

}  // namespace

Status Substitution::parse_replacement(std::string_view text, char delimiter) {
  std::string literal;
  const auto add_group = [&](int group) {
    if (!literal.empty()) pieces_.push_back({std::exchange(literal, {})});
    pieces_.push_back({{}, group});
    groups_ = std::max(groups_, group + 1);
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&' && delimiter != '&') {
      add_group(0);
    } else if (text[i] != '\\') {
      literal += text[i];
    } else if (const char next = i + 1 < text.size() ? text[++i] : '\0'; next >= '0' && next <= '9') {
      const int group = next - '0';
      if (group > regex_->NumberOfCapturingGroups())
        return invalid(
            formatted("\\{} in TEXT, but the expression has {} groups", group, regex_->NumberOfCapturingGroups()));
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
  const auto failed = [&](std::string_view why) { return invalid(formatted("{}: {}", printable(expression), why)); };
  Substitution made;
  bool any_case = false;
  for (const char flag : rest) {
    if (flag != 'g' && flag != 'i') return failed("the flags are g and i");
    (flag == 'g' ? made.every_ : any_case) = true;
  }
  const Result<std::string> translated = to_re2(pattern);
  if (!translated) return failed(translated.error().message);
  made.regex_ = std::make_unique<re2::RE2>(*translated, options_of(any_case));
  if (!made.regex_->ok()) return failed(printable(made.regex_->error()));
  if (Status status = made.parse_replacement(text, delimiter); !status) return failed(status.error().message);
  return made;
}

Result<std::string> Substitution::apply(std::string_view name) const {
  if (name.size() > kMaxName)
    return invalid(formatted("the name `{}...` has {} bytes, an expression matches up to {} (use --map)",
                             printable(name.substr(0, 60)), name.size(), kMaxName));
  const re2::StringPiece text(name.data(), name.size());
  std::array<re2::StringPiece, 10> match;
  std::string result;
  std::size_t copied = 0;  // bytes of the name before this are in the result
  std::size_t scanned = 0;
  for (std::size_t start = 0; start <= name.size();) {
    scanned += name.size() - start;
    if (scanned > kMaxScans * name.size())
      return invalid(
          formatted("the name `{}...` of {} bytes has too many matches: each may scan the bytes after it, {} "
                    "in total, the limit is {} (use --map)",
                    printable(name.substr(0, 60)), name.size(), scanned, kMaxScans * name.size()));
    if (!regex_->Match(text, start, name.size(), re2::RE2::UNANCHORED, match.data(), groups_)) break;
    const auto begin = static_cast<std::size_t>(match[0].data() - name.data());
    const std::size_t end = begin + match[0].size();
    // An empty match right after a match does not count.
    if (begin != end || begin != copied || copied == 0) {
      result.append(name, copied, begin - copied);
      for (const Piece& piece : pieces_) {
        result += piece.text;
        if (piece.group < 0) continue;
        const re2::StringPiece& group = match.at(static_cast<std::size_t>(piece.group));
        result.append(group.data(), group.size());  // empty, if it is of an alternative that did not match
      }
      copied = end;
      if (!every_) break;
    }
    start = begin == end ? next_character(name, end) : end;
  }
  return result.append(name, copied);
}

#else

Result<Substitution> Substitution::parse(std::string_view expression) {
  return Error{.code = Errc::unsupported, .path = {}, .message = formatted("{}: {}", printable(expression), kMissing)};
}

Result<std::string> Substitution::apply(std::string_view name) const {
  return std::string(name);
}

#endif

}  // namespace safetensors::cli
