// The subcommand repack: the same tensors in an order in which many of them are aligned.
#include "rewrite_request.h"

#include "command.h"
#include "text/formatted.h"
#include "text/size.h"
#include "text/table.h"

namespace safetensors::cli {
namespace {

constexpr const char kRepackDescription[] =
    R"(IN is a file, or a folder, an index or a pattern of a model of several files.
OUT is a file if IN is a file or if OUT ends in .safetensors. Otherwise OUT is a
folder, and tensors of one file stay together.

A tensor is aligned if its offset in the file is a multiple of N bytes. The data
begins at such an offset. The format allows no gaps between tensors, so a tensor
is aligned only if the sizes of all tensors before it add up to a multiple of N.
This command chooses the order of the tensors for that, and lists the tensors
that are still not aligned.)";

constexpr Option kRepackTable[] = {
    {"--align", "N", "64, 256 or 4096 (default 64)", "64|256|4096"},
    kOutputOption,
    kShardSizeOption,
    kStemOption,
    kWithFilesOption,
    kMetadataOption,
    kDurabilityOption,
    kForceOption,
    kDryRunOption,
    kJsonOption,
};

constexpr const char* kRepackExamples[] = {
    "safetensors repack model.safetensors aligned.safetensors --align 4096",
    "safetensors repack llama-7b/ llama-7b-aligned/ --align 64 --dry-run",
};

// Calls show(index of the file, tensor) for each tensor that is not aligned.
template <class Show>
void each_misaligned(const CheckpointLayout& layout, std::uint64_t align, const Show& show) {
  for (std::size_t file = 0; file < layout.files().size(); ++file) {
    for (const TensorInfo& tensor : layout.files()[file].header.tensors()) {
      if (tensor.nbytes() > 0 && tensor.file_offset % align != 0) show(file, tensor);
    }
  }
}

void print_misaligned(Console& console, const Rewrite& rewrite, const RewriteReport* report, std::uint64_t align) {
  const CheckpointLayout& layout = rewrite.layout();
  std::vector<Table::Column> columns = {
      {"NOT ALIGNED"}, {"SIZE", Table::Align::right}, {"FILE OFFSET", Table::Align::right}};
  if (rewrite.folder()) columns.push_back({"FILE"});
  Table table(std::move(columns));
  table.print_each(console, [&](const Table::Row& row) {
    each_misaligned(layout, align, [&](std::size_t file, const TensorInfo& tensor) {
      std::vector<std::string> cells = {printable(tensor.name), size_text(tensor.nbytes()),
                                        std::to_string(tensor.file_offset)};
      if (rewrite.folder()) cells.push_back(printable(file_name(rewrite, report, file)));
      row(cells);
    });
  });
  std::uint64_t tensors = 0;
  std::uint64_t misaligned = 0;
  for (const CheckpointFile& file : layout.files()) tensors += file.header.size();
  each_misaligned(layout, align, [&](std::size_t, const TensorInfo&) { ++misaligned; });
  console.out(
      formatted("{} of {} aligned to {} bytes\n", grouped(tensors - misaligned), counted(tensors, "tensor"), align));
}

void json_misaligned(Json& json, const Rewrite& rewrite, const RewriteReport* report, std::uint64_t align) {
  json.field("align", align).key("misaligned").open('[');
  each_misaligned(rewrite.layout(), align, [&](std::size_t file, const TensorInfo& tensor) {
    json.line().open('{').field("name", tensor.name).field("file_offset", tensor.file_offset);
    if (rewrite.folder()) json.field("file", file_name(rewrite, report, file));
    json.close('}');
  });
  json.close(']');
}

Exit run_repack(std::span<const std::string> given, Console& console) {
  std::optional<std::string> align;
  RewriteRequest request;
  Arguments arguments(kRepack);
  request.bind(arguments, kRepack);
  arguments.value("align", align);
  auto wrong = arguments.parse(given, console);
  if (!wrong) wrong = request.take(1);
  if (wrong) return console.usage("repack", *wrong);
  const std::uint64_t bytes = parse_number(align.value_or("64")).value_or(64);
  request.options.data_alignment = static_cast<std::uint32_t>(bytes);
  request.options.order = TensorOrder::aligned;
  request.print = [bytes](Console& out, const Rewrite& rewrite, const RewriteReport* report) {
    print_misaligned(out, rewrite, report, bytes);
  };
  request.print_json = [bytes](Json& json, const Rewrite& rewrite, const RewriteReport* report) {
    json_misaligned(json, rewrite, report, bytes);
  };
  return request.run(console);
}

}  // namespace

const Command kRepack = {
    .name = "repack",
    .summary = "write a new file whose tensors are aligned",
    .title = "Write a new file or model in which many tensors are aligned.",
    .usage = "safetensors repack IN OUT [--align N] [OPTIONS]",
    .description = kRepackDescription,
    .options = kRepackTable,
    .examples = kRepackExamples,
    .exits =
        "0 written, even if tensors are not aligned; 1 a file is invalid, or OUT\n"
        "exists; 2 usage; 3 a file cannot be read or written",
    .run = run_repack,
};

}  // namespace safetensors::cli
