// Matches with RE2: its time is linear in the name, and its memory has a limit. std::regex has neither, and names come
// from strangers. The syntax of RE is that of RE2, because that is the syntax of its documentation and of its errors.
#include "substitution.h"

#include "text/formatted.h"

#if defined(SAFETENSORS_HAVE_RE2)
#include <re2/re2.h>
#endif

namespace safetensors::cli {

#if defined(SAFETENSORS_HAVE_RE2)

namespace {

constexpr std::int64_t kMaxMemory = 256 << 10;  // bytes of an expression and of its matches

Error invalid(std::string message) {
  return {.code = Errc::invalid_argument, .path = {}, .message = std::move(message)};
}

// Splits off the text up to the next delimiter. A delimiter with a backslash before it is the delimiter itself, and
// other pairs keep their backslash. Returns false if the text has no such delimiter.
bool split_field(std::string_view& rest, char delimiter, std::string& field) {
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == delimiter) {
      rest.remove_prefix(i + 1);
      return true;
    }
    if (rest[i] == '\\' && i + 1 < rest.size() && rest[++i] != delimiter) field += '\\';
    field += rest[i];
  }
  return false;
}

// Returns TEXT as RE2 writes it: `&` is the whole match, which is \0 there.
std::string rewrite_of(std::string_view text) {
  std::string rewrite;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '&') {
      rewrite += "\\0";
    } else if (text[i] == '\\' && i + 1 < text.size() && text[i + 1] == '&') {
      rewrite += text[++i];
    } else {
      rewrite += text[i];
      if (text[i] == '\\' && i + 1 < text.size()) rewrite += text[++i];
    }
  }
  return rewrite;
}

}  // namespace

Result<Substitution> Substitution::parse(std::string_view expression) {
  const auto failed = [&](std::string_view why) { return invalid(formatted("{}: {}", printable(expression), why)); };
  Substitution made;
  std::string pattern;
  std::string text;
  std::string_view rest = expression.substr(std::min<std::size_t>(2, expression.size()));
  if (expression.size() < 4 || expression[0] != 's' || expression[1] == '\\' ||
      !split_field(rest, expression[1], pattern) || !split_field(rest, expression[1], text))
    return failed("expected s/RE/TEXT/");
  re2::RE2::Options options;
  options.set_max_mem(kMaxMemory);
  options.set_log_errors(false);
  for (const char flag : rest) {
    if (flag != 'g' && flag != 'i') return failed("the flags are g and i");
    if (flag == 'g') made.every_ = true;
    if (flag == 'i') options.set_case_sensitive(false);
  }
  made.regex_ = std::make_shared<const re2::RE2>(pattern, options);
  if (!made.regex_->ok()) return failed(printable(made.regex_->error()));
  made.rewrite_ = rewrite_of(text);
  std::string error;
  if (!made.regex_->CheckRewriteString(made.rewrite_, &error)) return failed(printable(error));
  return made;
}

Result<std::string> Substitution::apply(std::string_view name) const {
  if (name.size() > kMaxName)
    return invalid(formatted("the name `{}...` has {} bytes, an expression matches up to {} (use --map)",
                             printable(name.substr(0, 60)), name.size(), kMaxName));
  std::string result(name);
  if (every_) {
    re2::RE2::GlobalReplace(&result, *regex_, rewrite_);
  } else {
    re2::RE2::Replace(&result, *regex_, rewrite_);
  }
  return result;
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
