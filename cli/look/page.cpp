// The subcommand page: writes a page of HTML that shows a file. The page is a constant (look/page), and the data of
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

#include <safetensors/stats.h>

#include <algorithm>

namespace safetensors::cli {
namespace {

constexpr const char kPageDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Writes one page of HTML, which needs no other
file and no network: sizes by dtype, sizes and parameters by module, a table of
all tensors to search and to sort, the files and the metadata. Names cannot run
code in it. OUT#NAME opens the page at a tensor. With --match and such, it shows
only the tensors that they choose.)";

constexpr Option kPageTable[] = {
    {"-o,--output", "OUT", "write the page to OUT", nullptr, Values::path},
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kLayersOption,
    {"--stats", nullptr, "read the values, and add statistics and histograms"},
    {"-f,--force", nullptr, "replace OUT if it exists"},
    {"-n,--dry-run", nullptr, "write nothing; print the size of the page"},
    kJsonOption,
};

constexpr const char* kPageExamples[] = {
    "safetensors page model.safetensors -o model.html",
    "safetensors page llama-7b/ --stats -o llama.html",
    "safetensors page llama-7b/ --layers 0-3 --stats -o begin.html",
};

struct PageRequest {
  std::vector<std::string> paths;
  Selection selection;
  std::optional<std::string> output;
  bool stats = false;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

Exit page_fail(const PageRequest& request, const Error& error, Console& console) {
  const std::string& path = request.paths[0];
  if (request.json) {
    Json json(console, "page");
    json.field("path", path).field("output", *request.output);
    json_input_error(json, path, error);
    json.finish();
  }
  return input_error(path, error, console);
}

// An error of the page that is written.
Exit output_fail(const PageRequest& request, Error error, Console& console) {
  if (error.path.empty()) error.path = *request.output;
  return page_fail(request, error, console);
}

// Reads statistics of the chosen tensors.
Result<std::vector<TensorStats>> page_stats(const Input& input, const Selection& selection, Console& console) {
  StatsOptions options{.histogram = true};
  options.select = [&](const Tensor& tensor) { return selection.selects(tensor.info()); };
  options.progress = shown_progress(console);
  return stats(input.set(), options);
}

// Collects what the page shows.
Result<PageContent> page_content(const PageRequest& request, const Input& input, Console& console) {
  PageContent content;
  content.path = shown_path(request.paths[0]);
  content.has_stats = request.stats;
  if (const auto nothing = nothing_chosen(request.selection, input)) return *nothing;
  content.tensors = input.tensors();
  std::erase_if(content.tensors, [&](const Listed& one) { return !request.selection.selects(*one.info); });
  if (!request.stats) return content;
  Result<std::vector<TensorStats>> found = page_stats(input, request.selection, console);
  if (!found) return found.error();
  content.stats = *std::move(found);
  return content;
}

void report(const PageRequest& request, std::uint64_t bytes, Console& console) {
  if (request.json) {
    Json json(console, "page");
    json.field("path", request.paths[0]).field("output", *request.output).field("dry_run", request.dry_run);
    json.field("output_bytes", bytes).field("stats", request.stats).finish();
  } else if (request.dry_run) {
    console.out(formatted("would write a page of {} to {}\n", counted(bytes, "byte"), printable(*request.output)));
  }
}

// Writes the page. The caller has an Interrupt.
Exit write_model(const PageRequest& request, const Input& input, Console& console) {
  const Result<PageContent> content = page_content(request, input, console);
  if (!content && Interrupt::caught()) return Exit::good;
  if (!content) return page_fail(request, content.error(), console);
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
  report(request, page.bytes(), console);
  return Exit::good;
}

Exit run_page(std::span<const std::string> given, Console& console) {
  PageRequest request;
  Arguments arguments(kPage);
  arguments.positionals(request.paths);
  request.selection.bind(arguments);
  arguments.value("output", request.output);
  arguments.flag("stats", request.stats);
  arguments.flag("force", request.force);
  arguments.flag("dry-run", request.dry_run);
  arguments.flag("json", request.json);
  if (const auto wrong = arguments.parse(given)) return console.usage("page", *wrong);
  if (const auto wrong = request.selection.take()) return console.usage("page", *wrong);
  if (request.paths.size() != 1) return console.usage("page", "takes one PATH");
  if (!request.output) return console.usage("page", "write the page where? Give --output OUT");
  const std::string& path = request.paths[0];
  const PipeData data = request.stats ? PipeData::keep : PipeData::skip;
  const Result<Input> input = Input::open(path, console, {}, data);
  if (!input) return page_fail(request, input.error(), console);
  Status status = NewFile::check(*request.output, request.force);
  if (status) status = check_output_apart(*request.output, path, *input);
  if (!status) {
    if (status.error().code != Errc::invalid_argument) return output_fail(request, status.error(), console);
    return console.usage("page", formatted("{} {}", printable(*request.output), status.error().message));
  }
  const Interrupt interrupt;
  return write_model(request, *input, console);
}

}  // namespace

const Command kPage = {
    .name = "page",
    .summary = "write a page of HTML: sizes, modules, table, histograms",
    .title = "Write a page of HTML that shows a file or a model.",
    .usage =
        "safetensors page PATH -o OUT [--match GLOB]... [--exclude GLOB]...\n"
        "                 [--dtype LIST] [--layers LIST]\n"
        "                 [--stats] [--force] [--dry-run] [--json]",
    .description = kPageDescription,
    .options = kPageTable,
    .examples = kPageExamples,
    .exits =
        "0 written; 1 the file is invalid, or nothing matches; 2 usage, or OUT\n"
        "exists; 3 cannot read or write",
    .run = run_page,
};

}  // namespace safetensors::cli
