// The subcommand rename: a new file or model whose tensors have other names.
#include "command.h"
#include "input.h"
#include "rewrite_request.h"
#include "rows.h"
#include "text/text.h"

#include <functional>

#if defined(SAFETENSORS_HAVE_RE2)
#include <re2/re2.h>
#endif

namespace safetensors::cli {
namespace {

// An EXPRESSION: returns the new name. Error: invalid_argument (the name is too long).
using Substitution = std::function<Result<std::string>(std::string_view name)>;

#if defined(SAFETENSORS_HAVE_RE2)

constexpr bool kHasExpressions = true;
constexpr std::int64_t kMaxMemory = 256 << 10;  // bytes of an expression and of its matches
// A longer name is refused: names come from strangers, and each of many matches may scan the rest of the name.
constexpr std::size_t kMaxName = 1024;  // bytes

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

// Parses s/RE/TEXT/FLAGS with any delimiter. In TEXT, & is the whole match and \1 to \9 are its groups. Flags: g (every
// match, not only the first) and i (upper and lower case are equal). RE2 does the matching, because names come from
// strangers: its time is linear in the length of the name, and its memory has a limit. std::regex has no such limits.
// RE has the syntax of RE2, as RE2 documents it. So the errors of RE2 are right for RE as the user wrote it.
// Errors, with a message without path: not_found if the text is no s/RE/TEXT/FLAGS, and invalid_argument.
Result<Substitution> parse_expression(std::string_view expression) {
  const auto failed = [&](std::string_view why, Errc code = Errc::invalid_argument) {
    return fault(code, formatted("{}: {}", printable(expression), why));
  };
  std::string pattern;
  std::string text;
  std::string_view rest = expression.substr(std::min<std::size_t>(2, expression.size()));
  if (expression.size() < 4 || expression[0] != 's' || expression[1] == '\\' ||
      !split_field(rest, expression[1], pattern) || !split_field(rest, expression[1], text))
    return failed("expected s/RE/TEXT/", Errc::not_found);
  if (rest.find_first_not_of("gi") != std::string_view::npos) return failed("the flags are g and i", Errc::not_found);
  re2::RE2::Options options;
  options.set_max_mem(kMaxMemory);
  options.set_log_errors(false);
  options.set_case_sensitive(rest.find('i') == std::string_view::npos);
  const auto regex = std::make_shared<const re2::RE2>(pattern, options);
  if (!regex->ok()) {
    const std::size_t offset = std::min(expression.find(regex->error_arg(), 2), expression.size());
    return failed(formatted("{}, at byte {}", printable(regex->error()), offset + 1));
  }
  const std::string rewrite = rewrite_of(text);
  if (std::string error; !regex->CheckRewriteString(rewrite, &error)) return failed(printable(error));
  const bool every = rest.find('g') != std::string_view::npos;
  return Substitution([regex, rewrite, every](std::string_view name) -> Result<std::string> {
    if (name.size() > kMaxName)
      return fault(Errc::invalid_argument,
                   formatted("the name `{}...` has {} bytes, an expression matches up to {} (use --map)",
                             printable(name.substr(0, 60)), name.size(), kMaxName));
    std::string result(name);
    every ? re2::RE2::GlobalReplace(&result, *regex, rewrite) : re2::RE2::Replace(&result, *regex, rewrite);
    return result;
  });
}

#else

constexpr bool kHasExpressions = false;

Result<Substitution> parse_expression(std::string_view expression) {
  return fault(Errc::unsupported, printable(expression));
}

#endif

constexpr auto kRenameTable = joined(
    {
        {"--map", "FILE",
         "new names: lines of OLD, a tab and NEW, the exact names. Expressions apply to the names after this", nullptr,
         Values::path},
    },
    kChoiceOptions, kModelOptions, kWriteOptions);

Exit run_rename(const Arguments& given, Console& console) {
  RewriteRequest request(kRename, given, 1, true);
  const std::optional<std::string> map = given.value("map");
  const Result<Substitution> misplaced = parse_expression(request.output);
  if (misplaced || misplaced.error().code == Errc::invalid_argument)
    throw UsageError(
        formatted("{} stands in the place of OUT: the order is IN OUT EXPRESSION", printable(request.output)));
  if (!request.rest.empty() && !kHasExpressions) {
    console.message("rename: this build has no RE2, which an EXPRESSION needs (use --map)");
    return Exit::system;
  }
  const Selection selection(given);
  if (request.rest.empty() && !map)
    throw UsageError("which names? Give an EXPRESSION, such as 's/^model\\.//', or --map FILE");
  std::vector<Substitution> substitutions;
  for (const std::string& expression : request.rest) {
    Result<Substitution> parsed = parse_expression(expression);
    if (!parsed) throw UsageError(parsed.error().message);
    substitutions.push_back(*std::move(parsed));
  }
  NameMap names;
  const auto new_name = [&](std::string_view old) {
    const auto mapped = names.find(old);
    Result<std::string> name = mapped != names.end() ? mapped->second : std::string(old);
    for (const Substitution& substitution : substitutions) {
      if (name) name = substitution(*name);
    }
    return name;
  };
  // The old names, which are those of IN. A list of the new ones would take more memory than the header.
  std::vector<std::string_view> renamed;
  request.change = [&](const Input& input, std::vector<RewriteTensor>& tensors) -> Status {
    if (map) {
      Result<NameMap> read = read_name_map(*map, input, request.inputs[0]);
      if (!read) return read.error();
      names = *std::move(read);
    }
    const Result<std::vector<bool>> selected = select_tensors(tensors, selection);
    if (!selected) return selected.error();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!(*selected)[i]) continue;
      const std::string_view old = tensors[i].tensor.name();
      Result<std::string> name = new_name(old);
      if (!name) return name.error();
      if (*name == old) continue;
      tensors[i].name = *std::move(name);
      renamed.push_back(old);
    }
    return renamed.empty() ? Status(fault(Errc::not_found, "no tensor gets another name")) : Status();
  };
  request.show = [&](Console& out, Json* json, const RewriteReport* report) {
    if (json != nullptr || report == nullptr) {
      Rows(out, json, "renamed", {{"old", "OLD"}, {"new", "NEW"}}).each([&](const auto& row) {
        for (const std::string_view old : renamed) row({old, *new_name(old)});
      });
    }
    if (json == nullptr)
      out.out(formatted("{} {}\n", report == nullptr ? "would rename" : "renamed", counted(renamed.size(), "tensor")));
  };
  return request.run(console);
}

}  // namespace

const Command kRename = {
    .name = "rename",
    .summary = "write a new file with other names: s/RE/TEXT/ or a list",
    .title = "Write a new file or model whose tensors have other names.",
    .usage = "IN OUT EXPRESSION...\nIN OUT --map FILE",
    .description = R"(IN is a file, or a folder, an index or a pattern of a model of several files. OUT is a file if
IN is a file or if OUT ends in .safetensors. Otherwise OUT is a folder, and tensors of one file stay together.

Each EXPRESSION is applied to each name, one after the other, as sed -E does: s/RE/TEXT/, where RE has the syntax of
RE2. In TEXT, & or \0 is the whole match, and \1 to \9 are the groups; \& and \\ are the characters themselves. After
the last /, g replaces every match, and i ignores upper and lower case. A character other than / may take its place.
If two tensors would get one name, that is an error. With --match and such, only the tensors that they choose get
another name.)",
    .options = kRenameTable,
    .examples = R"(safetensors rename in.safetensors out.safetensors 's/^model\.//'
safetensors rename lora.safetensors out.safetensors 's/down/A/' --dry-run
safetensors rename llama-7b/ renamed/ --layers 0-3 's/$/.frozen/'
safetensors rename llama-7b/ renamed/ --map names.tsv)",
    .exits =
        "0 written; 1 a file is invalid, no name changes, two tensors get one name, or OUT exists; 2 usage; 3 a file "
        "cannot be read or written",
    .run = run_rename,
};

}  // namespace safetensors::cli
