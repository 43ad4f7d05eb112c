// The subcommand cat: checks the command line, the tensor and the output path. cat_output.cpp writes the bytes. Output
// into a file goes through NewFile, so that the file appears only when it is complete.
#include "arguments.h"
#include "cat_output.h"
#include "command.h"
#include "format/dtype/cast.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "selection.h"
#include "text/text.h"

namespace safetensors::cli {
namespace {

constexpr auto kCatTable = joined(
    kChoiceOptions,
    {
        {"--slice", "SLICE",
         "an index as between NumPy's brackets: '1:3,:', '-1', '::2,...'; F4 and F6 only on whole bytes", nullptr,
         Values::any},
        {"--format", "FORMAT",
         "raw   the bytes, little-endian, C order (default, but\n"
         "      not on a terminal)\n"
         "npy   NumPy's file format, for dtypes NumPy has\n"
         "text  decimal numbers in nested brackets (default on a\n"
         "      terminal)\n"
         "json  the same as --json",
         "raw|npy|text|json"},
        {"--cast", "DTYPE",
         "convert floats to F32, F64, F16, BF16 or an F8 dtype, to nearest even, or integers to another integer dtype; "
         "also for npy, which has no BF16",
         nullptr, Values::cast},
        {"--limit", "N",
         "in text, show at most N elements (2 or more) per dimension, the first and the last; 0 shows all (default: "
         "all, but 6 on a terminal if the tensor has over 100 elements)"},
        {"-o,--output", "OUT", "write into a file, which appears when it is complete", nullptr, Values::path},
        {"--force", nullptr, "replace OUT; write raw bytes to a terminal"},
        {"-n,--dry-run", nullptr, "show what would be written, write nothing"},
        {"--json", nullptr, "one JSON document, schema safetensors.cat/1; with --dry-run the plan"},
    });

constexpr const char kLimitUsage[] = "0, or a number from 2 on";

// Whether the bytes go to a terminal.
bool to_terminal(const Arguments& given, const Console& console) {
  return console.out_is_terminal() && !given.has("output") && !given.has("force") && !given.has("dry-run");
}

// The format of the output. Checks all that needs no file.
std::string checked_format(const Arguments& given, const Selection& selection, const Console& console) {
  if (selection.empty() && given.positionals.size() != 2) throw UsageError("takes one PATH and one NAME");
  if (!selection.empty() && given.positionals.size() != 1)
    throw UsageError("takes one PATH, and either a NAME or options that choose a tensor");
  const bool as_json = given.json() && !given.has("dry-run");
  const bool terminal = to_terminal(given, console);
  std::string format = given.value("format").value_or(as_json ? "json" : terminal ? "text" : "raw");
  if (as_json && format != "json") throw UsageError("--json goes with --format json only");
  const auto limit = given.number("limit", kLimitUsage);
  if (limit && format != "text") throw UsageError("--limit goes with --format text only");
  if (limit == 1) throw UsageError(formatted("--limit is {}", kLimitUsage));
  if (terminal && (format == "raw" || format == "npy"))
    throw UsageError("will not write binary data to a terminal: use --format text, --output PATH or --force");
  return format;
}

std::string no_npy(Dtype dtype) {
  return formatted("NumPy has no dtype for {0}: use {2}--format raw (the same bytes, {1} bits per element) or text",
                   to_string(dtype), bits(dtype), format::castable(dtype, Dtype::F32) ? "--cast F32, " : "");
}

// The dtype of the output. Throws UsageError.
Dtype output_dtype(const std::optional<std::string>& cast, Dtype from) {
  if (!cast) return from;
  const std::optional<Dtype> to = dtype_named(*cast);
  if (to && format::castable(from, *to)) return *to;
  std::string allowed;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype)) (allowed += allowed.empty() ? "" : ", ") += to_string(dtype);
  }
  std::string text = to ? formatted("--cast: no cast from {} to {}", to_string(from), to_string(*to))
                        : formatted("--cast: unknown dtype `{}`", printable(*cast));
  text += allowed.empty() ? formatted("; {} can be cast to no dtype", to_string(from))
                          : formatted("; {} can be cast to {}", to_string(from), allowed);
  if (!to && !allowed.empty()) text += formatted(" ({})", kDtypeWords);
  throw UsageError(text);
}

// The tensor that NAME or the options choose. Error: not_found.
Result<Listed> chosen_tensor(const Arguments& given, const Selection& selection, const Input& input) {
  if (selection.empty()) return input.find(given.positionals[1]);
  const Result<std::vector<Listed>> chosen = chosen_tensors(selection, input);
  if (!chosen) return chosen.error();
  if (chosen->size() == 1) return chosen->front();
  return fault(Errc::not_found,
               formatted("{} match, such as `{}` and `{}`: name one of them", counted(chosen->size(), "tensor"),
                         printable((*chosen)[0].info->name), printable((*chosen)[1].info->name)));
}

Exit show_plan(const CatRequest& request, const Arguments& given, Console& console) {
  const TensorInfo& tensor = request.tensor;
  const auto output = given.value("output");
  const std::optional<std::uint64_t> size = output_bytes(request);
  const bool cast = request.dtype != tensor.dtype;  // only between dtypes of whole bytes
  const std::uint64_t nbytes =
      cast ? request.slice.nbytes() / (bits(tensor.dtype) / 8) * (bits(request.dtype) / 8) : request.slice.nbytes();
  if (given.json()) {
    Json json(console, "cat");
    json.field("path", given.positionals[0]).field("name", tensor.name).field("dtype", to_string(request.dtype));
    if (cast) json.field("cast_from", to_string(tensor.dtype));
    json.field("shape", request.slice.shape()).field("nbytes", nbytes).field("dry_run", true);
    json.field("format", request.format);
    if (output) json.field("output", *output);
    if (size) json.field("output_bytes", *size);
    json.finish();
  } else {
    console.out(formatted("would write {} {} as {}{} to {}\n", to_string(request.dtype),
                          shape_text(request.slice.shape()), request.format,
                          size ? ", " + counted(*size, "byte") + "," : "",
                          output ? printable(*output) : "standard output"));
  }
  return Exit::good;
}

Exit write_output(const CatRequest& request, const Arguments& given, Console& console) {
  const std::string& path = given.positionals[0];
  const auto output = given.value("output");
  if (!output) {
    const Status status = write_tensor(
        request, [&](std::string_view bytes) { return console.out(bytes), Status(); }, console);
    return status ? Exit::good : input_error(path, status.error(), console);
  }
  const Interrupt interrupt;
  Result<NewFile> file = NewFile::create(*output, given.has("force"));
  if (!file) return console.error(*output, file.error());
  bool writing = false;  // whether an error is one of the output, not of the input
  Status status = write_tensor(
      request,
      [&](std::string_view bytes) {
        Status written = file->write(bytes);
        writing = writing || !written;
        return written;
      },
      console);
  if (status) {
    writing = true;
    status = file->commit();
  }
  if (status || Interrupt::caught()) return Exit::good;
  return writing ? console.error(*output, status.error()) : input_error(path, status.error(), console);
}

std::uint64_t limit_of(const Arguments& given, const TensorInfo& tensor, const Console& console) {
  constexpr std::uint64_t kManyElements = 100;
  constexpr std::uint64_t kShown = 6;
  const bool many = console.out_is_terminal() && !given.has("output") && parameters(tensor) > kManyElements;
  return given.number("limit").value_or(many ? kShown : 0);
}

Exit run_cat(const Arguments& given, Console& console) {
  const Selection selection(given);
  const std::string format = checked_format(given, selection, console);
  const Result<Slice> slice = Slice::parse(given.value("slice").value_or(""));
  if (!slice) throw UsageError(formatted("--slice: {}", slice.error().message));
  const std::string& path = given.positionals[0];
  const auto fail = [&](const Error& error) {
    if (given.json()) {
      Json json(console, "cat");
      json.field("path", path);
      if (given.positionals.size() > 1) json.field("name", given.positionals[1]);
      json_input_error(json, path, error);
      json.finish();
    }
    return input_error(path, error, console);
  };
  const Result<Input> input = Input::open(path, console, {}, PipeData::keep);
  if (!input) return fail(input.error());
  const Result<Listed> found = chosen_tensor(given, selection, *input);
  if (!found) return fail(found.error());
  const TensorInfo& tensor = *found->info;
  const Dtype dtype = output_dtype(given.value("cast"), tensor.dtype);
  if (format == "npy" && !npy_type(dtype)) throw UsageError(no_npy(dtype));
  const Result<ResolvedSlice> resolved = slice->resolve(tensor.dtype, tensor.shape);
  if (!resolved) return fail(resolved.error());
  const auto output = given.value("output");
  if (Status status = output ? check_output(*output, given.has("force"), path, *input) : Status(); !status)
    return console.error(*output, status.error());
  const CatRequest request = {
      input->files()[found->file],         tensor, *resolved, dtype, format, limit_of(given, tensor, console),
      output || !console.out_is_terminal()};
  return given.has("dry-run") ? show_plan(request, given, console) : write_output(request, given, console);
}

}  // namespace

const Command kCat = {
    .name = "cat",
    .summary = "write a tensor or a slice: raw, npy, text, JSON",
    .title = "Write one tensor, or a slice of it.",
    .usage = "PATH [NAME]",
    .description = R"(PATH is a file, a folder or an index of a model of several files, a pattern in quotes, or - for
standard input. NAME is the tensor's name, exactly or as ls shows it. Without NAME, options such as --match choose the
tensor. They must choose exactly one. Memory stays bounded, however large the tensor.)",
    .options = kCatTable,
    .after_model = Values::tensor,
    .details = R"(Text and JSON show floats as the shortest decimal that reads back, as a double, to exactly the
value in the file. In JSON, a value that is not finite is "nan", "inf" or "-inf", and a C64 is [real, imag].)",
    .examples = R"(safetensors cat model.safetensors h.0.ln_1.bias --format text
safetensors cat model.safetensors wte.weight --slice :10 --format npy -o w.npy
safetensors cat llama-7b/ model.norm.weight --cast F32 --format npy -o n.npy
safetensors cat llama-7b/ model.norm.weight --slice '0:4' | sha256sum
safetensors cat llama-7b/ --layers 3 --match '*q_proj.weight' --format text)",
    .exits =
        "0 written; 1 the file is invalid, NAME is not in it, the slice is not in the tensor, or a value does not fit; "
        "2 usage, or OUT exists; 3 cannot read or write",
    .run = run_cat,
};

}  // namespace safetensors::cli
