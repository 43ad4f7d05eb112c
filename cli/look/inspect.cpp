// The subcommand inspect: writes a page of HTML that shows a file. The page is a constant (look/page), and the data of
// the file is one JSON document in it (page_data.cpp), which the script of the page reads and draws. This file parses
// the command line, collects what the page shows, and replaces the output atomically.
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "page_data.h"
#include "progress.h"
#include "selection.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/lint.h>
#include <safetensors/stats.h>

#include <algorithm>

#include "base/glob.h"

namespace safetensors::cli {
namespace {

constexpr std::size_t kMaxMaps = 16;

constexpr const char kInspectDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Writes one page of HTML, which needs no other
file and no network: a map of the bytes drawn to scale, sizes by dtype, sizes
and parameters by module, a table of all tensors to search and to sort, the
findings of lint, the files, the metadata, and config.json if it lies beside the
model. Names cannot run code in it. OUT#NAME opens the page at a tensor. With
--match and such, it shows only the tensors that they choose.)";

constexpr Option kInspectTable[] = {
    {"-o,--output", "OUT", "write the page to OUT", nullptr, Values::path, nullptr, "--html"},
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kMinSizeOption,
    kLayersOption,
    {"--stats", nullptr, "read the values, and add statistics and histograms"},
    {"--values", "GLOB",
     "add heat maps of the tensors whose names match: of at\n"
     "most 16 tensors, 128 x 128 evenly spaced values each;\n"
     "may be given several times"},
    {"--slice", "SLICE",
     "show this slice of the tensors of --values: '0',\n"
     "':64,:64'"},
    {"-f,--force", nullptr, "replace OUT if it exists"},
    {"-n,--dry-run", nullptr, "write nothing; print the size of the page"},
    kJsonOption,
};

constexpr const char* kInspectExamples[] = {
    "safetensors inspect model.safetensors -o model.html",
    "safetensors inspect llama-7b/ --stats -o llama.html",
    "safetensors inspect llama-7b/ --layers 0-3 --stats -o begin.html",
    "safetensors inspect llama-7b/ --values '*.0.*q_proj.weight' -o llama.html",
};

struct InspectRequest {
  std::vector<std::string> paths;
  Selection selection;
  std::optional<std::string> output;
  bool stats = false;
  std::vector<std::string> values;
  std::optional<std::string> slice;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

Exit inspect_fail(const InspectRequest& request, const Error& error, Console& console) {
  const std::string& path = request.paths[0];
  if (request.json) {
    Json json(console, "inspect");
    json.field("path", path).field("output", *request.output);
    json_input_error(json, path, error);
    json.finish();
  }
  return input_error(path, error, console);
}

// An error of the page that is written.
Exit output_fail(const InspectRequest& request, Error error, Console& console) {
  if (error.path.empty()) error.path = *request.output;
  return inspect_fail(request, error, console);
}

// Reads statistics of the chosen tensors.
Result<std::vector<TensorStats>> page_stats(const Input& input, const Selection& selection, Console& console) {
  StatsOptions options{.histogram = true};
  options.select = [&](const Tensor& tensor) { return selection.selects(tensor.info()); };
  options.progress = shown_progress(console);
  return stats(input.set(), options);
}

Result<std::vector<LintFinding>> page_findings(const Input& input, const Selection& selection, PipeData data) {
  LintOptions options{.peek = input.checkpoint() != nullptr || data == PipeData::keep, .cancelled = Interrupt::caught};
  options.select = [&](const TensorInfo& tensor) { return selection.selects(tensor); };
  return input.checkpoint() != nullptr ? lint(*input.checkpoint(), options) : lint(input.files()[0], options);
}

// Reads the samples of --values into content. Error: not_found if no name matches.
Status add_samples(const InspectRequest& request, const Slice& slice, const Input& input, PageContent& content) {
  const std::vector<Listed>& tensors = content.tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = *tensors[i].info;
    const auto matches = [&](const std::string& glob) { return base::glob_match(glob, tensor.name); };
    if (std::ranges::none_of(request.values, matches)) continue;
    if (content.samples.size() == kMaxMaps) {
      ++content.more_samples;
      continue;
    }
    Result<ValueSample> sample = sample_values(input.files()[tensors[i].file], tensor, slice);
    if (!sample) {
      Error error = sample.error();
      error.message = formatted("tensor `{}`: {}", printable(tensor.name), error.message);
      return error;
    }
    sample->tensor = i;
    content.samples.push_back(*std::move(sample));
  }
  if (!request.values.empty() && content.samples.empty())
    return Error{.code = Errc::not_found,
                 .path = {},
                 .message = "--values: no tensor's name matches" + pattern_hint(request.values[0])};
  return {};
}

// Collects what the page shows.
Result<PageContent> page_content(const InspectRequest& request, const Slice& slice, const Input& input, PipeData data,
                                 Console& console) {
  PageContent content;
  content.path = shown_path(request.paths[0]);
  content.has_stats = request.stats;
  if (const auto nothing = nothing_chosen(request.selection, input)) return *nothing;
  content.tensors = input.tensors();
  std::erase_if(content.tensors, [&](const Listed& one) { return !request.selection.selects(*one.info); });
  Result<std::vector<LintFinding>> findings = page_findings(input, request.selection, data);
  if (!findings) return findings.error();
  content.findings = *std::move(findings);
  content.config = read_shown_config(input.files().empty() ? std::string() : input.files()[0].path());
  if (Status status = add_samples(request, slice, input, content); !status) return status.error();
  if (!request.stats) return content;
  Result<std::vector<TensorStats>> found = page_stats(input, request.selection, console);
  if (!found) return found.error();
  content.stats = *std::move(found);
  return content;
}

void report(const InspectRequest& request, const PageContent& content, std::uint64_t bytes, Console& console) {
  if (request.json) {
    Json json(console, "inspect");
    json.field("path", request.paths[0]).field("output", *request.output).field("dry_run", request.dry_run);
    json.field("output_bytes", bytes).field("stats", request.stats);
    json.field("heat_maps", std::uint64_t{content.samples.size()}).finish();
  } else if (request.dry_run) {
    console.out(formatted("would write a page of {} to {}\n", counted(bytes, "byte"), printable(*request.output)));
  }
  if (content.more_samples > 0)
    console.message(formatted("notice: --values: heat maps of the first {}; {} left out",
                              counted(content.samples.size(), "tensor"), grouped(content.more_samples)));
}

// Writes the page. The caller has an Interrupt.
Exit inspect_input(const InspectRequest& request, const Slice& slice, const Input& input, PipeData data,
                   Console& console) {
  const Result<PageContent> content = page_content(request, slice, input, data, console);
  if (!content && Interrupt::caught()) return Exit::good;
  if (!content) return inspect_fail(request, content.error(), console);
  std::optional<NewFile> file;
  if (!request.dry_run) {
    Result<NewFile> created = NewFile::create(*request.output, request.force);
    if (!created) return output_fail(request, created.error(), console);
    file.emplace(*std::move(created));
  }
  PageWriter page(file ? &*file : nullptr);
  write_page(page, input, *content);
  Status status = page.finish();
  if (status && file) status = file->commit();
  if (!status && Interrupt::caught()) return Exit::good;
  if (!status) return output_fail(request, status.error(), console);
  report(request, *content, page.bytes(), console);
  return Exit::good;
}

Exit run_inspect(std::span<const std::string> given, Console& console) {
  InspectRequest request;
  Arguments arguments(kInspect);
  arguments.positionals(request.paths);
  request.selection.bind(arguments);
  arguments.value("output", request.output);
  arguments.flag("stats", request.stats);
  arguments.values("values", request.values);
  arguments.value("slice", request.slice);
  arguments.flag("force", request.force);
  arguments.flag("dry-run", request.dry_run);
  arguments.flag("json", request.json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("inspect", *wrong);
  if (const auto wrong = request.selection.take()) return console.usage("inspect", *wrong);
  if (request.paths.size() != 1) return console.usage("inspect", "takes one PATH");
  if (!request.output) return console.usage("inspect", "write the page where? Give --output OUT");
  if (request.slice && request.values.empty()) return console.usage("inspect", "--slice goes with --values only");
  const Result<Slice> slice = Slice::parse(request.slice.value_or(""));
  if (!slice) return console.usage("inspect", formatted("--slice: {}", slice.error().message));
  const std::string& path = request.paths[0];
  const PipeData data = request.stats || !request.values.empty() ? PipeData::keep : PipeData::skip;
  const Result<Input> input = Input::open(path, console, {}, data);
  if (!input) return inspect_fail(request, input.error(), console);
  Status status = NewFile::check(*request.output, request.force);
  const std::string first = input->files().empty() ? std::string() : input->files()[0].path();
  if (status) status = check_output_apart(*request.output, path, *input, config_path(first));
  if (!status) {
    if (status.error().code != Errc::invalid_argument) return output_fail(request, status.error(), console);
    return console.usage("inspect", formatted("{} {}", printable(*request.output), status.error().message));
  }
  const Interrupt interrupt;
  return inspect_input(request, *slice, *input, data, console);
}

}  // namespace

const Command kInspect = {
    .name = "inspect",
    .summary = "write a page of HTML: map, sizes, table, histograms",
    .title = "Write a page of HTML that shows a file or a model.",
    .usage =
        "safetensors inspect PATH -o OUT [--match GLOB]... [--exclude GLOB]...\n"
        "                    [--dtype LIST] [--min-size SIZE] [--layers LIST]\n"
        "                    [--stats] [--values GLOB]... [--slice SLICE]\n"
        "                    [--force] [--dry-run] [--json]",
    .description = kInspectDescription,
    .options = kInspectTable,
    .examples = kInspectExamples,
    .exits =
        "0 written; 1 the file is invalid, nothing matches, or the slice is not in\n"
        "the tensor; 2 usage, or OUT exists; 3 cannot read or write",
    .run = run_inspect,
};

}  // namespace safetensors::cli
