// The subcommand inspect: writes a page of HTML that shows a file. The page is a constant (look/page), and the data of
// the file is one JSON document in it, which the script of the page reads and draws.
//
// Names and metadata are hostile. They are only in the JSON document, where each `<` is escaped, so no text can end it.
// The script only puts them into text, and the Content-Security-Policy allows nothing but this script and this style.
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "page.h"
#include "text/escape.h"
#include "text/formatted.h"
#include "text/size.h"

#include <safetensors/stats.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace safetensors::cli {
namespace {

constexpr const char kInspectDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. Writes one page of HTML, which needs no other
file and no network: a map of the bytes drawn to scale, sizes by dtype and by
module, a table of all tensors to search and to sort, and the metadata. Names
cannot run code in it.)";

constexpr Option kInspectTable[] = {
    {"-o,--output", "OUT", "write the page to OUT", nullptr, Values::path, nullptr, "--html"},
    {"--stats", nullptr, "read the values, and add statistics and histograms"},
    {"-f,--force", nullptr, "replace OUT if it exists"},
    {"-n,--dry-run", nullptr, "write nothing; print the size of the page"},
    kJsonOption,
};

constexpr const char* kInspectExamples[] = {
    "safetensors inspect model.safetensors -o model.html",
    "safetensors inspect llama-7b/ --stats -o llama.html",
};

struct InspectRequest {
  std::vector<std::string> paths;
  std::optional<std::string> output;
  bool stats = false;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

// Writes the page in pieces. Without a file it only counts bytes.
class PageWriter {
 public:
  explicit PageWriter(NewFile* file) : file_(file) {}

  void text(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kPiece) flush();
  }
  // A string of the JSON document. `<` is escaped: it could begin `</script>` or `<!--`.
  void string(std::string_view text) {
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
  void number(double value) { text(std::isfinite(value) ? formatted("{}", value) : "\"inf\""); }

  [[nodiscard]] Status finish() {
    flush();
    return status_;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kPiece = 1 << 20;

  void flush() {
    if (file_ != nullptr && status_) status_ = file_->write(buffer_);
    bytes_ += buffer_.size();
    buffer_.clear();
  }

  NewFile* const file_;
  std::string buffer_;
  Status status_;
  std::uint64_t bytes_ = 0;
};

// Writes the files and returns the offset of each file in all bytes.
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

// The metadata of all files, each pair once.
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
  for (const double value : {found.min, found.max, found.mean, found.standard_deviation}) {
    if (found.finite() == 0) {
      page.text("null");
    } else {
      page.number(value);
    }
    page.text(",");
  }
  page.text(formatted("{},{},{},[", found.zeros, found.nan, found.positive_infinity + found.negative_infinity));
  for (const StatsBin& bin : found.histogram) {
    page.text(formatted("{}[{},{},{}]", &bin == &found.histogram.front() ? "" : ",", bin.exponent, bin.negative,
                        bin.positive));
  }
  page.text("]]");
}

// stats: one per tensor, or none.
void write_page_tensors(PageWriter& page, const Input& input, const std::vector<std::uint64_t>& begins,
                        const std::vector<TensorStats>& stats) {
  const std::span<const Dtype> dtypes = all_dtypes();
  page.text("\"dtypes\":[");
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    page.text(i == 0 ? "" : ",");
    page.string(to_string(dtypes[i]));
  }
  page.text("],\n\"tensors\":[");
  std::uint64_t total = 0;
  std::size_t index = 0;
  for (const auto& [info, file] : input.tensors()) {
    page.text(index == 0 ? "\n[" : ",\n[");
    page.string(printable(info->name));
    page.text(formatted(",{},\"{}\",{},{},{},{}", rank(info->dtype), shape_text(info->shape), info->nbytes(), file,
                        info->file_offset, begins[file] + info->file_offset));
    if (!stats.empty()) write_page_stats(page, stats[index]);
    page.text("]");
    total += parameters(*info);
    ++index;
  }
  page.text(formatted("],\n\"parameters\":{}", total));
}

void write_page(PageWriter& page, const std::string& path, const Input& input, const InspectRequest& request,
                const std::vector<TensorStats>& stats) {
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
  page.text("<script id=\"data\" type=\"application/json\">\n{\"schema\":\"safetensors.inspect/1\",\"path\":");
  page.string(printable(shown_path(path)));
  page.text(formatted(",\"stats\":{},\n", request.stats));
  const std::vector<std::uint64_t> begins = write_page_files(page, input);
  write_page_metadata(page, input);
  write_page_tensors(page, input, begins, stats);
  page.text("}\n</script>\n<script>");
  page.text(kPageScript);
  page.text("</script>\n</body>\n</html>\n");
}

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

// Writes the page. The caller has an Interrupt.
Exit inspect_input(const InspectRequest& request, const Input& input, Console& console) {
  std::vector<TensorStats> found;
  if (request.stats) {
    StatsOptions options{.histogram = true};
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      console.progress(done, total);
      return !Interrupt::caught();
    };
    Result<std::vector<TensorStats>> computed = stats(input.set(), options);
    if (!computed && Interrupt::caught()) return Exit::good;
    if (!computed) return inspect_fail(request, computed.error(), console);
    found = *std::move(computed);
  }
  std::optional<NewFile> file;
  if (!request.dry_run) {
    Result<NewFile> created = NewFile::create(*request.output, request.force);
    if (!created) return output_fail(request, created.error(), console);
    file.emplace(*std::move(created));
  }
  PageWriter page(file ? &*file : nullptr);
  write_page(page, request.paths[0], input, request, found);
  Status status = page.finish();
  if (status && file) status = file->commit();
  if (!status && Interrupt::caught()) return Exit::good;
  if (!status) return output_fail(request, status.error(), console);
  if (request.json) {
    Json json(console, "inspect");
    json.field("path", request.paths[0]).field("output", *request.output).field("dry_run", request.dry_run);
    json.field("output_bytes", page.bytes()).field("stats", request.stats).finish();
  } else if (request.dry_run) {
    console.out(
        formatted("would write a page of {} to {}\n", counted(page.bytes(), "byte"), printable(*request.output)));
  }
  return Exit::good;
}

Exit run_inspect(std::span<const std::string> given, Console& console) {
  InspectRequest request;
  Arguments arguments(kInspect);
  arguments.positionals(request.paths);
  arguments.value("output", request.output);
  arguments.flag("stats", request.stats);
  arguments.flag("force", request.force);
  arguments.flag("dry-run", request.dry_run);
  arguments.flag("json", request.json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("inspect", *wrong);
  if (request.paths.size() != 1) return console.usage("inspect", "takes one PATH");
  if (!request.output) return console.usage("inspect", "write the page where? Give --output OUT");
  const std::string& path = request.paths[0];
  const PipeData data = request.stats ? PipeData::keep : PipeData::skip;
  const Result<Input> input = Input::open(path, console, {}, data);
  if (!input) return inspect_fail(request, input.error(), console);
  Status status = NewFile::check(*request.output, request.force);
  if (status) status = check_output_apart(*request.output, path, *input);
  if (!status) {
    if (status.error().code != Errc::invalid_argument) return output_fail(request, status.error(), console);
    return console.usage("inspect", formatted("{} {}", printable(*request.output), status.error().message));
  }
  const Interrupt interrupt;
  return inspect_input(request, *input, console);
}

}  // namespace

const Command kInspect = {
    .name = "inspect",
    .summary = "write a page of HTML: map, sizes, table, histograms",
    .title = "Write a page of HTML that shows a file or a model.",
    .usage =
        "safetensors inspect PATH -o OUT [--stats] [--force] [--dry-run]\n"
        "                    [--json]",
    .description = kInspectDescription,
    .options = kInspectTable,
    .examples = kInspectExamples,
    .exits =
        "0 written; 1 the file is invalid; 2 usage, or OUT exists; 3 cannot read\n"
        "or write",
    .run = run_inspect,
};

}  // namespace safetensors::cli
