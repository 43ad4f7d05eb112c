// The subcommand verify: opens each file, which checks all rules of the format, and prints a verdict per file. It opens
// the files of a model one after the other, and check_index() of the library compares them with the index.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "folders.h"
#include "index_problems.h"
#include "input.h"
#include "json_output.h"
#include "sha256.h"
#include "text/text.h"
#include "values/numbers.h"
#include "values/stats.h"
#include "verify_cache.h"

#include "io/temporary.h"
#include "write/checkpoint_index.h"

#include "base/checked.h"
#include "file/checkpoint_paths.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

namespace safetensors::cli {
namespace {

// Where verdicts go: lines for people, or the members of an object. Without `json`, it is null.
struct Report {
  const Arguments& given;
  const OpenOptions& open;
  Console& console;
  Json* json;

  // These print nothing in JSON.
  void bad(const std::string& path, std::string_view word, std::string_view text) const {
    if (json == nullptr) console.out(formatted("{}: {}: {}\n", printable(path), console.red(word), text));
  }
  void good(const std::string& path, std::string_view text) const {
    if (json == nullptr && !given.has("quiet"))
      console.out(formatted("{}: {}, {}\n", printable(path), console.green("ok"), text));
  }
  void note(const std::string& path, std::string_view text) const {
    if (json == nullptr && !given.has("quiet")) console.out(formatted("{}: note: {}\n", printable(path), text));
  }
};

// A file of a download that is missing or too short. The header of a file that is too short gives the length of the
// complete file. A header that is itself incomplete gives only a lower bound.
struct FileLack {
  std::string path;
  bool lost = false;          // there is no such file
  std::uint64_t bytes = 0;    // size of the file
  std::uint64_t missing = 0;  // bytes at its end
  std::uint64_t data = 0;     // bytes of the tensors of the complete file, if `exact`
  bool exact = true;          // false: the header is not complete, so at least `missing` bytes are missing

  // "lacks 12 bytes of 96"
  [[nodiscard]] std::string text() const {
    if (exact) return formatted("lacks {} of {}", counted(missing, "byte"), grouped(bytes + missing));
    return formatted("lacks at least {}: it ends in its header", counted(missing, "byte"));
  }
  // Writes the members "missing_bytes" and "missing_bytes_exact".
  void write(Json& json) const { json.field("missing_bytes", missing).field("missing_bytes_exact", exact); }
};

// Returns what is missing from a file that failed to open with `error`. Returns nullopt if the file has another fault.
// Reads the header of the file again, with the options `parse`.
std::optional<FileLack> lack_of(const std::string& path, const Error& error, const ParseOptions& parse) {
  if (error.os_error == ENOENT) return FileLack{.path = path, .lost = true};
  if (!is_too_short(error)) return std::nullopt;
  const Result<FirstBytes> first = FirstBytes::of(path, parse);
  if (!first || first->header_end() == 0 || first->bytes().size() < 9) return std::nullopt;
  if (first->bytes()[8] != std::byte{'{'} && !parse.allow_leading_whitespace) return std::nullopt;
  const std::uint64_t size = first->size();
  if (first->header_end() > size)
    return FileLack{.path = path, .bytes = size, .missing = first->header_end() - size, .exact = false};
  const Result<std::optional<std::uint64_t>> whole = first->file_size(parse);
  if (!whole || !*whole || **whole <= size) return std::nullopt;
  return FileLack{.path = path, .bytes = size, .missing = **whole - size, .data = **whole - first->header_end()};
}

// What the files of a model lack.
class Download {
 public:
  explicit Download(const ParseOptions& parse) : parse_(parse) {}

  // Adds a file. If `file` is an error, it says why the file could not be opened.
  void add(const std::string& path, const Result<File>& file) {
    paths_.insert(path);
    std::optional<FileLack> lack = file ? std::nullopt : lack_of(path, file.error(), parse_);
    if (!file && (!lack || !lack->exact)) known_ = false;
    const std::uint64_t data = file ? file->header().data_bytes() : lack ? lack->data : 0;
    known_ = base::add(data_bytes_, data, data_bytes_) && known_;
    if (lack) lacks_.push_back(*std::move(lack));
  }
  // Adds the files that do not exist, and that no index names.
  void add_lost(const std::vector<IndexProblem>& problems) {
    for (const IndexProblem& problem : problems) {
      // A file that was opened in vain is there already.
      if (problem.kind == IndexProblemKind::missing_file && paths_.insert(problem.file).second)
        lacks_.push_back({.path = problem.file, .lost = true});
    }
  }
  // Prints one line per kind of lack, or writes the member "download". Prints nothing for a complete model.
  // total_size: of the index.
  void print(const std::string& model, std::optional<std::uint64_t> total_size, const Report& report) const;

 private:
  // Returns the number of missing bytes: those at the end of files that are too short, and those of the tensors in lost
  // files, by total_size of the index. Returns nullopt if the number is unknown or has more than 64 bits.
  [[nodiscard]] std::optional<std::uint64_t> missing_bytes(std::optional<std::uint64_t> total_size) const {
    std::uint64_t sum = 0;
    for (const FileLack& lack : lacks_) {
      if (!base::add(sum, lack.missing, sum)) return std::nullopt;
    }
    if (!known_) return std::nullopt;
    if (std::ranges::none_of(lacks_, &FileLack::lost)) return sum;
    if (!total_size || *total_size < data_bytes_) return std::nullopt;
    return base::add(sum, *total_size - data_bytes_, sum) ? std::optional(sum) : std::nullopt;
  }

  ParseOptions parse_;
  std::set<std::string> paths_;
  std::vector<FileLack> lacks_;
  std::uint64_t data_bytes_ = 0;  // bytes of the tensors of the complete files, without lost files
  bool known_ = true;             // whether data_bytes_ counts every file and fits
};

void Download::print(const std::string& model, std::optional<std::uint64_t> total_size, const Report& report) const {
  constexpr std::size_t kNamed = 4;
  if (lacks_.empty()) return;
  const auto name_of = [](const std::string& path) { return printable(path.substr(path.rfind('/') + 1)); };
  const std::optional<std::uint64_t> missing = missing_bytes(total_size);
  std::vector<std::string> lost;
  std::vector<FileLack> cut;
  for (const FileLack& lack : lacks_) lack.lost ? lost.push_back(lack.path) : cut.push_back(lack);
  if (Json* const json = report.json) {
    json->line().key("download").open('{').field("file_count", paths_.size()).field("missing_files", lost);
    json->objects("short_files", cut, [&](const FileLack& lack) {
      json->field("path", lack.path).field("file_bytes", lack.bytes);
      lack.write(*json);
    });
    json->field("missing_bytes", missing).close('}').line();
  }
  if (!lost.empty())
    report.bad(model, "incomplete",
               formatted("{} of {} missing: {}", grouped(lost.size()), counted(paths_.size(), "file"),
                         first_texts(lost, kNamed, name_of)));
  for (const FileLack& lack : cut) report.bad(model, "incomplete", name_of(lack.path) + ' ' + lack.text());
  if (missing && (lacks_.size() > 1 || !lost.empty()))
    report.bad(model, "incomplete", formatted("{} in all", counted(*missing, "missing byte")));
}

constexpr Option kVerifyTable[] = {
    {"--cache", nullptr,
     "in the cache of huggingface_hub: also read all bytes, compare their SHA-256 with the names of the blobs, and "
     "name unfinished downloads"},
    kRecursiveOption,
    {"-q,--quiet", nullptr, "print only what is invalid"},
    {"--allow-leading-whitespace", nullptr, "accept white space before the header's {"},
    kAcceptOption,
    {"--max-header-bytes", "N", "accept headers up to N bytes; N may end in KiB, MiB or GiB (default 100000000)"},
    {"--no-nan", nullptr, "also read the floats, and fail if one is NaN"},
    {"--no-inf", nullptr, "also read the floats, and fail if one is infinite"},
    kJsonOption,
};

constexpr Apart kVerifyApart[] = {{"quiet", "json"}};

// null in JSON if a file cannot be read.
std::optional<bool> validity(Exit code) {
  return code == Exit::system ? std::nullopt : std::optional(code == Exit::good);
}

void show_verdict(const std::string& path, const File& file, const Report& report) {
  const Header& header = file.header();
  const Tolerated tolerated = header.tolerated();
  const TensorList tensors = header.tensors();
  const auto misaligned = static_cast<std::uint64_t>(std::count_if(tensors.begin(), tensors.end(), is_misaligned));
  if (report.json != nullptr) {
    Json& json = *report.json;
    json.field("valid", true).field("tensor_count", std::uint64_t{header.size()});
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    json.field("nbytes", header.data_bytes()).field("misaligned_tensors", misaligned);
    json_tolerated(json, header);
  }
  report.good(path, formatted("{}, {}{}", counted(header.size(), "tensor"), counted(header.file_bytes(), "byte"),
                              tolerated.any() ? formatted(", accepted {}", to_string(tolerated)) : std::string()));
  if (const std::string_view what = emptiness(header.size(), header.data_bytes()); !what.empty())
    report.note(path, formatted("holds {}", what));
  if (misaligned != 0)
    report.note(path, formatted("{} not aligned to the size of an element",
                                misaligned == 1 ? "1 tensor is" : grouped(misaligned) + " tensors are"));
}

// "2 NaN, 1 infinity", without the kinds that are allowed.
std::string values_text(const TensorStats& found, const Arguments& given) {
  std::string text;
  if (given.has("no-nan") && found.nan > 0) text = grouped(found.nan) + " NaN";
  if (given.has("no-inf") && found.infinities() > 0)
    text += formatted("{}{} infinite", text.empty() ? "" : ", ", grouped(found.infinities()));
  return text;
}

// Reads the values of a file for --no-nan and --no-inf.
Exit verify_values(const std::string& path, const File& file, const Report& report) {
  Json* const json = report.json;
  // Integers and floats of 4 and 6 bits have neither NaN nor infinities.
  const auto select = [](const TensorInfo& tensor) {
    return tensor.dtype != Dtype::UNKNOWN && bits(tensor.dtype) >= 8 && !is_integer(tensor.dtype);
  };
  Result<std::vector<TensorStats>> found = stats(file.tensors(), false, report.console, select);
  if (!found) {
    if (json != nullptr) json_input_error(json->key("values_valid").value(std::nullopt), path, found.error());
    return input_error(path, found.error(), report.console);
  }
  std::erase_if(*found, [&](const TensorStats& one) { return values_text(one, report.given).empty(); });
  if (json != nullptr)
    json->field("values_valid", found->empty()).objects("bad_values", *found, [&](const TensorStats& one) {
      json->field("name", one.tensor.name()).field("count", one.count()).field("nan", one.nan);
      json->field("positive_infinity", one.positive_infinity).field("negative_infinity", one.negative_infinity);
    });
  for (const TensorStats& one : *found) {
    report.bad(shown_path(path), "bad values",
               formatted("`{}` has {} of {}", printable(one.tensor.name()), values_text(one, report.given),
                         counted(one.count(), "number")));
  }
  return found->empty() ? Exit::good : Exit::negative;
}

Exit verify_file(const std::string& path, const Result<File>& file, const Report& report) {
  if (file) {
    show_verdict(shown_path(path), *file, report);
    return report.given.has("no-nan") || report.given.has("no-inf") ? verify_values(path, *file, report) : Exit::good;
  }
  const Error& error = file.error();
  const Exit code = exit_of(error);
  if (report.json != nullptr) json_input_error(report.json->field("valid", validity(code)), path, error);
  if (code == Exit::system) return input_error(path, error, report.console);
  report.bad(error.path.empty() ? shown_path(path) : error.path, "invalid", describe(error));
  return code;
}

// Names the temporary files that killed writers left in the folder of a model. A later writer removes them, if it
// replaces a file there or writes a model there.
void note_leftovers(const std::string& path, const Report& report) {
  const std::string folder = is_folder(path) ? path : std::filesystem::path(path).parent_path().string();
  const Result<std::vector<std::string>> found = io::clean_directory(folder.empty() ? "." : folder, {.dry_run = true});
  const std::vector<std::string> left = found ? *found : std::vector<std::string>();
  if (report.json != nullptr) report.json->field("leftovers", left).line();
  for (const std::string& one : left)
    report.note(one, "left by a killed writer; a save that replaces a file or writes a model there removes it");
}

// Prints the verdict of the files of a model as one set. files: the worst verdict of the files, without their values.
// Returns the worse one of it and the verdict.
Exit verify_set(const std::string& path, IndexCheck check, Exit files, const Report& report) {
  const bool is_error = std::ranges::any_of(check.problems, &IndexProblem::is_error);
  const Exit code = std::max(files, is_error ? Exit::negative : Exit::good);
  if (report.json != nullptr) {
    Json& json = *report.json;
    json.key("set").open('{').field("valid", validity(code)).field("tensor_count", check.tensors);
    json.field("nbytes", check.nbytes).field("total_size", check.total_size);
    json_problems(json, "problems", check.problems);
    json.close('}');
    return code;
  }
  if (code == Exit::good)
    report.good(path, formatted("{} in {}, {}", counted(check.tensors, "tensor"), counted(check.files, "file"),
                                counted(check.nbytes, "byte")));
  std::erase_if(check.problems, [&](const IndexProblem& problem) {
    // These files have verdicts of their own.
    const bool of_file =
        problem.kind == IndexProblemKind::missing_file || problem.kind == IndexProblemKind::invalid_file;
    return problem.is_error ? of_file : report.given.has("quiet");
  });
  print_problems(report.console, path, report.console.red("invalid"), "note", check.problems);
  const bool repairable = std::ranges::any_of(check.problems, [](const IndexProblem& problem) {
    return problem.kind == IndexProblemKind::wrong_file || problem.kind == IndexProblemKind::unindexed_file;
  });
  if (repairable)
    report.note(path,
                formatted("`safetensors index {}` shows the right index, and writes it with --force", printable(path)));
  return code;
}

// Checks a model of several files: prints a verdict per file, then one for the set, then those of the cache.
Result<Exit> verify_files(const std::string& path, const Report& report) {
  Json* const json = report.json;
  Exit format = Exit::good;
  Exit values = Exit::good;
  std::string first = path;
  Download download(report.open.parse);
  const bool with_cache = report.given.has("cache");
  CacheComparison cache;
  const auto visit = [&](const std::string& file_path, const Result<File>& file) {
    if (json != nullptr) json->line().open('{').field("path", file_path);
    const Exit code = verify_file(file_path, file, report);
    (file ? values : format) = std::max(file ? values : format, code);
    if (json != nullptr) json->close('}');
    if (with_cache) cache.add(file_path, file, report.console);
    download.add(file_path, file);
    if (first == path) first = file_path;
  };
  if (json != nullptr) json->key("files").open('[');
  const Result<IndexCheck> check = check_index(path, {.parse = report.open.parse, .visit = visit});
  if (json != nullptr) json->close(']').line();
  if (!check) return check.error();
  if (check->path.empty()) download.add_lost(check->problems);
  format = verify_set(path, *check, format, report);
  download.print(path, check->total_size, report);
  const Exit differs = with_cache ? cache.print(report.given.has("quiet"), report.console, json) : Exit::good;
  note_leftovers(first, report);
  if (json != nullptr) json->field("valid", validity(format));
  return std::max(std::max(format, values), differs);
}

// Reports the number of missing bytes of a file that is too short, or the command that removes the bytes at its end.
void show_lack(const std::string& path, const Error& error, const Report& report) {
  OpenOptions tolerant = report.open;
  tolerant.parse.accept = {.unknown_dtypes = false, .unused_bytes = true};
  if (report.json == nullptr && error.code == Errc::incomplete_data && File::open(path, tolerant))
    report.console.out(formatted(
        "{0}: note: `safetensors select {0} -o NEW.safetensors --accept unused-bytes` leaves these bytes out\n",
        printable(path)));
  const std::optional<FileLack> lack = lack_of(path, error, report.open.parse);
  if (!lack || lack->lost) return;
  if (report.json != nullptr) lack->write(*report.json);
  report.bad(path, "incomplete", lack->text());
}

// One file, or a path that leads to no file.
Exit verify_one(const std::string& path, const Result<File>& file, const Report& report) {
  Exit code = verify_file(path, file, report);
  if (report.given.has("cache") && !is_folder(path)) {
    CacheComparison cache;
    cache.add(path, file, report.console);
    code = std::max(code, cache.print(report.given.has("quiet"), report.console, report.json));
  }
  if (!file) show_lack(path, file.error(), report);
  return code;
}

Result<Exit> verify_path(const std::string& path, const Report& report) {
  const OpenOptions& open = report.open;
  if (path == kStandardInput) {
    const bool values = report.given.has("no-nan") || report.given.has("no-inf");
    return verify_file(path, open_standard_input(open, values ? PipeData::keep : PipeData::skip), report);
  }
  const Result<std::vector<std::string>> files = Checkpoint::find_files(path);
  if (!files) return verify_one(path, explain_folder(files.error(), path), report);
  if (files->size() == 1 && files->front() == path) return verify_one(path, File::open(path, open), report);
  return verify_files(path, report);
}

Exit run_verify(const Arguments& given, Console& console) {
  given.need_path();
  std::vector<std::string> paths = given.positionals;
  OpenOptions open{.access = Access::read, .parse = {.accept = accept_of(given)}};
  open.parse.allow_leading_whitespace = given.has("allow-leading-whitespace");
  const auto max = given.number("max-header-bytes", "a number of bytes, such as 100000000 or 1GiB", &parse_size);
  open.parse.max_header_bytes = max.value_or(open.parse.max_header_bytes);
  if (given.has("cache")) {
    if (std::ranges::find(paths, kStandardInput) != paths.end())
      throw UsageError("--cache needs files, not standard input");
    if (sha256_library() == "none") return input_error("--cache", sha256_missing(), console);
    std::vector<std::string> found;
    for (const std::string& path : paths)
      for (std::string& snapshot : CacheComparison::snapshots(path)) found.push_back(std::move(snapshot));
    paths = std::move(found);
  }
  const std::vector<std::string> folders = given.has("recursive") ? std::vector<std::string>() : paths;
  paths = expand_folders(paths, given.has("recursive"), true);
  const Exit code = for_each_file("verify", paths, given.json(), console, [&](const std::string& path, Json* json) {
    return verify_path(path, {given, open, console, json});
  });
  for (const std::string& path : paths) notice_beside(path, console, false);
  for (const std::string& folder : folders) notice_below(folder, console);
  return code;
}

}  // namespace

const Command kVerify = {
    .heading = "check",
    .name = "verify",
    .summary = "check files against every rule of the format",
    .title = "Check files against every rule of the format.",
    .usage = "PATH...",
    .description = R"(A PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or -
for standard input. Prints one verdict per file: ok, or invalid with the reason, the offset of the byte and the number
of the broken rule. docs/format.md lists the rules: 1-3 the length of the header, 4 UTF-8, 5 JSON, 6 offsets, 7
overflow, 8 whole bytes, 9 sizes, 10 the length of the file. There are no rules for the data, so it is read only with
--no-nan, --no-inf and --cache.

A model of several files gets one more verdict: whether each tensor of the index is in its file, and whether the index
names all shards of the model. Without an index, no tensor may be in two files. Notes name the tensors in two files,
tensors and files that the index does not name, a wrong total_size, tensors that are not aligned, and temporary files
of killed writers. These are not errors. An incomplete download gets lines that name the lost files and the number of
missing bytes. Without an index, names such as STEM-00001-of-00006.safetensors show which files are lost, also if you
give the files as several PATHs. Without -R, folders below a model are not checked, and a notice gives their
number.)",
    .options = kVerifyTable,
    .apart = kVerifyApart,
    .examples = R"(safetensors verify stable-diffusion/ --recursive
safetensors verify model.safetensors
safetensors verify llama-7b/
safetensors verify llama-7b/ --no-nan --no-inf
safetensors verify ~/.cache/huggingface/hub/models--gpt2 --cache
safetensors verify --json *.safetensors | jq '.files[] | select(.valid|not)')",
    .exits =
        "0 all files are valid; 1 a file is invalid or empty, has NaN or infinite values, or differs from its blob, or "
        "a model is incomplete; 2 usage; 3 a file cannot be read",
    .run = run_verify,
};

}  // namespace safetensors::cli
