// Prints the verdict of a set. A set that opens is compared with its index through the open files. Otherwise,
// check_index() reads the headers again and finds all problems, because Checkpoint::open() stops at the first one. A
// set without an index, such as the files of a pattern, has one kind of problem: a tensor in two files.
#include "verify_set.h"

#include "input.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/checkpoint_index.h>

#include <algorithm>
#include <map>
#include <optional>

namespace safetensors::cli {
namespace {

// A tensor that is in two files. The first file comes before the second one in the set.
struct SharedTensor {
  std::string name;
  std::string first;
  std::string second;

  [[nodiscard]] std::string message() const {
    return formatted("tensor `{}` is in two files: `{}` and `{}`", printable(name), printable(first),
                     printable(second));
  }
};

// The differences between an index and its files, and the totals of the tensors.
struct IndexNotes {
  std::vector<std::string> unindexed;
  std::vector<SharedTensor> shared;
  std::vector<std::string> stray;
  std::optional<std::uint64_t> total_size;
  std::uint64_t nbytes = 0;
  std::uint64_t tensors = 0;
};

// The problems of a set that does not open.
struct SetProblems {
  bool has_index;
  std::vector<IndexProblem> list;

  // Whether Checkpoint::open() fails for this reason. With an index, it takes a tensor from the file of the index.
  [[nodiscard]] bool invalid(const IndexProblem& problem) const {
    return problem.kind == IndexProblemKind::missing_tensor || problem.kind == IndexProblemKind::wrong_file ||
           (problem.kind == IndexProblemKind::duplicate_tensor && !has_index);
  }
};

// The name of a file as the index has it: without the folder of the index.
std::string name_in_index(const std::string& path, const std::string& file) {
  std::string folder = path.ends_with(".json") ? path.substr(0, path.rfind('/') + 1) : path;
  if (!folder.empty() && !folder.ends_with('/')) folder += '/';
  return file.starts_with(folder) ? file.substr(folder.size()) : file;
}

// Sorts the tensors that loaders skip: those that the index does not have, and copies of other tensors.
void note_unindexed(const std::string& path, const Checkpoint& checkpoint, IndexNotes& notes) {
  const std::vector<Tensor> unindexed = checkpoint.unindexed_tensors();
  if (unindexed.empty()) return;
  const std::span<const File> files = checkpoint.files();
  std::map<std::string_view, std::size_t> order;  // of the files
  for (std::size_t i = 0; i < files.size(); ++i) order.emplace(files[i].path(), i);
  std::map<std::string_view, std::size_t> seen;  // the first files of the tensors that the index does not have
  const auto file_of = [&](const Tensor& tensor) {
    const File file = tensor.file();
    return order.at(file.path());
  };
  for (const Tensor& tensor : unindexed) {
    const std::size_t file = file_of(tensor);
    const Result<Tensor> indexed = checkpoint.tensor(tensor.name());
    if (!indexed) notes.unindexed.emplace_back(tensor.name());
    const std::size_t other = indexed ? file_of(*indexed) : seen.emplace(tensor.name(), file).first->second;
    if (other == file) continue;
    notes.shared.push_back({std::string(tensor.name()), name_in_index(path, files[std::min(file, other)].path()),
                            name_in_index(path, files[std::max(file, other)].path())});
  }
}

Result<IndexNotes> look_at_index(const std::string& path, const Checkpoint& checkpoint) {
  Result<std::vector<std::string>> stray = checkpoint.stray_files();
  if (!stray) return stray.error();
  IndexNotes notes;
  notes.stray = *std::move(stray);
  notes.total_size = checkpoint.index_total_size();
  note_unindexed(path, checkpoint, notes);
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
  for (const SharedTensor& shared : notes.shared) console.out(head + shared.message() + "\n");
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
  json.line().key("duplicate_tensors").open('[');
  for (const SharedTensor& shared : notes.shared) {
    json.line().open('{').field("name", shared.name).key("files").open('[');
    json.string(shared.first).string(shared.second).close(']').close('}');
  }
  json.close(']');
  list("stray_files", notes.stray);
}

void print_set(const SetRequest& request, const IndexNotes& notes, Console& console, Json* json) {
  if (json != nullptr) {
    print_notes_json(json->key("set").open('{'), notes);
    json->close('}');
    return;
  }
  if (request.quiet) return;
  console.out(formatted("{}: {}, {} in {}, {}\n", printable(request.path), console.green("ok"),
                        counted(notes.tensors, "tensor"), counted(request.set->files().size(), "file"),
                        counted(notes.nbytes, "byte")));
  print_notes(console, request.path, notes);
}

std::vector<IndexProblem> shared_tensors(std::span<const FileHeader> files) {
  std::vector<IndexProblem> problems;
  std::map<std::string_view, const FileHeader*> seen;
  for (const FileHeader& file : files) {
    for (const TensorInfo& tensor : file.header.tensors()) {
      const auto [first, added] = seen.emplace(tensor.name, &file);
      if (added) continue;
      const SharedTensor shared{std::string(tensor.name), first->second->path, file.path};
      problems.push_back({IndexProblemKind::duplicate_tensor, shared.name, shared.second, shared.message()});
    }
  }
  return problems;
}

// Returns the problems without the files that have verdicts of their own.
SetProblems find_problems(const SetRequest& request) {
  Result<IndexCheck> check = check_index(request.path, request.open.parse);
  if (!check) return {.has_index = false, .list = shared_tensors(request.opened)};
  std::erase_if(check->problems, [](const IndexProblem& problem) {
    return problem.kind == IndexProblemKind::missing_file || problem.kind == IndexProblemKind::invalid_file;
  });
  return {.has_index = true, .list = std::move(check->problems)};
}

void print_problems_json(const SetRequest& request, const SetProblems& problems, const Error* error, Exit code,
                         Json& json) {
  json.key("set").open('{').key("valid");
  if (code == Exit::system) {
    json.null();
  } else {
    json.boolean(false);
  }
  if (error != nullptr) json_input_error(json, request.path, *error);
  json.key("problems").open('[');
  for (const IndexProblem& problem : problems.list) json.string(problem.message);
  json.close(']').close('}').line();
}

// Whether the error of Checkpoint::open() has this reason.
bool is_reason(const IndexProblem& problem, const Error& error) {
  if (problem.kind == IndexProblemKind::duplicate_tensor) return error.message == problem.message;
  return error.code == Errc::invalid_index &&
         error.message == formatted("tensor `{}` is not in `{}`, where the index has it", printable(problem.tensor),
                                    printable(problem.file));
}

// Prints each problem once. The error has the offset in the index, but a problem has the file where the tensor is.
void print_problems(const SetRequest& request, const SetProblems& problems, const Error* error, Console& console) {
  const auto is_error = [&](const IndexProblem& problem) { return error != nullptr && is_reason(problem, *error); };
  if (error != nullptr && std::ranges::none_of(problems.list, is_error)) print_invalid(console, request.path, *error);
  for (const IndexProblem& problem : problems.list) {
    if (is_error(problem) && problem.kind != IndexProblemKind::wrong_file) {
      print_invalid(console, request.path, *error);
      continue;
    }
    const bool invalid = problems.invalid(problem);
    if (invalid || !request.quiet)
      console.out(formatted("{}: {}: {}\n", printable(request.path), invalid ? console.red("invalid") : "note",
                            problem.message));
  }
}

}  // namespace

void print_invalid(Console& console, const std::string& path, const Error& error) {
  if (exit_of(error) == Exit::system) {
    input_error(path, error, console);
  } else {
    const std::string& at_fault = error.path.empty() ? path : error.path;
    console.out(formatted("{}: {}: {}\n", printable(at_fault), console.red("invalid"), describe(error)));
  }
}

Exit verify_set(const SetRequest& request, Console& console, Json* json) {
  const Result<IndexNotes> notes =
      request.set ? look_at_index(request.path, *request.set) : Result<IndexNotes>(request.set.error());
  if (notes && request.files == Exit::good) {
    print_set(request, *notes, console, json);
    return Exit::good;
  }
  // The verdict of a file has the error already.
  const Error* const error = request.files == Exit::good ? &notes.error() : nullptr;
  const Exit code = error != nullptr ? exit_of(*error) : request.files;
  const SetProblems problems = find_problems(request);
  if (json == nullptr) {
    print_problems(request, problems, error, console);
  } else if (error != nullptr || problems.has_index || !problems.list.empty()) {
    print_problems_json(request, problems, error, code, *json);
    if (error != nullptr && code == Exit::system) input_error(request.path, *error, console);
  }
  return code;
}

}  // namespace safetensors::cli
