// The subcommands merge, split and reshard: the same tensors in one file or in several.
#include "rewrite_request.h"

#include "command.h"

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kDefaultShardSize = 5'000'000'000;
constexpr std::size_t kAnyNumber = ~std::size_t{0};

constexpr const char kMergeDescription[] =
    R"(Each IN is a file, or a folder, an index or a pattern of a model of several
files. Two tensors of one name are an error. The tensors are in the order in
which this library writes them, if all files of IN have this order. Otherwise,
they are in the order of the files. So merge after split gives the same bytes
for a file that this library wrote.)";

constexpr const char kSplitDescription[] =
    R"(OUT is a folder for the files STEM-00001-of-0000N.safetensors and their index,
STEM.safetensors.index.json. The tensors are split exactly as huggingface_hub
does: in their order, and a tensor that is larger than SIZE gets a file of its
own. If one file is enough, it is STEM.safetensors, without an index.)";

constexpr Option kMergeTable[] = {kOutputOption, kMetadataOption, kDurabilityOption,
                                  kForceOption,  kDryRunOption,   kJsonOption};

constexpr Option kSplitTable[] = {
    {"--max-shard-size", "SIZE",
     "maximum size of the tensors in one file (default\n"
     "5GB): 5GB is 5,000,000,000 bytes, 5GiB is\n"
     "5,368,709,120",
     nullptr, Values::any, "--size"},
    kOutputOption,
    {"--name", "STEM", "the beginning of the names of the files (default\nmodel)"},
    kWithFilesOption,
    kMetadataOption,
    kDurabilityOption,
    {"-f,--force", nullptr, "write into OUT if it holds files, and replace a\nmodel"},
    kDryRunOption,
    kJsonOption,
};
constexpr Option kReshardTable[] = {
    {"--max-shard-size", "SIZE",
     "maximum size of the tensors in one file (default\n"
     "5GB): 5GB is 5,000,000,000 bytes, 5GiB is\n"
     "5,368,709,120",
     nullptr, Values::any, "--size"},
    kOutputOption,
    {"--name", "STEM", "the beginning of the names of the files (default:\nthat of IN)"},
    kWithFilesOption,
    kMetadataOption,
    kDurabilityOption,
    {"-f,--force", nullptr, "write into OUT if it holds files, and replace a\nmodel"},
    kDryRunOption,
    kJsonOption,
};

constexpr const char* kMergeExamples[] = {
    "safetensors merge llama-7b/ llama-7b.safetensors",
    "safetensors merge base.safetensors head.safetensors model.safetensors",
};
constexpr const char* kSplitExamples[] = {
    "safetensors split llama-7b.safetensors llama-7b/ --max-shard-size 5GB",
};
constexpr const char* kReshardExamples[] = {
    "safetensors reshard llama-7b/ llama-small/ --max-shard-size 2GB --with-files",
    "safetensors reshard llama-7b/ llama-7b/ --max-shard-size 10GB --force",
};

constexpr const char kMergeExits[] =
    "0 written; 1 a file is invalid, two tensors have one name, or OUT\n"
    "exists; 2 usage; 3 a file cannot be read or written";

Exit run_merge(std::span<const std::string> given, Console& console) {
  RewriteRequest request;
  request.kind = OutputKind::file;
  Arguments arguments(kMerge);
  request.bind(arguments, kMerge);
  auto wrong = arguments.parse(given, console);
  if (!wrong) wrong = request.take(kAnyNumber);
  if (wrong) return console.usage("merge", *wrong);
  return request.run(console);
}

Exit run_shards(const Command& command, bool keeps_stem, std::span<const std::string> given, Console& console) {
  RewriteRequest request;
  request.kind = OutputKind::folder;
  Arguments arguments(command);
  request.bind(arguments, command);
  auto wrong = arguments.parse(given, console);
  if (!wrong) wrong = request.take(1);
  if (wrong) return console.usage(command.name, *wrong);
  if (!request.options.max_shard_size) request.options.max_shard_size = kDefaultShardSize;
  if (!request.options.stem && !keeps_stem) request.options.stem = "model";
  return request.run(console);
}

Exit run_split(std::span<const std::string> given, Console& console) {
  return run_shards(kSplit, false, given, console);
}

Exit run_reshard(std::span<const std::string> given, Console& console) {
  return run_shards(kReshard, true, given, console);
}

}  // namespace

const Command kMerge = {
    .name = "merge",
    .summary = "join files or models in one file",
    .title = "Write the tensors of several files or models to one file.",
    .usage = "safetensors merge IN... OUT [OPTIONS]",
    .description = kMergeDescription,
    .options = kMergeTable,
    .examples = kMergeExamples,
    .exits = kMergeExits,
    .run = run_merge,
};

const Command kSplit = {
    .name = "split",
    .summary = "split a file into files and an index",
    .title = "Split a file into several files and their index.",
    .usage = "safetensors split IN OUT [--max-shard-size SIZE] [OPTIONS]",
    .description = kSplitDescription,
    .options = kSplitTable,
    .examples = kSplitExamples,
    .exits = kMergeExits,
    .run = run_split,
};

const Command kReshard = {
    .name = "reshard",
    .summary = "split a model into files of another size",
    .title = "Split a model of several files into files of another size.",
    .usage = "safetensors reshard IN OUT [--max-shard-size SIZE] [OPTIONS]",
    .description = kSplitDescription,
    .options = kReshardTable,
    .examples = kReshardExamples,
    .exits = kMergeExits,
    .run = run_reshard,
};

}  // namespace safetensors::cli
