// The subcommand verify: opens each file, which checks all rules of the format, and prints a verdict per file. It opens
// the files of a model one after the other, and check_index() of the library compares them with the index.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "folders.h"
#include "index_problems.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "model_path.h"
#include "numbered_files.h"
#include "sha256.h"
#include "text/text.h"
#include "values/stats.h"
#include "verify_cache.h"

#include <safetensors/checkpoint_index.h>
#include <safetensors/clean.h>

#include "base/checked.h"
#include "file/checkpoint_paths.h"
#include "os/regular_file.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace safetensors::cli {
namespace {

// Finds the missing parts of a download. The header of a file that is too short gives the length of the complete file.
// A header that is itself incomplete gives only a lower bound.

// A file that is missing or too short.
struct FileLack {
  std::string path;
  bool lost = false;          // there is no such file
  std::uint64_t bytes = 0;    // size of the file
  std::uint64_t missing = 0;  // bytes at its end
  std::uint64_t data = 0;     // bytes of the tensors of the complete file, if `exact`
  bool exact = true;          // false: the header is not complete, so at least `missing` bytes are missing
};

// What the files of a model lack.
class Download {
 public:
  // model: the path that the command got.
  Download(std::string model, const ParseOptions& parse) : model_(std::move(model)), parse_(parse) {}

  // Adds a file. If `file` is an error, it says why the file could not be opened.
  void add(const std::string& path, const Result<File>& file);
  // Adds the files that do not exist, and that no index names.
  void add_lost(const std::vector<IndexProblem>& problems);
  // Prints one line per kind of lack, or writes the member "download". Prints nothing for a complete model.
  void print(Console& console, Json* json) const;

 private:
  // Returns the number of missing bytes: those at the end of files that are too short, and those of the tensors in lost
  // files, by total_size of the index. Returns nullopt if the number is unknown or has more than 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> missing_bytes() const;

  std::string model_;
  ParseOptions parse_;
  std::vector<std::string> paths_;
  std::vector<FileLack> lacks_;
  std::uint64_t data_bytes_ = 0;  // bytes of the tensors of the complete files, without lost files
  bool known_ = true;             // whether data_bytes_ counts every file and fits
};

// "a.safetensors, b.safetensors, ...": the names without their folders.
std::string names_of(const std::vector<FileLack>& files) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < files.size() && i < kNamed; ++i) {
    const std::string& path = files[i].path;
    text += (i == 0 ? "" : ", ") + printable(path.substr(path.rfind('/') + 1));
  }
  return files.size() > kNamed ? text + ", ..." : text;
}

// Returns what is missing from a file that failed to open with `error`. Returns nullopt if the file has another fault.
// Reads the header of the file again, with the options `parse`.
std::optional<FileLack> lack_of(const std::string& path, const Error& error, const ParseOptions& parse) {
  if (error.os_error == ENOENT) return FileLack{.path = path, .lost = true};
  if (!is_too_short(error)) return std::nullopt;
  const auto file = os::RegularFile::open(path);
  if (!file) return std::nullopt;
  const std::uint64_t size = (*file)->identity().size;
  const Result<FirstBytes> first = FirstBytes::of(**file, parse);
  if (!first || first->header_end() == 0 || first->bytes().size() < 9) return std::nullopt;
  if (first->bytes()[8] != std::byte{'{'} && !parse.allow_leading_whitespace) return std::nullopt;
  if (first->header_end() > size)
    return FileLack{.path = path, .bytes = size, .missing = first->header_end() - size, .exact = false};
  const Result<std::optional<std::uint64_t>> whole = first->file_size(parse);
  if (!whole || !*whole || **whole <= size) return std::nullopt;
  return FileLack{.path = path, .bytes = size, .missing = **whole - size, .data = **whole - first->header_end()};
}

// Returns a text such as "lacks 12 bytes of 96".
std::string lack_text(const FileLack& lack) {
  if (lack.exact) return formatted("lacks {} of {}", counted(lack.missing, "byte"), grouped(lack.bytes + lack.missing));
  return formatted("lacks at least {}: it ends in its header", counted(lack.missing, "byte"));
}

// Writes the members "missing_bytes" and "missing_bytes_exact".
void json_lack(Json& json, const FileLack& lack) {
  json.field("missing_bytes", lack.missing).field("missing_bytes_exact", lack.exact);
}

void Download::add(const std::string& path, const Result<File>& file) {
  paths_.push_back(path);
  if (file) {
    known_ = base::add(data_bytes_, file->header().data_bytes(), data_bytes_) && known_;
    return;
  }
  std::optional<FileLack> lack = lack_of(path, file.error(), parse_);
  if (!lack || (!lack->lost && !lack->exact)) known_ = false;
  if (!lack) return;
  known_ = base::add(data_bytes_, lack->data, data_bytes_) && known_;
  lacks_.push_back(*std::move(lack));
}

void Download::add_lost(const std::vector<IndexProblem>& problems) {
  for (const IndexProblem& problem : problems) {
    // A file that was opened in vain is there already.
    if (problem.kind != IndexProblemKind::missing_file || std::ranges::find(paths_, problem.file) != paths_.end())
      continue;
    paths_.push_back(problem.file);
    lacks_.push_back({.path = problem.file, .lost = true});
  }
}

std::optional<std::uint64_t> Download::missing_bytes() const {
  std::uint64_t sum = 0;
  bool lost = false;
  for (const FileLack& lack : lacks_) {
    if (!base::add(sum, lack.missing, sum)) return std::nullopt;
    lost = lost || lack.lost;
  }
  if (!known_) return std::nullopt;
  if (!lost) return sum;
  base::Cancellation cancellation;
  file::CheckpointPaths paths(cancellation);
  if (!paths.add(model_) || paths.index() == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> total = paths.index()->shards->total_size();
  if (!total || *total < data_bytes_) return std::nullopt;
  return base::add(sum, *total - data_bytes_, sum) ? std::optional(sum) : std::nullopt;
}

void Download::print(Console& console, Json* json) const {
  if (lacks_.empty()) return;
  std::vector<FileLack> lost;
  for (const FileLack& lack : lacks_)
    if (lack.lost) lost.push_back(lack);
  const std::optional<std::uint64_t> missing = missing_bytes();
  if (json != nullptr) {
    json->line().key("download").open('{').field("file_count", std::uint64_t{paths_.size()});
    json->key("missing_files").array(lost, [](const FileLack& lack) { return lack.path; });
    json->key("short_files").open('[');
    for (const FileLack& lack : lacks_) {
      if (lack.lost) continue;
      json->line().open('{').field("path", lack.path).field("file_bytes", lack.bytes);
      json_lack(*json, lack);
      json->close('}');
    }
    json->close(']').field("missing_bytes", missing);
    json->close('}').line();
    return;
  }
  const std::string head = formatted("{}: {}: ", printable(model_), console.red("incomplete"));
  if (!lost.empty())
    console.out(formatted("{}{} of {} missing: {}\n", head, grouped(lost.size()), counted(paths_.size(), "file"),
                          names_of(lost)));
  for (const FileLack& lack : lacks_)
    if (!lack.lost) console.out(formatted("{}{} {}\n", head, names_of({lack}), lack_text(lack)));
  if (missing && (lacks_.size() > 1 || !lost.empty()))
    console.out(formatted("{}{} in all\n", head, counted(*missing, "missing byte")));
}

constexpr const char kVerifyDescription[] =
    R"(A PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Prints one verdict per file: ok, or invalid
with the reason, the offset of the byte and the number of the broken rule.
docs/format.md lists the rules: 1-3 the length of the header, 4 UTF-8, 5 JSON,
6 offsets, 7 overflow, 8 whole bytes, 9 sizes, 10 the length of the file. There
are no rules for the data, so it is read only with --no-nan, --no-inf
and --cache.

A model of several files gets one more verdict: whether each tensor of the index
is in its file, and whether the index names all shards of the model. Without an
index, no tensor may be in two files. Notes name the tensors in two files, other
tensors and files that the index does not have, a wrong total_size, tensors that
are not aligned, and temporary files of killed writers. These are not errors. An
incomplete download gets lines that name the lost files and the number of
missing bytes. Without an index, the names say which files are lost, such as
STEM-00001-of-00006.safetensors, also if the files are several PATHs. A notice
counts the folders below a model that are not checked without -R.)";

constexpr Option kVerifyTable[] = {
    {"--cache", nullptr,
     "in the cache of huggingface_hub: also read\n"
     "all bytes, compare their SHA-256 with the\n"
     "names of the blobs, and name unfinished\n"
     "downloads"},
    kRecursiveOption,
    {"-q,--quiet", nullptr, "print only what is invalid"},
    {"--allow-leading-whitespace", nullptr, "accept white space before the header's {"},
    kAcceptOption,
    {"--max-header-bytes", "N",
     "accept headers up to N bytes; N may end in\n"
     "KiB, MiB or GiB (default 100000000)"},
    {"--no-nan", nullptr, "also read the values, and fail if one is NaN"},
    {"--no-inf", nullptr,
     "also read the values, and fail if one is\n"
     "infinite"},
    {"--json", nullptr,
     "one JSON document, schema\n"
     "safetensors.verify/1"},
};

constexpr Apart kVerifyApart[] = {{"quiet", "json"}};

constexpr const char* kVerifyExamples[] = {
    "safetensors verify stable-diffusion/ --recursive",
    "safetensors verify model.safetensors",
    "safetensors verify llama-7b/",
    "safetensors verify llama-7b/ --no-nan --no-inf",
    "safetensors verify ~/.cache/huggingface/hub/models--gpt2 --cache",
    "safetensors verify --json *.safetensors | jq '.files[] | select(.valid|not)'",
};

struct VerifyOptions {
  OpenOptions open = {.access = Access::read, .parse = {}};
  bool cache = false;
  bool quiet = false;
  bool no_nan = false;
  bool no_inf = false;
};

std::uint64_t misaligned_tensors(const File& file) {
  std::uint64_t count = 0;
  for (const Tensor& tensor : file.tensors()) count += is_misaligned(tensor.info()) ? 1 : 0;
  return count;
}

// null in JSON if a file cannot be read.
std::optional<bool> validity(Exit code) {
  return code == Exit::system ? std::nullopt : std::optional(code == Exit::good);
}

void print_verdict_json(Json& json, const std::string& path, const Result<File>& file) {
  if (file) {
    const Header& header = file->header();
    json.field("valid", true).field("tensor_count", std::uint64_t{header.size()});
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    json.field("nbytes", header.data_bytes());
    json.field("misaligned_tensors", misaligned_tensors(*file));
    json_tolerated(json, header);
  } else {
    json_input_error(json.field("valid", validity(exit_of(file.error()))), path, file.error());
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
  const Tolerated tolerated = header.tolerated();
  const std::string accepted = tolerated.any() ? formatted(", accepted {}", to_string(tolerated)) : std::string();
  console.out(formatted("{}: {}, {}, {}{}\n", printable(path), console.green("ok"), counted(header.size(), "tensor"),
                        counted(header.file_bytes(), "byte"), accepted));
  if (const std::string_view what = emptiness(header.size(), header.data_bytes()); !what.empty())
    console.out(formatted("{}: note: holds {}\n", printable(path), what));
  if (const std::uint64_t misaligned = misaligned_tensors(*file); misaligned != 0)
    console.out(formatted("{}: note: {} not aligned to the size of an element\n", printable(path),
                          misaligned == 1 ? "1 tensor is" : grouped(misaligned) + " tensors are"));
}

// "2 NaN, 1 infinity", without the kinds that are allowed.
std::string values_text(const TensorStats& found, const VerifyOptions& options) {
  std::string text;
  if (options.no_nan && found.nan > 0) text = grouped(found.nan) + " NaN";
  if (options.no_inf && found.infinities() > 0)
    text += formatted("{}{} infinite", text.empty() ? "" : ", ", grouped(found.infinities()));
  return text;
}

void print_values_json(Json& json, const std::vector<TensorStats>& bad) {
  json.field("values_valid", bad.empty()).key("bad_values").open('[');
  for (const TensorStats& found : bad) {
    json.line().open('{').field("name", found.tensor.name()).field("count", found.count()).field("nan", found.nan);
    json.field("positive_infinity", found.positive_infinity);
    json.field("negative_infinity", found.negative_infinity).close('}');
  }
  json.close(']');
}

// Reads the values of a file for --no-nan and --no-inf.
Exit verify_values(const std::string& path, const File& file, const VerifyOptions& options, Console& console,
                   Json* json) {
  const auto fail = [&](const Error& error) {
    if (json != nullptr) json_input_error(json->key("values_valid").value(std::nullopt), path, error);
    return input_error(path, error, console);
  };
  const Interrupt interrupt;
  const auto select = [](const TensorInfo& tensor) { return tensor.dtype != Dtype::UNKNOWN; };  // has no numbers
  Result<std::vector<TensorStats>> found = stats(file.tensors(), false, console, select);
  if (!found && Interrupt::caught()) return Exit::good;
  if (!found) return fail(found.error());
  std::erase_if(*found, [&](const TensorStats& one) { return values_text(one, options).empty(); });
  if (json != nullptr) print_values_json(*json, *found);
  for (const TensorStats& one : *found) {
    if (json != nullptr) break;
    console.out(formatted("{}: {}: `{}` has {} of {}\n", printable(shown_path(path)), console.red("bad values"),
                          printable(one.tensor.name()), values_text(one, options), counted(one.count(), "number")));
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
  return options.no_nan || options.no_inf ? verify_values(path, *file, options, console, json) : Exit::good;
}

// Names the temporary files that killed writers left in the folder of a model. The next writer that replaces a file
// there removes them.
void note_leftovers(const std::string& path, bool quiet, Console& console, Json* json) {
  std::error_code unknown;
  const std::filesystem::path folder = std::filesystem::is_directory(path, unknown)
                                           ? std::filesystem::path(path)
                                           : std::filesystem::path(path).parent_path();
  const Result<std::vector<Temporary>> found =
      clean_directory(folder.empty() ? std::string(".") : folder.string(), {.dry_run = true});
  std::vector<std::string> left;
  if (found) {
    for (const Temporary& temporary : *found)
      if (temporary.state == TemporaryState::stale) left.push_back(temporary.path);
  }
  if (json != nullptr) {
    json->key("leftovers").array(left, std::identity()).line();
  } else if (!quiet) {
    for (const std::string& name : left)
      console.out(
          formatted("{}: note: left by a killed writer; the next command that replaces a file there removes it\n",
                    printable(name)));
  }
}

// Prints the verdict of the files of a model as one set. files: the worst verdict of the files, without their values.
// Returns the worse one of it and the verdict.
Exit verify_set(const std::string& path, IndexCheck check, Exit files, bool quiet, Console& console, Json* json) {
  const bool is_error = std::ranges::any_of(check.problems, &IndexProblem::is_error);
  const Exit code = worse(files, is_error ? Exit::negative : Exit::good);
  if (json != nullptr) {
    json->key("set").open('{').field("valid", validity(code)).field("tensor_count", check.tensors);
    json->field("nbytes", check.nbytes).field("total_size", check.total_size);
    json_problems(*json, "problems", check.problems);
    json->close('}');
    return code;
  }
  if (code == Exit::good && !quiet)
    console.out(formatted("{}: {}, {} in {}, {}\n", printable(path), console.green("ok"),
                          counted(check.tensors, "tensor"), counted(check.files, "file"),
                          counted(check.nbytes, "byte")));
  std::erase_if(check.problems, [&](const IndexProblem& problem) {
    // These files have verdicts of their own.
    const bool of_file =
        problem.kind == IndexProblemKind::missing_file || problem.kind == IndexProblemKind::invalid_file;
    return problem.is_error ? of_file : quiet;
  });
  print_problems(console, path, console.red("invalid"), "note", check.problems);
  const bool repairable = std::ranges::any_of(check.problems, [](const IndexProblem& problem) {
    return problem.kind == IndexProblemKind::wrong_file || problem.kind == IndexProblemKind::unindexed_file;
  });
  if (repairable && !quiet)
    console.out(formatted("{}: note: `safetensors index {}` shows the right index, and writes it with --force\n",
                          printable(path), printable(path)));
  return code;
}

// Checks a model of several files: prints a verdict per file, then one for the set, then those of the cache.
Exit verify_files(const std::string& path, const VerifyOptions& options, Console& console, Json* json) {
  Exit format = Exit::good;
  Exit values = Exit::good;
  std::string first = path;
  Download download(path, options.open.parse);
  CacheComparison cache;
  const auto visit = [&](const std::string& file_path, const Result<File>& file) {
    if (json != nullptr) json->line().open('{').field("path", file_path);
    const Exit code = verify_file(file_path, file, options, console, json);
    (file ? values : format) = worse(file ? values : format, code);
    if (json != nullptr) json->close('}');
    if (options.cache) cache.add(file_path, file, console);
    download.add(file_path, file);
    if (first == path) first = file_path;
  };
  if (json != nullptr) json->key("files").open('[');
  const Result<IndexCheck> check = check_index(path, {.parse = options.open.parse, .visit = visit});
  if (json != nullptr) json->close(']').line();
  if (!check) {
    if (json != nullptr) json_input_error(*json, path, check.error());
    return input_error(path, check.error(), console);
  }
  if (check->path.empty()) download.add_lost(check->problems);
  format = verify_set(path, *check, format, options.quiet, console, json);
  download.print(console, json);
  const Exit differs = options.cache ? cache.print(options.quiet, console, json) : Exit::good;
  note_leftovers(first, options.quiet, console, json);
  if (json != nullptr) json->field("valid", validity(format));
  return worse(worse(format, values), differs);
}

// Reports the number of missing bytes of a file that is too short, or the command that removes the bytes at its end.
void show_lack(const std::string& path, const Error& error, const VerifyOptions& options, Console& console,
               Json* json) {
  OpenOptions tolerant = options.open;
  tolerant.parse.accept = {.unknown_dtypes = false, .unused_bytes = true};
  if (json == nullptr && error.code == Errc::incomplete_data && File::open(path, tolerant))
    console.out(formatted(
        "{0}: note: `safetensors select {0} -o NEW.safetensors --accept unused-bytes` leaves these bytes out\n",
        printable(path)));
  const std::optional<FileLack> lack = lack_of(path, error, options.open.parse);
  if (!lack || lack->lost) return;
  if (json != nullptr) return json_lack(*json, *lack);
  console.out(formatted("{}: {}: {}\n", printable(path), console.red("incomplete"), lack_text(*lack)));
}

// One file, or a path that leads to no file.
Exit verify_one(const std::string& path, const Result<File>& file, const VerifyOptions& options, Console& console,
                Json* json) {
  Exit code = verify_file(path, file, options, console, json);
  std::error_code unknown;
  if (options.cache && !std::filesystem::is_directory(path, unknown)) {
    CacheComparison cache;
    cache.add(path, file, console);
    code = worse(code, cache.print(options.quiet, console, json));
  }
  if (!file) show_lack(path, file.error(), options, console, json);
  return code;
}

Exit verify_path(const std::string& path, const VerifyOptions& options, Console& console, Json* json) {
  if (path == kStandardInput) {
    const PipeData data = options.no_nan || options.no_inf ? PipeData::keep : PipeData::skip;
    return verify_file(path, open_standard_input(options.open, data), options, console, json);
  }
  const Result<std::vector<std::string>> files = Checkpoint::find_files(path);
  if (!files) return verify_one(path, explain_folder(files.error(), path), options, console, json);
  if (files->size() == 1 && files->front() == path)
    return verify_one(path, File::open(path, options.open), options, console, json);
  return verify_files(path, options, console, json);
}

Exit run_verify(const Arguments& given, Console& console) {
  given.need_path(true);
  std::vector<std::string> paths = given.positionals;
  VerifyOptions options;
  options.quiet = given.has("quiet");
  options.cache = given.has("cache");
  options.no_nan = given.has("no-nan");
  options.no_inf = given.has("no-inf");
  options.open.parse.allow_leading_whitespace = given.has("allow-leading-whitespace");
  options.open.parse.accept = accept_of(given);
  const auto max = given.size("max-header-bytes", "a number of bytes, such as 100000000 or 1GiB");
  options.open.parse.max_header_bytes = max.value_or(options.open.parse.max_header_bytes);
  if (options.cache) {
    if (std::ranges::find(paths, kStandardInput) != paths.end())
      throw UsageError("--cache needs files, not standard input");
    if (sha256_library() == "none") return input_error("--cache", sha256_missing(), console);
    std::vector<std::string> found;
    for (const std::string& path : paths)
      for (std::string& snapshot : CacheComparison::snapshots(path)) found.push_back(std::move(snapshot));
    paths = std::move(found);
  }
  FolderCheck check;
  paths = expand_folders(join_incomplete(expand_patterns(paths)), given.has("recursive"), &check);
  const Exit code = for_each_file("verify", paths, given.json(), console, [&](const std::string& path, Json* json) {
    return verify_path(path, options, console, json);
  });
  for (const std::string& path : paths) notice_beside(path, console, false);
  check.notice(console);
  return code;
}

}  // namespace

const Command kVerify = {
    .name = "verify",
    .summary = "check files against every rule of the format",
    .title = "Check files against every rule of the format.",
    .usage =
        "safetensors verify PATH... [--cache] [--no-nan] [--no-inf]\n"
        "                   [--quiet] [--allow-leading-whitespace] [--accept LIST]\n"
        "                   [--max-header-bytes N] [--recursive] [--json]",
    .description = kVerifyDescription,
    .options = kVerifyTable,
    .apart = kVerifyApart,
    .examples = kVerifyExamples,
    .exits =
        "0 all files are valid; 1 a file is invalid or empty, has NaN or infinite\n"
        "values, or differs from its blob, or a model is incomplete; 2 usage;\n"
        "3 a file cannot be read",
    .run = run_verify,
};

}  // namespace safetensors::cli
