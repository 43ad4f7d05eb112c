// The subcommand page: writes a page of HTML that shows a file. The page is a constant (look/page), and the data of
// the file is one JSON document in it, which the script of the page reads and draws. This file parses
// the command line, collects what the page shows, and replaces the output atomically.
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

#include <algorithm>
#include <cmath>
#include <set>

namespace safetensors::cli {
namespace {

// Collects about 1 MiB of text before each write. Keeps the first error for finish(), so that callers need not check
// each call.

// Without a file, only counts the bytes. After an error, writes nothing more.
class PageWriter {
 public:
  explicit PageWriter(NewFile* file) : file_(file) {}

  void text(std::string_view text);
  // A string of the JSON document. `<` is escaped: it could begin `</script>` or `<!--`.
  void string(std::string_view text);
  // A number, or the string "inf" for a number that is not finite.
  void number(double value);

  // Writes the rest. Returns the first error.
  [[nodiscard]] Status finish();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kPiece = 1 << 20;

  void flush();

  NewFile* const file_;
  std::string buffer_;
  Status status_;
  std::uint64_t bytes_ = 0;
};

void PageWriter::text(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kPiece) flush();
}

void PageWriter::string(std::string_view text) {
  buffer_ += '"';
  for (const char c : json_escaped(text)) {
    if (c == '<') {
      buffer_ += "\\u003c";
    } else {
      buffer_ += c;
    }
  }
  buffer_ += '"';
}

void PageWriter::number(double value) {
  text(std::isfinite(value) ? formatted("{}", value) : "\"inf\"");
}

Status PageWriter::finish() {
  flush();
  return status_;
}

void PageWriter::flush() {
  if (file_ != nullptr && status_) status_ = file_->write(buffer_);
  bytes_ += buffer_.size();
  buffer_.clear();
}

// Writes the page. Names and metadata come from strangers. They are only in the JSON
// document, where PageWriter::string() escapes each `<`, so that no text can end the document. The script
// shows them only as text, and the Content-Security-Policy allows only this script and this style.

struct PageContent {
  std::string path;             // for display, not escaped
  std::vector<Listed> tensors;  // the tensors that the page shows
  std::vector<TensorStats> stats;
  bool has_stats = false;  // true: `stats` has one element per element of `tensors`
};

// Writes the files. Returns the offset of each file in the bytes of all files.
std::vector<std::uint64_t> write_page_files(PageWriter& page, const Input& input) {
  std::vector<std::uint64_t> begins;
  std::uint64_t begin = 0;
  page.text("\"files\":[");
  for (std::size_t i = 0; i < input.files().size(); ++i) {
    const Header& header = input.files()[i].header();
    page.text(i == 0 ? "\n{\"name\":" : ",\n{\"name\":");
    page.string(printable(input.file_name(i)));
    page.text(formatted(",\"begin\":{},\"bytes\":{},\"header\":{}}}", begin, header.file_bytes(), header.data_start()));
    begins.push_back(begin);
    begin += header.file_bytes();
  }
  page.text("],\n");
  return begins;
}

// Writes the metadata of all files, each pair once.
void write_page_metadata(PageWriter& page, const Input& input) {
  constexpr std::size_t kMaxValue = 16384;  // bytes of a value
  std::set<std::pair<std::string_view, std::string_view>> seen;
  page.text("\"metadata\":[");
  for (const File& file : input.files()) {
    for (const auto& [key, value] : file.metadata()) {
      if (!seen.emplace(key, value).second) continue;
      page.text(seen.size() == 1 ? "\n[" : ",\n[");
      page.string(printable(key));
      page.text(",");
      page.string(value.size() <= kMaxValue ? visible(value) : shortened(value, kMaxValue));
      page.text("]");
    }
  }
  page.text("],\n");
}

void write_page_stats(PageWriter& page, const TensorStats& found) {
  page.text(",[");
  for (const double value : {found.min, found.max, found.mean(), found.deviation()}) {
    if (found.finite == 0) {
      page.text("null");
    } else {
      page.number(value);
    }
    page.text(",");
  }
  page.text(formatted("{},{},{},[", found.zeros, found.nan, found.infinities()));
  const char* comma = "";
  for (const auto& [exponent, bin] : found.histogram) {
    page.text(formatted("{}[{},{},{}]", std::exchange(comma, ","), exponent, bin.negative, bin.positive));
  }
  page.text("]]");
}

void write_page_dtypes(PageWriter& page) {
  std::string names;
  std::string sizes;
  for (const Dtype dtype : all_dtypes()) {
    names += formatted("{}\"{}\"", names.empty() ? "" : ",", to_string(dtype));
    sizes += formatted("{}{}", sizes.empty() ? "" : ",", bits(dtype));
  }
  page.text(formatted("\"dtypes\":[{}],\n\"bits\":[{}],\n", names, sizes));
}

void write_page_tensors(PageWriter& page, const std::vector<std::uint64_t>& begins, const PageContent& content) {
  page.text("\"tensors\":[");
  std::uint64_t total = 0;
  std::size_t index = 0;
  for (const auto& [info, file] : content.tensors) {
    page.text(index == 0 ? "\n[" : ",\n[");
    page.string(printable(info->name));
    page.text(formatted(",{},\"{}\",{},{},{},{}", rank(info->dtype), shape_text(info->shape), info->nbytes(), file,
                        info->file_offset, begins[file] + info->file_offset));
    if (content.has_stats) write_page_stats(page, content.stats[index]);
    page.text("]");
    total += parameters(*info);
    ++index;
  }
  page.text(formatted("],\n\"parameters\":{}", total));
}

// Writes the whole page. Ask PageWriter::finish() for errors.
void write_page(PageWriter& page, const Input& input, const PageContent& content) {
  page.text("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
  page.text(
      formatted("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; "
                "script-src '{}'; base-uri 'none'; form-action 'none'\">\n",
                kPageStyleHash, kPageScriptHash));
  page.text("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
  page.text("<meta name=\"referrer\" content=\"no-referrer\">\n<title>safetensors</title>\n<style>");
  page.text(kPageStyle);
  page.text("</style>\n</head>\n<body>\n");
  page.text(kPageHtml);
  page.text("<script id=\"data\" type=\"application/json\">\n{\"schema\":\"safetensors.page/1\",\"path\":");
  page.string(printable(content.path));
  page.text(formatted(",\"stats\":{},\n", content.has_stats));
  const std::vector<std::uint64_t> begins = write_page_files(page, input);
  write_page_metadata(page, input);
  write_page_dtypes(page);
  write_page_tensors(page, begins, content);
  page.text("}\n</script>\n<script>");
  page.text(kPageScript);
  page.text("</script>\n</body>\n</html>\n");
}

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

// Collects what the page shows.
Result<PageContent> page_content(const PageRequest& request, const Input& input, Console& console) {
  PageContent content;
  content.path = shown_path(request.paths[0]);
  content.has_stats = request.stats;
  if (const auto nothing = nothing_chosen(request.selection, input)) return *nothing;
  content.tensors = input.tensors();
  std::erase_if(content.tensors, [&](const Listed& one) { return !request.selection.selects(*one.info); });
  if (!request.stats) return content;
  const auto select = [&](const TensorInfo& tensor) { return request.selection.selects(tensor); };
  Result<std::vector<TensorStats>> found = stats(input.set(), true, console, select);
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

Exit run_page(const Arguments& given, Console& console) {
  given.need_path(false);
  PageRequest request;
  request.paths = given.positionals;
  request.selection = Selection(given);
  request.output = given.value("output");
  request.stats = given.has("stats");
  request.force = given.has("force");
  request.dry_run = given.has("dry-run");
  request.json = given.json();
  if (!request.output) throw UsageError("write the page where? Give --output OUT");
  const std::string& path = request.paths[0];
  const PipeData data = request.stats ? PipeData::keep : PipeData::skip;
  const Result<Input> input = Input::open(path, console, {}, data);
  if (!input) return page_fail(request, input.error(), console);
  Status status = NewFile::check(*request.output, request.force);
  if (status) status = check_output_apart(*request.output, path, *input);
  if (!status) {
    if (status.error().code != Errc::invalid_argument) return output_fail(request, status.error(), console);
    throw UsageError(formatted("{} {}", printable(*request.output), status.error().message));
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
