// The subcommand index: writes the index of a model of several files. The problems of the old index are the changes.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "folders.h"
#include "index_problems.h"
#include "json_output.h"
#include "new_file.h"
#include "text/text.h"

#include "base/error.h"
#include "write/checkpoint_index.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace safetensors::cli {
namespace {

constexpr Option kIndexTable[] = {
    {"--name", "STEM", "the beginning of the name of the index"},
    {"-f,--force", nullptr, "replace an index"},
    {"-n,--dry-run", nullptr, "show what would be done, write nothing"},
    kJsonOption,
};

// Checks the old index.
Result<IndexCheck> check_old(const std::string& path) {
  Result<IndexCheck> old = check_index(path);
  if (!old && old.error().code == Errc::invalid_index) {
    IndexCheck broken;
    broken.problems.push_back({.kind = IndexProblemKind::invalid_file, .message = describe(old.error())});
    return broken;
  }
  if (!old) return old;
  std::erase_if(old->problems,
                [](const IndexProblem& problem) { return problem.kind == IndexProblemKind::stray_file; });
  return old;
}

// What to do about an error that no index repairs.
std::string next_step(const std::string& argument, const Error& error) {
  const std::string again = formatted("then run `safetensors index {}` again", printable(argument));
  switch (error.code) {
    case Errc::not_found:
      if (error.path.ends_with(".json"))
        return formatted(" (get the file again, or remove this index to go without the tensor, {})", again);
      return formatted(" (get what is missing, such as with `hf download`, {})", again);
    case Errc::duplicate_name:
      return formatted(" (remove one of the two, as with `safetensors drop FILE FILE --match TENSOR --force`, {})",
                       again);
    case Errc::ambiguous_checkpoint:
      return " (choose one with --name STEM)";
    default:
      // A file that is invalid.
      if (!error.path.ends_with(".safetensors") || exit_of(error) != Exit::negative) return {};
      return formatted(" (see all problems with `safetensors verify {}`)", printable(argument));
  }
}

struct IndexResult {
  std::optional<CheckpointIndex> index;  // the new one
  std::string path;                      // of both
  IndexCheck old;                        // its problems are the changes
  bool is_right = false;                 // the old one needs no change
  bool written = false;
};

// Error: with the path that it is about.
Status make_one(const Arguments& given, IndexResult& result) {
  const std::string& argument = given.positionals[0];
  const bool force = given.has("force");
  Result<CheckpointIndex> index = make_index(argument, {.stem = given.value("name")});
  if (!index) {
    Error error = index.error();
    error.message += next_step(argument, error);
    return base::with_path(std::move(error), argument);
  }
  result.index = *std::move(index);
  const bool in_folder = is_folder(argument);
  const std::string folder = in_folder ? argument : argument.substr(0, argument.rfind('/') + 1);
  const std::string& path = result.path = in_folder ? path_in_folder(folder, result.index->name) : argument;
  std::error_code failed;
  const bool exists = std::filesystem::exists(path, failed);
  Result<IndexCheck> old = exists ? check_old(path) : IndexCheck();
  if (!old) return base::with_path(old.error(), path);
  result.old = *std::move(old);
  result.is_right = exists && std::ranges::all_of(result.old.problems, [](const IndexProblem& problem) {
                      return problem.kind == IndexProblemKind::duplicate_tensor;  // no index changes this
                    });
  if (result.is_right) return {};
  Status status = NewFile::check(path, force);
  if (status && !given.has("dry-run")) {
    status = write_index(folder, *result.index, {.new_file = !force});
    result.written = bool(status);
  }
  return status ? status : Status(base::with_path(status.error(), path));
}

void print_result(const IndexResult& result, bool good, Console& console) {
  const CheckpointIndex& index = *result.index;
  print_problems(console, result.path, "old index", "old index", result.old.problems);
  if (!result.is_right && result.old.other_members > 0)
    console.out(formatted("{}: old index: the new one lacks {} beside metadata and weight_map\n",
                          printable(result.path), counted(result.old.other_members, "member")));
  if (!good) return;
  const char* const verb = result.is_right ? "no change to" : result.written ? "wrote" : "would write";
  console.out(formatted("{} {}: {} in {}, {}\n", verb, printable(index.name), counted(index.tensors, "tensor"),
                        counted(index.files.size(), "file"), size_text(index.total_size)));
}

void print_result_json(const Arguments& given, const IndexResult& result, const Status& status, Console& console) {
  Json json(console, "index");
  json.field("path", given.positionals[0]).field("dry_run", given.has("dry-run")).field("written", result.written);
  if (result.index) {
    json.field("index", result.index->name).field("file_count", result.index->files.size());
    json.field("tensor_count", result.index->tensors).field("total_size", result.index->total_size);
    json.field("lost_members", result.is_right ? 0 : result.old.other_members);
    json_problems(json, "changes", result.old.problems);
  }
  if (!status) json.error(status.error());
  json.finish();
}

Exit run_index(const Arguments& given, Console& console) {
  if (given.positionals.size() != 1) throw UsageError(given.positionals.empty() ? "which FOLDER?" : "takes one FOLDER");
  if (given.positionals[0].empty()) throw UsageError("FOLDER is an empty path");
  IndexResult result;
  const Status status = make_one(given, result);
  notice_beside(given.positionals[0], console);
  if (given.json())
    print_result_json(given, result, status, console);
  else if (result.index)
    print_result(result, bool(status), console);
  return status ? Exit::good : console.error(status.error().path, status.error());
}

}  // namespace

const Command kIndex = {
    .name = "index",
    .summary = "write the index of a model of several files",
    .title = "Write the index of a model of several files.",
    .usage = "FOLDER",
    .description = R"(An index, such as model.safetensors.index.json, says which tensor is in which file of a folder.
Writes the index of all shards of a model: the files that the old index names, and the files whose names differ from
theirs only in the number. Without an old index: the files STEM-00001-of-0000N.safetensors, or else all files. FOLDER
may also be an index in the folder. Shows the problems of the old index, and replaces it only with --force. Reads only
headers. Writes no index if a file is lost, if a tensor is in no file, or if a tensor is in two files and the old
index names neither of them: the error says what to do. verify also finds the problems.)",
    .options = kIndexTable,
    .examples = R"(safetensors index llama-7b/
safetensors index llama-7b/ --force)",
    .exits =
        "0 written, or no change; 1 the old index has problems and --force is not given, or no index repairs the "
        "model; 2 usage; 3 a file cannot be read or written",
    .run = run_index,
};

}  // namespace safetensors::cli
