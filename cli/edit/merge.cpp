// The subcommands merge and split: the same tensors in one file or in several.
#include "rewrite_request.h"

#include "command.h"

#include <filesystem>
#include <system_error>

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kDefaultShardSize = 5'000'000'000;
constexpr std::size_t kAnyNumber = ~std::size_t{0};

constexpr auto kMergeTable = joined({{"-o,--output", "OUT", "the new file", nullptr, Values::path}}, kWriteOptions);
constexpr auto kSplitTable = joined(kModelOptions, kWriteOptions);

constexpr const char kMergeExits[] =
    "0 written; 1 a file is invalid, two tensors have one name, or OUT exists; 2 usage; 3 a file cannot be read or "
    "written";

Exit run_merge(const Arguments& given, Console& console) {
  RewriteRequest request(kMerge, given, kAnyNumber);
  request.kind = OutputKind::file;
  return request.run(console);
}

Exit run_split(const Arguments& given, Console& console) {
  RewriteRequest request(kSplit, given, 1);
  request.kind = OutputKind::folder;
  if (!request.options.max_shard_size) request.options.max_shard_size = kDefaultShardSize;
  // A model of several files keeps its names.
  std::error_code unknown;
  if (!request.options.stem && std::filesystem::is_regular_file(request.inputs[0], unknown))
    request.options.stem = "model";
  return request.run(console);
}

}  // namespace

const Command kMerge = {
    .name = "merge",
    .summary = "join files or models in one file",
    .title = "Write the tensors of several files or models to one file.",
    .usage = "IN... -o OUT",
    .description = R"(Each IN is a file, or a folder, an index or a pattern of a model of several files. Two tensors
of one name are an error. The tensors are in the order in which this library writes them, if all files of IN have this
order. Otherwise, they are in the order of the files. So merge after split gives the same bytes for a file that this
library wrote.)",
    .options = kMergeTable,
    .examples = R"(safetensors merge llama-7b/ -o llama-7b.safetensors
safetensors merge base.safetensors head.safetensors -o model.safetensors)",
    .exits = kMergeExits,
    .run = run_merge,
};

const Command kSplit = {
    .name = "split",
    .summary = "split a file or a model into files and an index",
    .title = "Split a file or a model into several files and their index.",
    .usage = "IN (OUT | -o OUT)",
    .description = R"(IN is a file, or a folder, an index or a pattern of a model of several files. OUT is a folder
for the files STEM-00001-of-0000N.safetensors and their index, STEM.safetensors.index.json. The tensors are split
exactly as huggingface_hub does: in their order, and a tensor that is larger than SIZE, which is 5GB by default,
gets a file of its own. If one file is enough, it is STEM.safetensors, without an index. STEM is that of a model of
several files, or else model.)",
    .options = kSplitTable,
    .examples = R"(safetensors split llama-7b.safetensors llama-7b/ --max-shard-size 5GB
safetensors split llama-7b/ llama-7b/ --max-shard-size 10GB --force)",
    .exits = kMergeExits,
    .run = run_split,
};

}  // namespace safetensors::cli
