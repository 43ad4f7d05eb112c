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

constexpr const char kCatDescription[] =
    R"(PATH is a file, a folder or an index of a model of several files, a pattern in
quotes, or - for standard input. NAME is the tensor's name, exactly or as ls
shows it. Without NAME, options such as --match choose the tensor. They must
choose exactly one. Memory stays bounded, however large the tensor.)";

constexpr Option kCatTable[] = {
    kMatchOption,
    kExcludeOption,
    kDtypeOption,
    kLayersOption,
    {"--slice", "SLICE",
     "an index as between NumPy's brackets: '1:3,:', '-1',\n"
     "'::2,...'; F4 and F6 only on whole bytes",
     nullptr, Values::any},
    {"--format", "FORMAT",
     "raw   the bytes, little-endian, C order (default, but\n"
     "      not on a terminal)\n"
     "npy   NumPy's file format, for dtypes NumPy has\n"
     "text  decimal numbers in nested brackets (default on a\n"
     "      terminal)\n"
     "json  the same as --json",
     "raw|npy|text|json"},
    {"--cast", "DTYPE",
     "convert floats to F32, F64, F16, BF16 or an F8 dtype, to\n"
     "nearest even, or integers to another integer dtype;\n"
     "also for npy, which has no BF16",
     nullptr, Values::cast},
    {"--limit", "N",
     "in text, show at most N elements (2 or more) per\n"
     "dimension, the first and the last; 0 shows all\n"
     "(default: all, but 6 on a terminal if the tensor has\n"
     "over 100 elements)"},
    {"-o,--output", "OUT", "write into a file, which appears when it is complete", nullptr, Values::path},
    {"--force", nullptr, "replace OUT; write raw bytes to a terminal"},
    {"-n,--dry-run", nullptr, "show what would be written, write nothing"},
    {"--json", nullptr,
     "one JSON document, schema safetensors.cat/1; with\n"
     "--dry-run the plan"},
};

constexpr const char kCatDetails[] = R"(Text and JSON show floats as the shortest decimal that reads back, as a double,
to exactly the value in the file. In JSON, a value that is not finite is "nan",
"inf" or "-inf", and a C64 is [real, imag].)";

constexpr const char* kCatExamples[] = {
    "safetensors cat model.safetensors h.0.ln_1.bias --format text",
    "safetensors cat model.safetensors wte.weight --slice :10 --format npy -o w.npy",
    "safetensors cat llama-7b/ model.norm.weight --cast F32 --format npy -o n.npy",
    "safetensors cat llama-7b/ model.norm.weight --slice '0:4' | sha256sum",
    "safetensors cat llama-7b/ --layers 3 --match '*q_proj.weight' --format text",
};

constexpr const char kLimitUsage[] = "0, or a number from 2 on";

struct CatOptions {
  std::vector<std::string> given;  // PATH and NAME, or PATH
  Selection selection;
  std::optional<std::string> slice;
  std::optional<std::string> format;
  std::optional<std::string> cast;
  std::optional<std::uint64_t> limit;
  std::optional<std::string> output;
  bool force = false;
  bool dry_run = false;
  bool json = false;
};

CatOptions options_of(const Arguments& given) {
  CatOptions options;
  options.given = given.positionals;
  options.selection = Selection(given);
  options.slice = given.value("slice");
  options.format = given.value("format");
  options.cast = given.value("cast");
  options.limit = given.number("limit", kLimitUsage);
  options.output = given.value("output");
  options.force = given.has("force");
  options.dry_run = given.has("dry-run");
  options.json = given.json();
  if (options.selection.empty() && options.given.size() != 2) throw UsageError("takes one PATH and one NAME");
  if (!options.selection.empty() && options.given.size() != 1)
    throw UsageError("takes one PATH, and either a NAME or options that choose a tensor");
  return options;
}

CatFormat format_of(const CatOptions& options, const Console& console) {
  const bool shown = console.out_is_terminal() && !options.output && !options.force && !options.dry_run;
  const std::string word = options.format.value_or(options.json && !options.dry_run ? "json" : shown ? "text" : "raw");
  if (word == "npy") return CatFormat::npy;
  if (word == "text") return CatFormat::text;
  if (word == "json") return CatFormat::json;
  return CatFormat::raw;
}

// Checks all that needs no file.
void check_usage(const CatOptions& options, CatFormat format, const Console& console) {
  if (options.json && !options.dry_run && format != CatFormat::json)
    throw UsageError("--json goes with --format json only");
  if (options.limit && format != CatFormat::text) throw UsageError("--limit goes with --format text only");
  if (options.limit == 1) throw UsageError(formatted("--limit is {}", kLimitUsage));
  const bool binary = format == CatFormat::raw || format == CatFormat::npy;
  if (binary && console.out_is_terminal() && !options.output && !options.force && !options.dry_run) {
    throw UsageError("will not write binary data to a terminal: use --format text, --output PATH or --force");
  }
}

std::string no_npy(Dtype dtype) {
  return formatted("NumPy has no dtype for {0}: use {2}--format raw (the same bytes, {1} bits per element) or text",
                   to_string(dtype), bits(dtype), format::castable(dtype, Dtype::F32) ? "--cast F32, " : "");
}

// The dtype of the output. Throws UsageError.
Dtype output_dtype(const CatOptions& options, Dtype from) {
  if (!options.cast) return from;
  const std::optional<Dtype> to = dtype_named(*options.cast);
  if (to && format::castable(from, *to)) return *to;
  std::string allowed;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype)) (allowed += allowed.empty() ? "" : ", ") += to_string(dtype);
  }
  std::string text = to ? formatted("--cast: no cast from {} to {}", to_string(from), to_string(*to))
                        : formatted("--cast: unknown dtype `{}`", printable(*options.cast));
  text += allowed.empty() ? formatted("; {} can be cast to no dtype", to_string(from))
                          : formatted("; {} can be cast to {}", to_string(from), allowed);
  if (!to && !allowed.empty()) text += formatted(" ({})", kDtypeWords);
  throw UsageError(text);
}

// The tensor that NAME or the options choose. Error: not_found.
Result<Listed> chosen_tensor(const CatOptions& options, const Input& input) {
  if (options.selection.empty()) return input.find(options.given[1]);
  if (const auto nothing = nothing_chosen(options.selection, input)) return *nothing;
  std::vector<Listed> chosen = input.tensors();
  std::erase_if(chosen, [&](const Listed& one) { return !options.selection.selects(*one.info); });
  if (chosen.size() == 1) return chosen[0];
  return fault(Errc::not_found,
               formatted("{} match, such as `{}` and `{}`: name one of them", counted(chosen.size(), "tensor"),
                         printable(chosen[0].info->name), printable(chosen[1].info->name)));
}

Exit show_plan(const CatRequest& request, const CatOptions& options, Console& console) {
  const TensorInfo& tensor = request.tensor;
  const std::optional<std::uint64_t> size = output_bytes(request);
  const bool cast = request.dtype != tensor.dtype;  // only between dtypes of whole bytes
  const std::uint64_t nbytes =
      cast ? request.slice.nbytes() / (bits(tensor.dtype) / 8) * (bits(request.dtype) / 8) : request.slice.nbytes();
  if (options.json) {
    Json json(console, "cat");
    json.field("path", options.given[0]).field("name", tensor.name).field("dtype", to_string(request.dtype));
    if (cast) json.field("cast_from", to_string(tensor.dtype));
    json.field("shape", request.slice.shape()).field("nbytes", nbytes).field("dry_run", true);
    json.field("format", to_string(request.format));
    if (options.output) json.field("output", *options.output);
    if (size) json.field("output_bytes", *size);
    json.finish();
  } else {
    console.out(formatted("would write {} {} as {}{} to {}\n", to_string(request.dtype),
                          shape_text(request.slice.shape()), to_string(request.format),
                          size ? ", " + counted(*size, "byte") + "," : "",
                          options.output ? printable(*options.output) : "standard output"));
  }
  return Exit::good;
}

Exit write_output(const CatRequest& request, const CatOptions& options, Console& console) {
  const std::string& path = options.given[0];
  if (!options.output) {
    const Status status = write_tensor(
        request, [&](std::string_view bytes) { return console.out(bytes), Status(); }, console);
    return status ? Exit::good : input_error(path, status.error(), console);
  }
  const Interrupt interrupt;
  Result<NewFile> file = NewFile::create(*options.output, options.force);
  if (!file) return console.error(*options.output, file.error());
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
  return writing ? console.error(*options.output, status.error()) : input_error(path, status.error(), console);
}

Exit fail(const CatOptions& options, const Error& error, Console& console) {
  if (options.json) {
    Json json(console, "cat");
    json.field("path", options.given[0]);
    if (options.given.size() > 1) json.field("name", options.given[1]);
    json_input_error(json, options.given[0], error);
    json.finish();
  }
  return input_error(options.given[0], error, console);
}

std::uint64_t limit_of(const CatOptions& options, const TensorInfo& tensor, const Console& console) {
  constexpr std::uint64_t kManyElements = 100;
  constexpr std::uint64_t kShown = 6;
  if (options.limit) return *options.limit;
  return console.out_is_terminal() && !options.output && parameters(tensor) > kManyElements ? kShown : 0;
}

Exit run_cat(const Arguments& given, Console& console) {
  const CatOptions options = options_of(given);
  const CatFormat format = format_of(options, console);
  check_usage(options, format, console);
  const Result<Slice> slice = Slice::parse(options.slice.value_or(""));
  if (!slice) throw UsageError(formatted("--slice: {}", slice.error().message));
  const Result<Input> input = Input::open(options.given[0], console, {}, PipeData::keep);
  if (!input) return fail(options, input.error(), console);
  const Result<Listed> found = chosen_tensor(options, *input);
  if (!found) return fail(options, found.error(), console);
  const TensorInfo* const tensor = found->info;
  const Dtype dtype = output_dtype(options, tensor->dtype);
  if (format == CatFormat::npy && !npy_type(dtype)) throw UsageError(no_npy(dtype));
  const Result<ResolvedSlice> resolved = slice->resolve(tensor->dtype, tensor->shape);
  if (!resolved) return fail(options, resolved.error(), console);
  if (options.output) {
    Status status = NewFile::check(*options.output, options.force);
    if (status) status = check_output_apart(*options.output, options.given[0], *input);
    if (!status && status.error().code == Errc::invalid_argument) {
      throw UsageError(formatted("{} {}", printable(*options.output), status.error().message));
    }
    if (!status) return console.error(*options.output, status.error());
  }
  const CatRequest request = {input->files()[found->file],
                              *tensor,
                              *resolved,
                              dtype,
                              format,
                              limit_of(options, *tensor, console),
                              options.output || !console.out_is_terminal()};
  return options.dry_run ? show_plan(request, options, console) : write_output(request, options, console);
}

}  // namespace

const Command kCat = {
    .name = "cat",
    .summary = "write a tensor or a slice: raw, npy, text, JSON",
    .title = "Write one tensor, or a slice of it.",
    .usage =
        "safetensors cat PATH NAME [--slice SLICE] [--format FORMAT] [--limit N]\n"
        "                [--cast DTYPE] [--output OUT [--force] [--dry-run]]\n"
        "                [--json]\n"
        "safetensors cat PATH [--match GLOB]... [--exclude GLOB]... [--dtype LIST]\n"
        "                [--layers LIST] ...",
    .description = kCatDescription,
    .options = kCatTable,
    .after_model = Values::tensor,
    .details = kCatDetails,
    .examples = kCatExamples,
    .exits =
        "0 written; 1 the file is invalid, NAME is not in it, the slice is not in\n"
        "the tensor, or a value does not fit; 2 usage, or OUT exists; 3 cannot read\n"
        "or write",
    .run = run_cat,
};

}  // namespace safetensors::cli
