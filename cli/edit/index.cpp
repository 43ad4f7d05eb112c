// The subcommand index: writes the index of a model of several files.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "json_output.h"
#include "new_file.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/checkpoint_index.h>

namespace safetensors::cli {
namespace {

constexpr const char kIndexDescription[] =
    R"(An index, such as model.safetensors.index.json, says which tensor is in which
file of a folder. Writes the index for the files that are called
STEM-00001-of-0000N.safetensors, or for all files of DIR if none is called so.
Reads only headers. A tensor in two files is an error. verify compares an index
with its files.)";

constexpr Option kIndexTable[] = {
    {"--name", "STEM", "the beginning of the name of the index"},
    {"-f,--force", nullptr, "replace an index"},
    {"-n,--dry-run", nullptr, "show what would be done, write nothing"},
    kJsonOption,
};

constexpr const char* kIndexExamples[] = {
    "safetensors index llama-7b/",
    "safetensors index llama-7b/ --force",
};

struct IndexRequest {
  std::string path;
  std::optional<std::string> stem;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

void json_index(Json& json, const CheckpointIndex& index) {
  json.field("index", index.name).field("file_count", index.files.size()).field("tensor_count", index.tensors);
  json.field("total_size", index.total_size);
}

// Prints the result. index: null if it could not be made.
Exit finish_index(const IndexRequest& request, const CheckpointIndex* index, const Status& status, Console& console) {
  const bool written = status && !request.dry_run;
  if (request.json) {
    Json json(console, "index");
    json.field("path", request.path).field("dry_run", request.dry_run).field("written", written);
    if (status) {
      json_index(json, *index);
    } else {
      json.error(status.error());
    }
    json.finish();
  } else if (status) {
    console.out(formatted("{} {}: {} in {}, {}\n", written ? "wrote" : "would write", printable(index->name),
                          counted(index->tensors, "tensor"), counted(index->files.size(), "file"),
                          size_text(index->total_size)));
  }
  if (status) return Exit::good;
  return console.error(status.error().path.empty() ? request.path : status.error().path, status.error());
}

Exit make_one(const IndexRequest& request, Console& console) {
  const Result<CheckpointIndex> index = make_index(request.path, {.stem = request.stem});
  if (!index) return finish_index(request, nullptr, index.error(), console);
  const std::string separator = request.path.ends_with('/') ? "" : "/";
  const std::string path = request.path + separator + index->name;
  Status status = NewFile::check(path, request.force);
  if (status && !request.dry_run) status = safetensors::write_index(request.path, *index, {.new_file = !request.force});
  if (!status && status.error().path.empty()) {
    Error error = status.error();
    error.path = path;
    status = error;
  }
  return finish_index(request, &*index, status, console);
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
  if (const auto wrong = arguments.parse(given)) return console.usage("index", *wrong);
  if (positionals.size() != 1) return console.usage("index", positionals.empty() ? "which DIR?" : "takes one DIR");
  request.path = positionals[0];
  return make_one(request, console);
}

}  // namespace

const Command kIndex = {
    .name = "index",
    .summary = "write the index of a model of several files",
    .title = "Write the index of a model of several files.",
    .usage = "safetensors index DIR [--name STEM] [--force] [--dry-run] [--json]",
    .description = kIndexDescription,
    .options = kIndexTable,
    .arguments = Values::folder,
    .examples = kIndexExamples,
    .exits =
        "0 written; 1 a file is invalid, a tensor is in two files, or the index\n"
        "exists; 2 usage; 3 a file cannot be read or written",
    .run = run_index,
};

}  // namespace safetensors::cli
