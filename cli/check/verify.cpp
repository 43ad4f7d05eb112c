// The subcommand verify: opens each file, which checks all rules of the format, and prints a verdict per file. It opens
// a model of several files as one set, which also checks the index against the files. If that fails, it opens one file
// after the other, to find each invalid one.
#include "arguments.h"
#include "command.h"
#include "each_file.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "text/formatted.h"
#include "text/size.h"
#include "verify_manifest.h"

#include <safetensors/checkpoint_index.h>
#include <safetensors/stats.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr const char kVerifyDescription[] =
    R"(A PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Prints one verdict per file: ok, or invalid
with the reason, the offset of the byte and the number of the broken rule.
docs/format.md lists the rules: 1-3 the length of the header, 4 UTF-8, 5 JSON,
6 offsets, 7 overflow, 8 whole bytes, 9 sizes, 10 the length of the file. There
are no rules for the data, so it is read only with --values and --manifest.

A model of several files gets one more verdict: whether each tensor of the index
is in its file, and no tensor is in two files. Notes name the tensors and files
that the index does not have, and a wrong total_size. These are not errors.)";

constexpr Option kVerifyTable[] = {
    {"--manifest", "FILE",
     "also compare all bytes with the digests in\n"
     "FILE, which 'safetensors hash --manifest'\n"
     "wrote, and name the tensors that differ",
     nullptr, Values::path},
    {"-q,--quiet", nullptr, "print only what is invalid"},
    {"--allow-leading-whitespace", nullptr, "accept white space before the header's {"},
    {"--max-header-bytes", "N",
     "accept headers up to N bytes; N may end in\n"
     "KiB, MiB or GiB (default 100000000)"},
    {"--values", "LIST",
     "also read the values, and fail if one of\n"
     "them is in LIST: nan, inf, or nan,inf",
     "nan|inf|nan,inf"},
    {"--json", nullptr,
     "one JSON document, schema\n"
     "safetensors.verify/1"},
};

constexpr const char* kVerifyExamples[] = {
    "safetensors verify model.safetensors",
    "safetensors verify llama-7b/",
    "safetensors verify llama-7b/ --values nan,inf",
    "safetensors verify llama-7b/ --manifest llama-7b/manifest.json",
    "safetensors verify --json *.safetensors | jq '.files[] | select(.valid|not)'",
};

struct VerifyOptions {
  OpenOptions open = {.access = Access::read, .parse = {}};
  std::optional<GivenManifest> manifest = std::nullopt;
  bool quiet = false;
  bool nan = false;  // --values
  bool inf = false;
};

// The differences between an index and its files, and the totals of the tensors.
struct IndexNotes {
  std::vector<std::string> unindexed;
  std::vector<std::string> stray;
  std::optional<std::uint64_t> total_size;
  std::uint64_t nbytes = 0;
  std::uint64_t tensors = 0;
};

void print_verdict_json(Json& json, const std::string& path, const Result<File>& file) {
  if (file) {
    const Header& header = file->header();
    json.field("valid", true).field("tensor_count", std::uint64_t{header.size()});
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    json.field("nbytes", header.data_bytes());
  } else if (exit_of(file.error()) == Exit::system) {
    json_input_error(json.key("valid").null(), path, file.error());
  } else {
    json_input_error(json.field("valid", false), path, file.error());
  }
}

void print_invalid(Console& console, const std::string& path, const Error& error) {
  if (exit_of(error) == Exit::system) {
    input_error(path, error, console);
  } else {
    const std::string& at_fault = error.path.empty() ? path : error.path;
    console.out(formatted("{}: {}: {}\n", printable(at_fault), console.red("invalid"), describe(error)));
  }
}

void print_verdict(Console& console, const std::string& path, const Result<File>& file, bool quiet) {
  if (!file) return print_invalid(console, path, file.error());
  const Header& header = file->header();
  if (quiet) return;
  console.out(formatted("{}: {}, {}, {}\n", printable(path), console.green("ok"), counted(header.size(), "tensor"),
                        counted(header.file_bytes(), "byte")));
}

// "2 NaN, 1 infinity", without the kinds that are allowed.
std::string values_text(const TensorStats& found, const VerifyOptions& options) {
  const std::uint64_t infinities = found.positive_infinity + found.negative_infinity;
  std::string text;
  if (options.nan && found.nan > 0) text = grouped(found.nan) + " NaN";
  if (options.inf && infinities > 0) text += formatted("{}{} infinite", text.empty() ? "" : ", ", grouped(infinities));
  return text;
}

void print_values_json(Json& json, const std::vector<TensorStats>& bad) {
  json.field("values_valid", bad.empty()).key("bad_values").open('[');
  for (const TensorStats& found : bad) {
    json.line().open('{').field("name", found.tensor.name()).field("count", found.count).field("nan", found.nan);
    json.field("positive_infinity", found.positive_infinity);
    json.field("negative_infinity", found.negative_infinity).close('}');
  }
  json.close(']');
}

// Reads the values of a file for --values.
Exit verify_values(const std::string& path, const File& file, const VerifyOptions& options, Console& console,
                   Json* json) {
  const auto fail = [&](const Error& error) {
    if (json != nullptr) json_input_error(json->key("values_valid").null(), path, error);
    return input_error(path, error, console);
  };
  const Interrupt interrupt;
  StatsOptions how;
  how.progress = [&](std::uint64_t done, std::uint64_t total) {
    console.progress(done, total);
    return !Interrupt::caught();
  };
  Result<std::vector<TensorStats>> found = stats(file.tensors(), how);
  if (!found && Interrupt::caught()) return Exit::good;
  if (!found) return fail(found.error());
  std::erase_if(*found, [&](const TensorStats& one) { return values_text(one, options).empty(); });
  if (json != nullptr) print_values_json(*json, *found);
  for (const TensorStats& one : *found) {
    if (json != nullptr) break;
    console.out(formatted("{}: {}: `{}` has {} of {}\n", printable(shown_path(path)), console.red("bad values"),
                          printable(one.tensor.name()), values_text(one, options), counted(one.count, "number")));
  }
  return found->empty() ? Exit::good : Exit::negative;
}

Exit verify_file(const std::string& path, const Result<File>& file, const VerifyOptions& options, Console& console,
                 Json* json) {
  if (json != nullptr) {
    print_verdict_json(*json, path, file);
    if (!file && exit_of(file.error()) == Exit::system) input_error(path, file.error(), console);
  } else {
    print_verdict(console, shown_path(path), file, options.quiet);
  }
  if (!file) return exit_of(file.error());
  return options.nan || options.inf ? verify_values(path, *file, options, console, json) : Exit::good;
}

Result<IndexNotes> look_at_index(const Checkpoint& checkpoint) {
  Result<std::vector<std::string>> stray = checkpoint.stray_files();
  if (!stray) return stray.error();
  IndexNotes notes;
  notes.stray = *std::move(stray);
  notes.total_size = checkpoint.index_total_size();
  for (const Tensor& tensor : checkpoint.unindexed_tensors()) notes.unindexed.emplace_back(tensor.name());
  for (const Tensor& tensor : checkpoint.tensors()) notes.nbytes += tensor.nbytes();
  notes.tensors = checkpoint.tensors().size();
  return notes;
}

std::string named(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > kNamed ? text + ", ..." : text;
}

void print_notes(Console& console, const std::string& path, const IndexNotes& notes) {
  const std::string head = printable(path) + ": note: ";
  if (!notes.unindexed.empty())
    console.out(formatted("{}{} not in the index, loaders skip them: {}\n", head,
                          counted(notes.unindexed.size(), "tensor"), named(notes.unindexed)));
  if (!notes.stray.empty())
    console.out(
        formatted("{}{} not in the index: {}\n", head, counted(notes.stray.size(), "file"), named(notes.stray)));
  if (notes.total_size && *notes.total_size != notes.nbytes)
    console.out(formatted("{}total_size of the index is {}, the tensors have {}\n", head, grouped(*notes.total_size),
                          counted(notes.nbytes, "byte")));
}

void print_notes_json(Json& json, const IndexNotes& notes) {
  const auto list = [&](const char* key, const std::vector<std::string>& names) {
    json.line().key(key).open('[');
    for (const std::string& name : names) json.string(name);
    json.close(']');
  };
  json.field("valid", true).field("tensor_count", notes.tensors).field("nbytes", notes.nbytes).key("total_size");
  if (notes.total_size) {
    json.number(*notes.total_size);
  } else {
    json.null();
  }
  list("unindexed_tensors", notes.unindexed);
  list("stray_files", notes.stray);
}

// Prints the verdict of the files as one set.
Exit verify_set(const std::string& path, const Result<Checkpoint>& checkpoint, const VerifyOptions& options,
                Console& console, Json* json) {
  const Result<IndexNotes> notes = checkpoint ? look_at_index(*checkpoint) : checkpoint.error();
  if (json != nullptr) {
    json->key("set").open('{');
    if (notes) {
      print_notes_json(*json, *notes);
    } else if (exit_of(notes.error()) == Exit::system) {
      json_input_error(json->key("valid").null(), path, notes.error());
      input_error(path, notes.error(), console);
    } else {
      json_input_error(json->field("valid", false), path, notes.error());
    }
    json->close('}');
  } else if (!notes) {
    print_invalid(console, path, notes.error());
  } else if (!options.quiet) {
    console.out(formatted("{}: {}, {} in {}, {}\n", printable(path), console.green("ok"),
                          counted(notes->tensors, "tensor"), counted(checkpoint->files().size(), "file"),
                          counted(notes->nbytes, "byte")));
  }
  if (json == nullptr && notes && !options.quiet) print_notes(console, path, *notes);
  return notes ? Exit::good : exit_of(notes.error());
}

// Prints the other problems of an index of which a file is missing or invalid. Those files have verdicts of their own.
void print_index_problems(const std::string& path, const VerifyOptions& options, Exit code, Console& console,
                          Json* json) {
  Result<IndexCheck> check = check_index(path);
  if (!check) return;  // not an index, or an error that the verdicts of the files show
  std::erase_if(check->problems, [](const IndexProblem& problem) {
    return problem.kind == IndexProblemKind::missing_file || problem.kind == IndexProblemKind::invalid_file;
  });
  if (json != nullptr) {
    json->key("set").open('{').key("valid");
    if (code == Exit::system) {
      json->null();
    } else {
      json->boolean(false);
    }
    json->key("problems").open('[');
    for (const IndexProblem& problem : check->problems) json->string(problem.message);
    json->close(']').close('}').line();
    return;
  }
  for (const IndexProblem& problem : check->problems) {
    const bool invalid =
        problem.kind == IndexProblemKind::missing_tensor || problem.kind == IndexProblemKind::wrong_file;
    if (invalid || !options.quiet)
      console.out(
          formatted("{}: {}: {}\n", printable(path), invalid ? console.red("invalid") : "note", problem.message));
  }
}

// Returns file i of the set. Opens it if the set could not be opened, or has another file there by now.
Result<File> open_one(const Result<Checkpoint>& set, std::size_t i, const std::string& path,
                      const OpenOptions& options) {
  if (set && i < set->files().size() && set->files()[i].path() == path) return set->files()[i];
  return File::open(path, options);
}

// A model of several files: a verdict per file, then one for the index, or its problems if a file is missing or
// invalid.
Exit verify_files(const std::string& path, const std::vector<std::string>& files, const VerifyOptions& options,
                  Console& console, Json* json) {
  Exit format = Exit::good;
  Exit values = Exit::good;
  const Result<Checkpoint> set = Checkpoint::open(path, {.open = options.open});
  if (json != nullptr) json->key("files").open('[');
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (json != nullptr) json->line().open('{').field("path", files[i]);
    const Result<File> file = open_one(set, i, files[i], options.open);
    const Exit code = verify_file(files[i], file, options, console, json);
    (file ? values : format) = worse(file ? values : format, code);
    if (json != nullptr) json->close('}');
  }
  if (json != nullptr) json->close(']').line();
  if (format != Exit::good) {
    print_index_problems(path, options, format, console, json);
  } else {
    format = verify_set(path, set, options, console, json);
  }
  Exit manifest = Exit::good;
  if (format == Exit::good && options.manifest)
    manifest = options.manifest->compare(set->files(), true, options.quiet, console, json);
  if (json != nullptr && format == Exit::system) {
    json->key("valid").null();
  } else if (json != nullptr) {
    json->field("valid", format == Exit::good);
  }
  return worse(worse(format, values), manifest);
}

Exit verify_path(const std::string& path, const VerifyOptions& options, Console& console, Json* json) {
  if (path == kStandardInput) {
    const PipeData data = options.nan || options.inf ? PipeData::keep : PipeData::skip;
    return verify_file(path, open_standard_input(options.open, data), options, console, json);
  }
  const Result<std::vector<std::string>> files = Checkpoint::find_files(path);
  if (!files) return verify_file(path, files.error(), options, console, json);
  if (files->size() == 1 && files->front() == path) {
    const Result<File> file = File::open(path, options.open);
    const Exit code = verify_file(path, file, options, console, json);
    if (!file || !options.manifest) return code;
    return worse(code, options.manifest->compare({&*file, 1}, false, options.quiet, console, json));
  }
  return verify_files(path, *files, options, console, json);
}

// No file is looked at without its manifest.
Exit manifest_error(const std::string& path, const Error& error, bool as_json, Console& console) {
  if (as_json) {
    Json json(console, "verify");
    json.key("files").open('[').close(']').key("manifest").open('{').field("path", path).close('}');
    json.error(error);
    json.finish();
  }
  return input_error(path, error, console);
}

Exit run_verify(std::span<const std::string> given, Console& console) {
  std::vector<std::string> paths;
  std::optional<std::string> max_header;
  std::optional<std::string> values;
  std::optional<std::string> manifest;
  VerifyOptions options;
  bool as_json = false;
  Arguments arguments(kVerify);
  arguments.positionals(paths);
  arguments.flag("quiet", options.quiet);
  arguments.value("manifest", manifest);
  arguments.flag("allow-leading-whitespace", options.open.parse.allow_leading_whitespace);
  arguments.value("max-header-bytes", max_header);
  arguments.value("values", values);
  arguments.flag("json", as_json);
  if (const auto wrong = arguments.parse(given)) return console.usage("verify", *wrong);
  if (paths.empty()) return console.usage("verify", "which PATH?");
  if (options.quiet && as_json) return console.usage("verify", "--quiet does not go with --json");
  if (max_header) {
    const auto number = parse_bytes(*max_header);
    if (!number) return console.usage("verify", "--max-header-bytes is a number of bytes, such as 100000000 or 1GiB");
    options.open.parse.max_header_bytes = *number;
  }
  options.nan = values && values->starts_with("nan");
  options.inf = values && values->ends_with("inf");
  if (manifest) {
    if (manifest->empty()) return console.usage("verify", "--manifest FILE is an empty path");
    if (std::ranges::find(paths, kStandardInput) != paths.end())
      return console.usage("verify", "--manifest needs files, not standard input");
    Result<GivenManifest> read = GivenManifest::read(*manifest);
    if (!read) return manifest_error(*manifest, read.error(), as_json, console);
    options.manifest = *std::move(read);
  }
  return for_each_file("verify", paths, as_json, console,
                       [&](const std::string& path, Json* json) { return verify_path(path, options, console, json); });
}

}  // namespace

const Command kVerify = {
    .name = "verify",
    .summary = "check files against every rule of the format",
    .title = "Check files against every rule of the format.",
    .usage =
        "safetensors verify PATH... [--manifest FILE] [--values LIST] [--quiet]\n"
        "                   [--allow-leading-whitespace] [--max-header-bytes N]\n"
        "                   [--json]",
    .description = kVerifyDescription,
    .options = kVerifyTable,
    .examples = kVerifyExamples,
    .exits =
        "0 all files are valid; 1 a file is invalid or empty, has values of\n"
        "--values, or differs from the manifest; 2 usage; 3 a file cannot be read",
    .run = run_verify,
};

}  // namespace safetensors::cli
