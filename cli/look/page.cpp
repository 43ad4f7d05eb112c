// The subcommand page: writes a page of HTML that shows a file. The page is a constant (look/page), and the data of
// the file is one JSON document in it, which the script of the page reads and draws. This file parses
// the command line, collects what the page shows, and replaces the output atomically.
//
// Names and metadata come from strangers. They are only in the JSON document, where each `<` is escaped, so that no
// text can end the document. The script shows them only as text, and the Content-Security-Policy allows only this
// script and this style.
#include "page.h"
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "selection.h"
#include "text/text.h"
#include "values/stats.h"

#include <set>

namespace safetensors::cli {
namespace {

// The metadata of all files, each pair once.
void json_pairs(Json& json, const Input& input) {
  constexpr std::size_t kMaxValue = 16384;  // bytes of a value
  std::set<std::pair<std::string_view, std::string_view>> seen;
  json.line().key("metadata").open('[');
  for (const File& file : input.files()) {
    for (const auto& [key, value] : file.metadata()) {
      if (!seen.emplace(key, value).second) continue;
      json.line().open('[').value(printable(key));
      json.value(value.size() <= kMaxValue ? visible(value) : shortened(value, kMaxValue)).close(']');
    }
  }
  json.close(']');
}

void json_stats(Json& json, const TensorStats& found) {
  json.open('[');
  for (const double value : {found.min, found.max, found.mean(), found.deviation()})
    json.value(found.finite == 0 ? std::nullopt : std::optional(value));
  json.value(found.zeros).value(found.nan).value(found.infinities());
  json.array(found.histogram, [&](const auto& bin) {
    json.open('[').value(bin.first).value(bin.second.negative).value(bin.second.positive).close(']');
  });
  json.close(']');
}

// The whole page. stats: nullptr, or one element per tensor.
std::string page_text(const std::string& path, const Input& input, const std::vector<Listed>& tensors,
                      const std::vector<TensorStats>* stats) {
  std::string page = formatted(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; script-src '{}'; "
      "base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>safetensors</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}<script id=\"data\" type=\"application/json\">\n",
      kPageStyleHash, kPageScriptHash, kPageStyle, kPageHtml);
  // `<` could begin `</script>` or `<!--`.
  const auto append = [&](std::string_view text) {
    for (const char c : text) c == '<' ? page += "\\u003c" : page += c;
  };
  Json json(append, "page");
  json.field("path", printable(shown_path(path))).field("stats", stats != nullptr);
  std::size_t index = 0;
  json.line().objects("files", input.files(), [&](const File& file) {
    json.field("name", printable(input.file_name(index++))).field("bytes", file.header().file_bytes());
    json.field("header", file.header().data_start());
  });
  json_pairs(json, input);
  index = 0;
  json.line().key("tensors").array(tensors, [&](const Listed& listed) {
    const TensorInfo& info = *listed.info;
    json.line().open('[').value(printable(info.name)).value(to_string(info.dtype)).value(shape_text(info.shape));
    json.value(info.nbytes()).value(parameters(info)).value(listed.file).value(info.file_offset);
    if (stats != nullptr) json_stats(json, (*stats)[index++]);
    json.close(']');
  });
  json.finish();
  return page + formatted("</script>\n<script>{}</script>\n</body>\n</html>\n", kPageScript);
}

constexpr auto kPageTable =
    joined(kChoiceOptions, {
                               {"-o,--output", "OUT", "write the page to OUT", nullptr, Values::path},
                               {"--stats", nullptr, "read the values, and add statistics and histograms"},
                               {"-f,--force", nullptr, "replace OUT if it exists"},
                               {"-n,--dry-run", nullptr, "write nothing; print the size of the page"},
                               kJsonOption,
                           });

// Collects the data of the page.
Result<std::string> make_page(const Arguments& given, const Input& input, Console& console) {
  const Selection selection(given);
  const Result<std::vector<Listed>> tensors = chosen_tensors(selection, input);
  if (!tensors) return tensors.error();
  if (!given.has("stats")) return page_text(given.positionals[0], input, *tensors, nullptr);
  const auto select = [&](const TensorInfo& tensor) { return selection.selects(tensor); };
  const Result<std::vector<TensorStats>> found = stats(input.set(), true, console, select);
  if (!found) return found.error();
  return page_text(given.positionals[0], input, *tensors, &*found);
}

Status write_page(const std::string& output, bool force, std::string_view page) {
  const Interrupt interrupt;
  Result<NewFile> file = NewFile::create(output, force);
  Status status = file ? file->write(page) : Status(file.error());
  return status ? file->commit() : status;
}

Exit run_page(const Arguments& given, Console& console) {
  if (given.positionals.size() != 1) throw UsageError("takes one PATH");
  const std::string& path = given.positionals[0];
  const auto output = given.value("output");
  const bool dry_run = given.has("dry-run");
  (void)Selection(given);  // errors of usage come first
  if (!output) throw UsageError("write the page where? Give --output OUT");
  const auto fail = [&](Error error, const std::string& at_fault) {
    if (error.path.empty() && at_fault != path) error.path = at_fault;
    if (given.json()) {
      Json json(console, "page");
      json.field("path", path).field("output", *output);
      json_input_error(json, path, error);
      json.finish();
    }
    return input_error(path, error, console);
  };
  const Result<Input> input = Input::open(path, console, {}, given.has("stats") ? PipeData::keep : PipeData::skip);
  if (!input) return fail(input.error(), path);
  if (Status status = check_output(*output, given.has("force"), path, *input); !status)
    return fail(status.error(), *output);
  const Result<std::string> page = make_page(given, *input, console);
  if (!page) return fail(page.error(), path);
  Status status = dry_run ? Status() : write_page(*output, given.has("force"), *page);
  if (!status) return fail(status.error(), *output);
  if (given.json()) {
    Json json(console, "page");
    json.field("path", path).field("output", *output).field("dry_run", dry_run);
    json.field("output_bytes", page->size()).field("stats", given.has("stats")).finish();
  } else if (dry_run) {
    console.out(formatted("would write a page of {} to {}\n", counted(page->size(), "byte"), printable(*output)));
  }
  return Exit::good;
}

}  // namespace

const Command kPage = {
    .name = "page",
    .summary = "write a page of HTML: sizes, modules, table, histograms",
    .title = "Write a page of HTML that shows a file or a model.",
    .usage = "PATH -o OUT",
    .description = R"(PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or - for
standard input. Writes one page of HTML, which needs no other file and no network: sizes by dtype, sizes and
parameters by module, a table of all tensors to search and to sort, the files and the metadata. Names cannot run code
in it. OUT#NAME opens the page at a tensor. With --match and such, it shows only the tensors that they choose.)",
    .options = kPageTable,
    .examples = R"(safetensors page model.safetensors -o model.html
safetensors page llama-7b/ --stats -o llama.html
safetensors page llama-7b/ --layers 0-3 --stats -o begin.html)",
    .exits = "0 written; 1 the file is invalid, or nothing matches; 2 usage, or OUT exists; 3 cannot read or write",
    .run = run_page,
};

}  // namespace safetensors::cli
