// The subcommand info: sums up the headers of files by dtype, and finds the largest tensors. Reads no tensor data.
#include "arguments.h"
#include "command.h"
#include "console.h"
#include "folders.h"
#include "input.h"
#include "json_output.h"
#include "rows.h"
#include "text/text.h"

#include "format/header/header_writer.h"
#include "os/regular_file.h"

#include <algorithm>
#include <functional>
#include <map>

namespace safetensors::cli {
namespace {

// Returns the text of the header of one file. If the library refuses the header because of its content, reads the text
// here, so that it can be looked at. A pipe is read already then.
Result<std::string> header_text(const std::string& argument, const Result<Input>& input) {
  if (!input) {
    if (format_rule(input.error().code) < 4 || is_pipe(argument)) return input.error();
    const Result<FirstBytes> first = FirstBytes::of(input.error().path, {.allow_leading_whitespace = true});
    return first ? Result<std::string>(first->text()) : first.error();
  }
  const std::span<const File> files = input->files();
  if (files.size() != 1) {
    const std::string such_as = files.empty() ? "" : formatted(": name one, such as `{}`", printable(files[0].path()));
    return fault(Errc::invalid_argument, formatted("{} files, expected one file{}", files.size(), such_as), argument);
  }
  std::string text(static_cast<std::size_t>(files[0].header().header_bytes()), '\0');
  const Status status = os::read_exactly(files[0].source(), 8, std::as_writable_bytes(std::span(text)));
  return status ? Result<std::string>(std::move(text)) : status.error();
}

// Prints the JSON of the header of one file: unchanged to a pipe, and without characters that a terminal obeys. A
// header of a file that breaks rules 4 to 10 is printed, too, with the error. as_json: in a document of schema
// safetensors.header/1.
Exit show_header(const std::string& path, bool as_json, Console& console) {
  const Result<Input> input = Input::open(path, console, {}, PipeData::part);
  const Result<std::string> text = header_text(path, input);
  const Error* error = !input ? &input.error() : !text ? &text.error() : nullptr;
  std::string plain = text ? *text : "";
  std::ranges::replace(plain, '\r', ' ');  // white space of JSON, which visible() would escape
  if (as_json) {
    Json json(console, "header");
    json.field("path", path).field("valid", error == nullptr);
    if (text) json.field("header_bytes", std::uint64_t{text->size()});
    if (error != nullptr) json.error(*error);
    if (text) error == nullptr ? json.line().key("header").raw(visible(plain)) : json.line().field("text", *text);
    json.finish();
  } else if (text) {
    plain.resize(plain.find_last_not_of(" \t\n") + 1);
    console.out(console.out_is_terminal() ? visible(plain) + "\n" : *text);
  }
  return error == nullptr ? Exit::good : input_error(path, *error, console);
}

constexpr Option kInfoTable[] = {
    {"--largest", "N", "show the N largest tensors (default 5)"},
    kAcceptOption,
    {"--header", nullptr,
     "print the JSON of the header of one file, as it is, also of one that breaks the rules (but not of -)"},
    kRecursiveOption,
    kJsonOption,
};

struct FileSummary {
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;
  Totals all;
  std::map<std::pair<unsigned, Dtype>, Totals, std::greater<>> by_dtype;  // by rank, highest first
  std::uint64_t tensor_alignment = 65536;                                 // of every tensor that has bytes
  std::uint64_t misaligned = 0;
  std::vector<const TensorInfo*> largest;
};

FileSummary summarize(const Input& input, std::uint64_t largest) {
  FileSummary summary;
  for (const File& file : input.files()) {
    summary.file_bytes += file.header().file_bytes();
    summary.header_bytes += file.header().header_bytes();
  }
  for (const Listed& listed : input.tensors()) {
    const TensorInfo& tensor = *listed.info;
    summary.all.add(tensor);
    summary.by_dtype[{format::rank(tensor.dtype), tensor.dtype}].add(tensor);
    if (tensor.nbytes() == 0) continue;
    summary.tensor_alignment = std::min(summary.tensor_alignment, alignment_of(tensor.file_offset));
    if (is_misaligned(tensor)) ++summary.misaligned;
    summary.largest.push_back(&tensor);
  }
  std::ranges::sort(summary.largest, [](const TensorInfo* a, const TensorInfo* b) {
    return a->nbytes() != b->nbytes() ? a->nbytes() > b->nbytes() : natural_less(a->name, b->name);
  });
  summary.largest.resize(static_cast<std::size_t>(std::min<std::uint64_t>(largest, summary.largest.size())));
  return summary;
}

constexpr std::size_t kIndent = 14;  // of the values

// The metadata of the first file, and the number of files that have another one.
void print_metadata(Console& console, const Input& input, Metadata metadata) {
  constexpr std::size_t kShown = 100;
  std::size_t shown = 0;
  for (const auto& [key, value] : metadata) {
    if (shown++ == kShown) break;
    console.line(formatted("    {} = {}", shortened(key, 40), shortened(value, 60)), 6);
  }
  if (metadata.size() > kShown) console.out(formatted("    ... {} more\n", grouped(metadata.size() - kShown)));
  const auto differ = std::ranges::count_if(
      input.files(), [&](const File& file) { return !std::ranges::equal(file.metadata(), metadata); });
  if (differ != 0)
    console.out(formatted("    (of {}; {} with other metadata: see meta ls)\n", printable(input.file_name(0)),
                          counted(static_cast<std::uint64_t>(differ), "file")));
}

void print_facts(Console& console, const Input& input, const FileSummary& summary) {
  const auto fact = [&](std::string_view name, std::string_view text) {
    console.line(formatted("  {:<12}{}", name, text), kIndent);
  };
  std::string size = counted(summary.file_bytes, "byte");
  if (summary.file_bytes >= 1024) size += formatted(" ({})", size_text(summary.file_bytes));
  std::string header = counted(summary.header_bytes, "byte");
  if (input.is_file()) {
    const std::uint64_t start = input.files()[0].header().data_start();
    header += formatted("; data starts at byte {}, a multiple of {}", grouped(start), alignment_of(start));
  } else {
    size = formatted("{}, {}", grouped(input.files().size()), size);
  }
  fact(input.is_file() ? "file" : "files", size);
  fact(input.is_file() ? "header" : "headers", header);
  fact("tensors", grouped(summary.all.tensors));
  fact("parameters", grouped(summary.all.parameters));
  fact("alignment",
       summary.all.bytes == 0 ? "no tensor has bytes"
       : summary.misaligned == 0
           ? formatted("all tensors can be used in place; they start at multiples of {}", summary.tensor_alignment)
           : formatted("{} of {} must be copied to be used: not at a multiple of the element's size",
                       grouped(summary.misaligned), counted(summary.all.tensors, "tensor")));
  const Metadata metadata = input.files().empty() ? Metadata() : input.files()[0].metadata();
  const auto format = metadata.find("format");
  fact("metadata", !metadata.present() ? "none"
                                       : formatted("{}, format {}", counted(metadata.size(), "key"),
                                                   format ? shortened(*format, 40) : "not given"));
  print_metadata(console, input, metadata);
}

// The totals per dtype.
void show_dtypes(Console& console, Json* json, const FileSummary& summary) {
  Rows rows(console, json, "dtypes",
            {{"dtype", "DTYPE"},
             {"tensor_count", "TENSORS", kRight, kHide},
             {"parameters", "PARAMETERS", kRight, kHide},
             {"nbytes", "BYTES", kRight, kHide},
             {nullptr, "SIZE", kRight},
             {nullptr, "SHARE", kRight}},
            "  ");
  for (const auto& [dtype, totals] : summary.by_dtype) {
    rows.row({to_string(dtype.second), totals.tensors, totals.parameters, totals.bytes, Cell::bytes(totals.bytes),
              share_text(totals.bytes, summary.all.bytes)});
  }
  rows.finish();
}

void show_largest(Console& console, Json* json, const FileSummary& summary) {
  Rows rows(console, json, "largest",
            {{"name", "LARGEST", kLeft, Narrow::name},
             {"dtype", "DTYPE"},
             {"shape", "SHAPE"},
             {"nbytes", "SIZE", kRight},
             {nullptr, "SHARE", kRight, kHide}},
            "  ");
  for (const TensorInfo* tensor : summary.largest) {
    rows.row({tensor->name, to_string(tensor->dtype), tensor->shape, Cell::bytes(tensor->nbytes()),
              share_text(tensor->nbytes(), summary.all.bytes)});
  }
  rows.finish();
}

void print_json(Console& console, Json& json, const Input& input, const FileSummary& summary) {
  json.line();
  if (!input.is_file()) json.field("file_bytes", summary.file_bytes).field("header_bytes", summary.header_bytes).line();
  json_files(json, input);
  if (input.is_file()) {
    const std::uint64_t start = input.files()[0].header().data_start();
    json.field("data_start", start).field("data_start_alignment", alignment_of(start));
  }
  json.line().field("tensor_count", summary.all.tensors).field("parameters", summary.all.parameters);
  json.field("nbytes", summary.all.bytes).line();
  json.field("tensor_alignment", summary.all.bytes == 0 ? std::nullopt : std::optional(summary.tensor_alignment));
  json.field("misaligned_tensors", summary.misaligned);
  show_dtypes(console, &json.line(), summary);
  json_metadata(json.line(), input.files().empty() ? Metadata() : input.files()[0].metadata());
  show_largest(console, &json.line(), summary);
}

Result<Exit> show_path(const std::string& path, const Arguments& given, Console& console, Json* json) {
  const Result<Input> input = Input::open(path, console, {.accept = accept_of(given)}, PipeData::part);
  if (!input) return input.error();
  const FileSummary summary = summarize(*input, given.number("largest").value_or(5));
  if (json != nullptr) {
    print_json(console, *json, *input, summary);
  } else {
    console.heading(printable(shown_path(path)));
    print_facts(console, *input, summary);
    if (!summary.by_dtype.empty()) console.out("\n");
    show_dtypes(console, nullptr, summary);
    if (!summary.largest.empty()) console.out("\n");
    show_largest(console, nullptr, summary);
  }
  return Exit::good;
}

Exit run_info(const Arguments& given, Console& console) {
  given.need_path();
  const bool header = given.has("header");
  if (header && (given.has("largest") || given.has("accept") || given.has("recursive")))
    throw UsageError("--header goes with --json only");
  if (header && given.positionals.size() != 1) throw UsageError("--header takes one PATH at a time");
  if (header) return show_header(given.positionals[0], given.json(), console);
  (void)given.number("largest");  // errors of usage come first
  (void)accept_of(given);
  const auto files = expand_folders(given.positionals, given.has("recursive"));
  return for_each_file("info", files, given.json(), console,
                       [&](const std::string& path, Json* json) { return show_path(path, given, console, json); });
}

}  // namespace

const Command kInfo = {
    .name = "info",
    .summary = "summarize: sizes, dtypes, parameters, largest tensors",
    .title = "Summarize files.",
    .usage = "PATH...",
    .description = R"(A PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or -
for standard input. Shows the size, the header, the number of tensors and parameters, totals per dtype, the alignment
of the tensors, the metadata and the largest tensors. A misaligned tensor must be copied before its elements can be
used. Long metadata values are cut: see meta ls. Reads headers only. If the data of a file is incomplete, a notice
says how much is missing.)",
    .options = kInfoTable,
    .examples = R"(safetensors info model.safetensors
safetensors info llama-7b/
safetensors info --header model.safetensors | jq keys
safetensors info --json model.safetensors | jq .files[0].parameters)",
    .exits = "0 shown; 1 a file is invalid; 2 usage; 3 a file cannot be read",
    .run = run_info,
};

}  // namespace safetensors::cli
