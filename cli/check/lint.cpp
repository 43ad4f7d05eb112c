// The subcommand lint: prints what lint() of the library finds in valid files. Codes that the user allows are left out,
// and codes that they deny are errors.
#include "arguments.h"
#include "command.h"
#include "each_file.h"
#include "folders.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "numbered_files.h"
#include "progress.h"
#include "selection.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"
#include "verify_download.h"

#include <safetensors/lint.h>

#include "base/glob.h"

#include <algorithm>
#include <map>

namespace safetensors::cli {
namespace {

constexpr const char kLintDescription[] =
    R"(A PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Finds valid contents that cost time, break
some programs, or mislead: misaligned tensors, signatures of other kinds of
files, hidden characters in names, metadata that transformers refuses, an index
that does not fit its files. Reads headers, at most 161 KiB of each file, and 64
bytes per tensor of U8, I8 or BOOL. Numbered files that are missing, and
components of a pipeline without weights, are reported as verify does.)";

constexpr Option kLintTable[] = {
    {"--allow", "CODE", "leave out the findings with this code; may be given\nseveral times", nullptr, Values::code},
    {"--deny", "CODE", "a finding with this code is an error; may be given\nseveral times", nullptr, Values::code},
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kMinSizeOption,
    kLayersOption,
    {"--values", nullptr, "also read tensors, to find equal ones: duplicate_data"},
    {"-q,--quiet", nullptr, "print no notes and no advice"},
    {"--list", nullptr, "print all codes with their severity and advice"},
    kRecursiveOption,
    kJsonOption,
};

constexpr const char kLintDetails[] =
    R"(Each finding is a line: PATH: SEVERITY: CODE: the facts, with the first tensor.
The severities are error, warning and note. With --match and such, findings
about tensors are only for those that they choose. The others stay.)";

constexpr const char* kLintExamples[] = {
    "safetensors lint model.safetensors",
    "safetensors lint llama-7b/ --values --deny duplicate_data",
    "safetensors lint llama-7b/ --dtype u8,i8 --exclude '*.scales'",
    "safetensors lint *.safetensors --allow metadata_format --quiet",
};

struct LintCommand {
  std::vector<std::string> paths;
  Selection selection;
  std::map<LintCode, LintSeverity> severities;
  std::map<LintCode, bool> allowed;
  bool values = false;
  bool quiet = false;

  [[nodiscard]] LintSeverity severity(LintCode code) const {
    const auto denied = severities.find(code);
    return denied == severities.end() ? safetensors::severity(code) : denied->second;
  }
};

std::optional<LintCode> find_code(std::string_view name) {
  const std::span<const LintCode> codes = all_lint_codes();
  const auto found = std::ranges::find(codes, name, [](LintCode code) { return to_string(code); });
  if (found == codes.end()) return std::nullopt;
  return *found;
}

std::string unknown_code(const char* option, std::string_view name) {
  std::string known;
  for (const LintCode code : all_lint_codes()) (known += known.empty() ? "" : ", ") += to_string(code);
  return formatted("{}: unknown code `{}` (known: {})", option, printable(name), known);
}

Exit list_codes(Console& console, bool as_json) {
  if (as_json) {
    Json json(console, "lint");
    json.key("codes").open('[');
    for (const LintCode code : all_lint_codes()) {
      json.line().open('{').field("code", to_string(code)).field("severity", to_string(severity(code)));
      json.field("advice", advice(code)).close('}');
    }
    json.close(']');
    json.finish();
    return Exit::good;
  }
  for (const LintCode code : all_lint_codes())
    console.out(formatted("{:<19} {:<8} {}\n", to_string(code), to_string(severity(code)), advice(code)));
  return Exit::good;
}

// The path of the file of a finding, or that of the model.
std::string path_of(const LintFinding& finding, const Input& input, const std::string& path) {
  if (!finding.file || input.files()[*finding.file].path().empty()) return shown_path(path);
  return input.files()[*finding.file].path();
}

void print_finding(Console& console, const LintFinding& finding, const std::string& path, const LintCommand& command) {
  const LintSeverity severity = command.severity(finding.code);
  const bool bad = severity != LintSeverity::note;
  const std::string word(to_string(severity));
  std::string text = formatted("{}: {}: {}: {}", printable(path), bad ? console.red(word) : word,
                               to_string(finding.code), printable(finding.message));
  if (finding.count == 1 && !finding.tensor.empty()) text += formatted(": `{}`", shortened(finding.tensor, 80));
  if (finding.count > 1 && !finding.tensor.empty()) text += formatted(", first `{}`", shortened(finding.tensor, 80));
  console.out(text + "\n");
  if (!command.quiet && bad) console.out(formatted("  advice: {}\n", advice(finding.code)));
}

void print_finding_json(Json& json, const LintFinding& finding, const std::string& path, const LintCommand& command) {
  json.line().open('{').field("code", to_string(finding.code));
  json.field("severity", to_string(command.severity(finding.code))).field("path", path).key("tensor");
  if (finding.tensor.empty() && finding.code != LintCode::empty_name) {
    json.null();
  } else {
    json.string(finding.tensor);
  }
  json.field("count", finding.count).field("nbytes", finding.bytes).field("message", finding.message);
  json.field("advice", advice(finding.code)).close('}');
}

Result<std::vector<LintFinding>> find_all(const Input& input, const std::string& path, const LintCommand& command,
                                          Console& console) {
  if (const auto nothing = nothing_chosen(command.selection, input)) return *nothing;
  LintOptions options{.peek = command.values || !is_pipe(path), .duplicates = command.values, .progress = nullptr};
  options.progress = shown_progress(console);
  if (!command.selection.empty())
    options.select = [&](const TensorInfo& tensor) { return command.selection.selects(tensor); };
  Result<std::vector<LintFinding>> found =
      input.checkpoint() != nullptr ? lint(*input.checkpoint(), options) : lint(input.files()[0], options);
  if (found) std::erase_if(*found, [&](const LintFinding& finding) { return command.allowed.contains(finding.code); });
  return found;
}

// What a pipeline lacks: no file is opened.
Exit lint_lack(const Lack& lack, const LintCommand& command, Console& console, Json* json) {
  const bool bad = lack.kind != Lack::Kind::note;
  const bool missing = lack.kind == Lack::Kind::missing;
  if (json != nullptr && bad) {
    json->error({.code = missing ? Errc::not_found : Errc::invalid_argument, .path = {}, .message = lack.text});
  } else if (json != nullptr) {
    json->field("note", lack.text);
  } else if (bad || !command.quiet) {
    const std::string word = bad ? console.red(missing ? "incomplete" : "invalid") : "note";
    console.out(formatted("{}: {}: {}\n", printable(lack.path), word, lack.text));
  }
  return bad ? Exit::negative : Exit::good;
}

// Reports numbered files of a pattern that do not exist.
Exit lint_files(const std::string& path, const Input& input, Console& console, Json* json) {
  if (!base::is_glob(path)) return Exit::good;
  std::vector<std::string> paths;
  Download download(path, {});
  for (const File& file : input.files()) {
    paths.push_back(file.path());
    download.add(file.path(), file);
  }
  download.add_lost(lost_files(paths));
  download.print(console, json);
  return download.lacks_files() ? Exit::negative : Exit::good;
}

Exit lint_path(const std::string& path, const LintCommand& command, Console& console, Json* json) {
  const Result<Input> input = Input::open(path, console, {}, command.values ? PipeData::keep : PipeData::skip);
  const Result<std::vector<LintFinding>> found =
      input ? find_all(*input, path, command, console) : Result<std::vector<LintFinding>>(input.error());
  if (!found && Interrupt::caught()) return Exit::system;
  if (!found) {
    if (json != nullptr) json_input_error(*json, path, found.error());
    return input_error(path, found.error(), console);
  }
  std::map<LintSeverity, std::uint64_t> counts;
  if (json != nullptr) json->key("findings").open('[');
  for (const LintFinding& finding : *found) {
    const LintSeverity severity = command.severity(finding.code);
    ++counts[severity];
    if (json != nullptr) {
      print_finding_json(*json, finding, path_of(finding, *input, path), command);
    } else if (severity != LintSeverity::note || !command.quiet) {
      print_finding(console, finding, path_of(finding, *input, path), command);
    }
  }
  const std::uint64_t errors = counts[LintSeverity::error];
  const std::uint64_t warnings = counts[LintSeverity::warning];
  const std::uint64_t notes = counts[LintSeverity::note];
  if (json != nullptr) {
    json->close(']').line().field("errors", errors).field("warnings", warnings).field("notes", notes);
  } else if (!command.quiet) {
    console.out(formatted("{}: {}\n", printable(shown_path(path)),
                          found->empty() ? console.green("nothing found")
                                         : formatted("{}, {}, {}", counted(errors, "error"),
                                                     counted(warnings, "warning"), counted(notes, "note"))));
  }
  const Exit files = lint_files(path, *input, console, json);
  return errors + warnings == 0 ? files : Exit::negative;
}

Exit run_lint(std::span<const std::string> given, Console& console) {
  LintCommand command;
  std::vector<std::string> allow;
  std::vector<std::string> deny;
  bool list = false;
  bool as_json = false;
  bool recursive = false;
  Arguments arguments(kLint);
  arguments.positionals(command.paths);
  command.selection.bind(arguments);
  arguments.values("allow", allow);
  arguments.values("deny", deny);
  arguments.flag("values", command.values);
  arguments.flag("quiet", command.quiet);
  arguments.flag("list", list);
  arguments.flag("json", as_json);
  arguments.flag("recursive", recursive);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("lint", *wrong);
  if (const auto wrong = command.selection.take()) return console.usage("lint", *wrong);
  if (list && !command.paths.empty()) return console.usage("lint", "--list takes no PATH");
  if (!list && command.paths.empty()) return console.usage("lint", "which PATH?");
  if (command.quiet && as_json) return console.usage("lint", "--quiet does not go with --json");
  for (const std::string& name : allow) {
    const std::optional<LintCode> code = find_code(name);
    if (!code) return console.usage("lint", unknown_code("--allow", name));
    command.allowed[*code] = true;
  }
  for (const std::string& name : deny) {
    const std::optional<LintCode> code = find_code(name);
    if (!code) return console.usage("lint", unknown_code("--deny", name));
    if (command.allowed.contains(*code))
      return console.usage("lint", formatted("{} is both allowed and denied", to_string(*code)));
    command.severities[*code] = LintSeverity::error;
  }
  if (list) return list_codes(console, as_json);
  std::optional<Interrupt> interrupt;  // only for long work: without it, a signal ends the process at once
  if (command.values) interrupt.emplace();
  FolderCheck check;
  command.paths = expand_folders(command.paths, recursive, &check);
  const Exit code = for_each_file("lint", command.paths, as_json, console, [&](const std::string& path, Json* json) {
    if (Interrupt::caught()) return Exit::system;
    const Lack* const lack = check.find(path);
    return lack != nullptr ? lint_lack(*lack, command, console, json) : lint_path(path, command, console, json);
  });
  check.notice(console);
  return code;
}

}  // namespace

const Command kLint = {
    .name = "lint",
    .summary = "find what costs time, breaks programs, or misleads",
    .title = "Find what is valid but unwise in files.",
    .usage =
        "safetensors lint PATH... [--allow CODE]... [--deny CODE]...\n"
        "                 [--match GLOB]... [--exclude GLOB]... [--dtype LIST]\n"
        "                 [--min-size SIZE] [--layers LIST] [--values] [--quiet]\n"
        "                 [--recursive] [--json]\n"
        "safetensors lint --list [--json]",
    .description = kLintDescription,
    .options = kLintTable,
    .details = kLintDetails,
    .examples = kLintExamples,
    .exits =
        "0 no errors and no warnings; 1 a finding of at least warning level, a file\n"
        "is invalid, or a model is incomplete; 2 usage; 3 a file cannot be read",
    .run = run_lint,
};

}  // namespace safetensors::cli
