// Matches with regexec() of the C library: it is what sed -E uses, and needs no other library. The command never calls
// setlocale(), so each byte is a character.
#include "substitution.h"

#include "text/formatted.h"

#include <array>

namespace safetensors::cli {
namespace {

Error invalid(std::string message) {
  return {.code = Errc::invalid_argument, .path = {}, .message = std::move(message)};
}

// Splits off the text up to the next delimiter that has no backslash before it. Returns false if there is none.
bool split_field(std::string_view& rest, char delimiter, std::string& field) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '\\' && i + 1 < rest.size()) {
      // A delimiter with a backslash is the delimiter itself. Other pairs keep their backslash.
      if (rest[i + 1] != delimiter) field += '\\';
      field += rest[++i];
    } else if (rest[i] == delimiter) {
      rest.remove_prefix(i + 1);
      return true;
    } else {
      field += rest[i];
    }
  }
  return false;
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
    } else if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] >= '1' && text[i + 1] <= '9') {
      const int group = text[++i] - '0';
      if (static_cast<std::size_t>(group) > regex_->re_nsub)
        return invalid(formatted("\\{} in TEXT, but the expression has {} groups", group, regex_->re_nsub));
      add_group(group);
    } else if (text[i] == '\\' && i + 1 < text.size()) {
      literal += text[++i];
    } else {
      literal += text[i];
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
  if (!split_field(rest, delimiter, pattern) || !split_field(rest, delimiter, text)) return form();
  if (pattern.find('\0') != std::string::npos) return form();
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
  std::string result;
  std::string rest(name);
  while (true) {
    Match match{};
    const int flags = rest.size() == name.size() ? 0 : REG_NOTBOL;
    const int code = ::regexec(regex_.get(), rest.c_str(), match.size(), match.data(), flags);
    if (code == REG_NOMATCH) break;
    if (code != 0)
      return Error{.code = Errc::out_of_memory,
                   .path = {},
                   .message = formatted("the match of `{}` needs too much memory", printable(name))};
    const auto begin = static_cast<std::size_t>(match[0].rm_so);
    auto end = static_cast<std::size_t>(match[0].rm_eo);
    result.append(rest, 0, begin);
    append_replacement(rest, match, result);
    // After a match without bytes, the next character stays as it is.
    const bool at_end = end == rest.size();
    if (begin == end && !at_end) result += rest[end++];
    rest.erase(0, end);
    if (!every_ || at_end) break;
  }
  return result + rest;
}

}  // namespace safetensors::cli
