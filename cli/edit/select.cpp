// The subcommands select and drop: a new file or model with some of the tensors.
#include "rewrite_request.h"

#include "command.h"
#include "text/formatted.h"

#include <cstddef>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr const char kSelectDescription[] =
    R"(IN is a file, or a folder, an index or a pattern of a model of several files.
OUT is a file if IN is a file or if OUT ends in .safetensors. Otherwise OUT is a
folder, and tensors of one file stay together. Order and metadata stay.)";

constexpr Option kSelectTable[] = {
    kMatchOption,       kExcludeOption,  kDtypeOption,      kLayersOption, kOutputOption, kShardSizeOption, kStemOption,
    kWeightsOnlyOption, kMetadataOption, kDurabilityOption, kForceOption,  kDryRunOption, kJsonOption,
};

constexpr const char* kSelectExamples[] = {
    "safetensors select model.safetensors head.safetensors --match 'lm_head.*'",
    "safetensors select llama-7b/ llama-2-layers/ --layers 0-1 --dry-run",
};
constexpr const char* kDropExamples[] = {
    "safetensors drop checkpoint.safetensors model.safetensors -m 'optimizer.*'",
    "safetensors drop llama-7b/ llama-7b-no-head/ --match lm_head.weight",
};

constexpr const char kSelectExits[] =
    "0 written; 1 a file is invalid, nothing matches, or OUT exists;\n"
    "2 usage; 3 a file cannot be read or written";

// selects: keep the tensors that match. Otherwise keep the others.
Exit run_choice(const Command& command, bool selects, std::span<const std::string> given, Console& console) {
  Selection selection;
  RewriteRequest request;
  Arguments arguments(command);
  request.bind(arguments, command);
  selection.bind(arguments);
  auto wrong = arguments.parse(given);
  if (!wrong) wrong = request.take(1);
  if (!wrong) wrong = selection.take();
  if (!wrong && !selects && !selection.chooses())
    wrong = "which tensors? Give --match GLOB, --dtype LIST or --layers LIST";
  if (!wrong && selection.empty())
    wrong = "which tensors? Give --match GLOB, --exclude GLOB, --dtype LIST or --layers LIST";
  if (wrong) return console.usage(command.name, *wrong);
  request.change = [&](const Input&, std::vector<RewriteTensor>& tensors) -> Status {
    const Result<std::vector<bool>> matches = select_tensors(tensors, selection);
    if (!matches) return matches.error();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if ((*matches)[i] == selects) std::swap(tensors[kept++], tensors[i]);
    }
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(kept), tensors.end());
    if (!tensors.empty()) return {};
    return Error{.code = Errc::not_found, .path = {}, .message = "every tensor matches: none would be left"};
  };
  return request.run(console);
}

Exit run_select(std::span<const std::string> given, Console& console) {
  return run_choice(kSelect, true, given, console);
}

Exit run_drop(std::span<const std::string> given, Console& console) {
  return run_choice(kDrop, false, given, console);
}

}  // namespace

const Command kSelect = {
    .name = "select",
    .summary = "write a new file with some of the tensors",
    .title = "Write a new file or model with the tensors that match.",
    .usage =
        "safetensors select IN OUT [--match GLOB]... [--exclude GLOB]...\n"
        "                   [--dtype LIST] [--layers LIST]\n"
        "                   [OPTIONS]",
    .description = kSelectDescription,
    .options = kSelectTable,
    .examples = kSelectExamples,
    .exits = kSelectExits,
    .run = run_select,
};

const Command kDrop = {
    .name = "drop",
    .summary = "write a new file without some of the tensors",
    .title = "Write a new file or model without the tensors that match.",
    .usage =
        "safetensors drop IN OUT [--match GLOB]... [--exclude GLOB]...\n"
        "                 [--dtype LIST] [--layers LIST]\n"
        "                 [OPTIONS]",
    .description = kSelectDescription,
    .options = kSelectTable,
    .examples = kDropExamples,
    .exits = kSelectExits,
    .run = run_drop,
};

}  // namespace safetensors::cli
