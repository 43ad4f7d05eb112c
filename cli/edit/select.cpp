// The subcommands select and drop: a new file or model with some of the tensors.
#include "rewrite_request.h"

#include "command.h"
#include "input.h"
#include "text/text.h"

#include <cstddef>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr const char kSelectDescription[] =
    R"(IN is a file, or a folder, an index or a pattern of a model of several files. OUT is a file if
IN is a file or if OUT ends in .safetensors. Otherwise OUT is a folder, and tensors of one file stay together. Order
and metadata stay. NAME is a name or a pattern, as of --match. OUT may be IN with --force.)";

constexpr auto kSelectTable = joined(kChoiceOptions, {kAcceptOption}, kModelOptions, kWriteOptions);

constexpr const char kSelectExits[] =
    "0 written; 1 a file is invalid, nothing matches, or OUT exists; 2 usage; 3 a file cannot be read or written";

// selects: keep the tensors that match. Otherwise keep the others.
Exit run_choice(const Command& command, bool selects, const Arguments& given, Console& console) {
  RewriteRequest request(command, given, 1, true);
  request.parse.accept = accept_of(given);
  const Selection selection(given, request.rest);
  if (!selection.chooses() && !(selects && (given.has("accept") || !selection.empty())))
    throw UsageError(formatted("which tensors? Give NAME or --match GLOB,{} --dtype LIST or --layers LIST, and OUT",
                               selects ? " --exclude GLOB," : ""));
  request.change = [&](const Input&, std::vector<RewriteTensor>& tensors) -> Status {
    const Result<std::vector<bool>> matches = select_tensors(tensors, selection);
    if (!matches) return matches.error();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if ((*matches)[i] == selects) std::swap(tensors[kept++], tensors[i]);
    }
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(kept), tensors.end());
    if (!tensors.empty()) return {};
    return fault(Errc::not_found, "every tensor matches: none would be left");
  };
  return request.run(console);
}

}  // namespace

const Command kSelect = {
    .name = "select",
    .summary = "write a new file with some of the tensors",
    .title = "Write a new file or model with the tensors that match.",
    .usage = "IN (OUT | -o OUT) [NAME]...",
    .description = kSelectDescription,
    .options = kSelectTable,
    .examples = R"(safetensors select model.safetensors head.safetensors --match 'lm_head.*'
safetensors select llama-7b/ llama-2-layers/ --layers 0-1 --dry-run)",
    .exits = kSelectExits,
    .run = [](const Arguments& given, Console& console) { return run_choice(kSelect, true, given, console); },
};

const Command kDrop = {
    .name = "drop",
    .summary = "write a new file without some of the tensors",
    .title = "Write a new file or model without the tensors that match.",
    .usage = "IN (OUT | -o OUT) [NAME]...",
    .description = kSelectDescription,
    .options = kSelectTable,
    .examples = R"(safetensors drop checkpoint.safetensors model.safetensors -m 'optimizer.*'
safetensors drop llama-7b/ llama-7b-no-head/ lm_head.weight
safetensors drop model.safetensors model.safetensors lm_head.weight --force)",
    .exits = kSelectExits,
    .run = [](const Arguments& given, Console& console) { return run_choice(kDrop, false, given, console); },
};

}  // namespace safetensors::cli
