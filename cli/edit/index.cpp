// The subcommand index: makes, checks and fixes the index of a model of several files.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "json_output.h"
#include "new_file.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/checkpoint_index.h>

#include <algorithm>
#include <array>

namespace safetensors::cli {
namespace {

constexpr const char kIndexDescription[] =
    R"(An index, such as model.safetensors.index.json, says which tensor is in which
file of a folder. make writes an index for the files that are called
STEM-00001-of-0000N.safetensors, or for all files of DIR if none is called so.
check compares an index with its files: files and tensors that are missing,
tensors in another file or in two files, tensors and files that the index does
not have, and total_size. fix writes the right index, and keeps its metadata,
but no other members. It refuses a tensor in two files. All three read only
headers.)";

constexpr Option kIndexTable[] = {
    {"--name", "STEM", "make: the beginning of the name of the index"},
    {"-f,--force", nullptr, "make: replace an index"},
    {"-n,--dry-run", nullptr, "make, fix: show what would be done, write nothing"},
    kJsonOption,
};

constexpr const char* kIndexExamples[] = {
    "safetensors index make llama-7b/",
    "safetensors index check llama-7b/",
    "safetensors index fix llama-7b/ --dry-run",
};

struct IndexRequest {
  std::string action;
  std::string path;
  std::optional<std::string> stem;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

// The kinds of problems in the JSON document, indexed by IndexProblemKind.
constexpr std::array<std::string_view, 8> kProblemKinds = {"missing_file", "invalid_file",     "missing_tensor",
                                                           "wrong_file",   "unindexed_tensor", "stray_file",
                                                           "total_size",   "duplicate_tensor"};

void json_problems(Json& json, const std::vector<IndexProblem>& problems) {
  const auto optional = [&](std::string_view key, const std::string& text, bool present) {
    json.key(key);
    if (present) {
      json.string(text);
    } else {
      json.null();
    }
  };
  json.line().key("problems").open('[');
  for (const IndexProblem& problem : problems) {
    const bool of_tensor =
        problem.kind == IndexProblemKind::missing_tensor || problem.kind == IndexProblemKind::wrong_file ||
        problem.kind == IndexProblemKind::unindexed_tensor || problem.kind == IndexProblemKind::duplicate_tensor;
    json.line().open('{').field("kind", kProblemKinds.at(static_cast<std::size_t>(problem.kind)));
    optional("tensor", problem.tensor, of_tensor);
    optional("file", problem.file, problem.kind != IndexProblemKind::total_size);
    json.field("message", problem.message).close('}');
  }
  json.close(']');
}

void json_index(Json& json, const CheckpointIndex& index) {
  json.field("index", index.name).field("file_count", index.files.size()).field("tensor_count", index.tensors);
  json.field("total_size", index.total_size);
}

// One document or text for each action. index: the index that is or would be written, or null.
struct IndexOutcome {
  const CheckpointIndex* index = nullptr;
  const std::vector<IndexProblem>* problems = nullptr;
  bool written = false;
};

void print_json(Console& console, const IndexRequest& request, const IndexOutcome& outcome, const Error* error) {
  Json json(console, "index");
  json.field("path", request.path).field("action", request.action).field("dry_run", request.dry_run);
  json.field("written", outcome.written);
  if (error != nullptr) {
    json.error(*error);
  } else {
    if (outcome.index != nullptr) json_index(json, *outcome.index);
    if (outcome.problems != nullptr) json_problems(json, *outcome.problems);
  }
  json.finish();
}

void print_text(Console& console, const IndexRequest& request, const IndexOutcome& outcome) {
  if (outcome.problems != nullptr) {
    for (const IndexProblem& problem : *outcome.problems) console.out(problem.message + "\n");
    console.out(outcome.problems->empty() ? "the index is right\n"
                                          : formatted("{}\n", counted(outcome.problems->size(), "problem")));
  }
  if (outcome.index == nullptr || (!outcome.written && !request.dry_run)) return;
  console.out(formatted("{} {}: {} in {}, {}\n", outcome.written ? "wrote" : "would write",
                        printable(outcome.index->name), counted(outcome.index->tensors, "tensor"),
                        counted(outcome.index->files.size(), "file"), size_text(outcome.index->total_size)));
}

Exit finish_index(const IndexRequest& request, const IndexOutcome& outcome, const Status& status, Exit code,
                  Console& console) {
  const Error* error = status ? nullptr : &status.error();
  if (request.json) {
    print_json(console, request, outcome, error);
  } else if (error == nullptr) {
    print_text(console, request, outcome);
  }
  if (error == nullptr) return code;
  return console.error(error->path.empty() ? request.path : error->path, *error);
}

Exit run_make(const IndexRequest& request, Console& console) {
  const Result<CheckpointIndex> index = make_index(request.path, {.stem = request.stem});
  if (!index) return finish_index(request, {}, index.error(), Exit::good, console);
  const std::string separator = request.path.ends_with('/') ? "" : "/";
  const std::string path = request.path + separator + index->name;
  Status status = NewFile::check(path, request.force);
  if (status && !request.dry_run) status = write_index(request.path, *index, {.new_file = !request.force});
  if (!status && status.error().path.empty()) {
    Error error = status.error();
    error.path = path;
    status = error;
  }
  return finish_index(request, {.index = &*index, .written = status && !request.dry_run}, status, Exit::good, console);
}

Exit run_check(const IndexRequest& request, Console& console) {
  const Result<IndexCheck> check = check_index(request.path);
  if (!check) return finish_index(request, {}, check.error(), Exit::good, console);
  const Exit code = check->problems.empty() ? Exit::good : Exit::negative;
  return finish_index(request, {.problems = &check->problems}, {}, code, console);
}

Exit run_fix(const IndexRequest& request, Console& console) {
  const Result<IndexCheck> check = fix_index(request.path);
  if (!check) return finish_index(request, {}, check.error(), Exit::good, console);
  // A file that no index should name is not repaired by another index.
  const bool stale = std::ranges::any_of(
      check->problems, [](const IndexProblem& problem) { return problem.kind != IndexProblemKind::stray_file; });
  IndexOutcome outcome{.index = stale ? &check->fixed : nullptr, .problems = &check->problems};
  Status status;
  if (stale && !request.dry_run) {
    const std::size_t separator = check->path.rfind('/');
    const std::string folder = separator == std::string::npos ? "." : check->path.substr(0, separator + 1);
    status = write_index(folder, check->fixed);
    outcome.written = status.ok();
  }
  if (stale && status && check->other_members > 0)
    console.message(formatted("{}: notice: {} of the index beside metadata and weight_map {} kept",
                              printable(check->path), counted(check->other_members, "member"),
                              check->other_members == 1 ? "is not" : "are not"));
  return finish_index(request, outcome, status, Exit::good, console);
}

Exit run_index(std::span<const std::string> given, Console& console) {
  IndexRequest request;
  std::vector<std::string> positionals;
  Arguments arguments(kIndex);
  arguments.positionals(positionals);
  arguments.value("name", request.stem);
  arguments.flag("force", request.force);
  arguments.flag("dry-run", request.dry_run);
  arguments.flag("json", request.json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("index", *wrong);
  request.action = positionals.empty() ? "" : positionals[0];
  const bool make = request.action == "make";
  if (!make && request.action != "check" && request.action != "fix")
    return console.usage("index", "what to do: make, check or fix?");
  if (positionals.size() != 2) return console.usage("index", formatted("{} takes one path", request.action));
  if (!make && (request.stem || request.force)) return console.usage("index", "--name and --force go with make");
  if (request.dry_run && request.action == "check") return console.usage("index", "check writes nothing");
  request.path = positionals[1];
  if (make) return run_make(request, console);
  return request.action == "check" ? run_check(request, console) : run_fix(request, console);
}

}  // namespace

const Command kIndex = {
    .name = "index",
    .summary = "make, check and fix an index: index make, check, fix",
    .title = "Make, check and fix the index of a model of several files.",
    .usage =
        "safetensors index make DIR [--name STEM] [--force] [--dry-run] [--json]\n"
        "safetensors index check PATH [--json]\n"
        "safetensors index fix PATH [--dry-run] [--json]",
    .description = kIndexDescription,
    .options = kIndexTable,
    .words = "make|check|fix",
    .examples = kIndexExamples,
    .exits =
        "0 done, or the index is right; 1 it has problems, a file is invalid, or\n"
        "the index exists; 2 usage; 3 a file cannot be read or written",
    .run = run_index,
};

}  // namespace safetensors::cli
