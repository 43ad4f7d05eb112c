// The subcommand cat: writes a slice of a tensor as raw bytes, npy, text or JSON. It reads 768 KiB at a time, so memory
// stays bounded for any tensor. Nested brackets are written by counting indices, not by recursion, because the rank
// comes from the file. Output into a file goes through NewFile, so that the file appears only when it is complete.
#include "arguments.h"
#include "command.h"
#include "input.h"
#include "interrupt.h"
#include "json_output.h"
#include "new_file.h"
#include "selection.h"
#include "text/text.h"
#include "values/numbers.h"

#include <safetensors/element.h>

#include "file/slice_reader.h"
#include "format/dtype/cast.h"
#include "os/regular_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <utility>

namespace safetensors::cli {
namespace {

struct CatRequest {
  const File& file;
  const TensorInfo& tensor;
  const ResolvedSlice& slice;
  Dtype dtype;          // of the output; another one than that of the tensor if the values are cast
  std::string format;   // raw, npy, text or json
  std::uint64_t limit;  // max elements shown per dimension in text; 0: all
  bool progress;        // whether to show the progress if standard error is a terminal
};

// Receives the output. An error that it returns ends the output.
using Sink = std::function<Status(std::string_view)>;

// Returns the shortest decimal that reads back as this double: "1.0", "1e-07". A finite value has a point or an
// exponent, so that no reader takes it for an integer.
std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  char text[64];
  const auto [end, code] = std::to_chars(text, text + sizeof text, value);
  std::string result(text, end);
  if (result.find_first_of(".en") == std::string::npos) result += ".0";
  return result;
}

// Returns the text of element `index` of packed elements.
//
// Floats become double, which holds all values of the smaller dtypes exactly, and then text by std::to_chars. Python,
// JavaScript and jq read JSON numbers as doubles, so they get exactly the value in the file.
//
// A float is the shortest decimal that reads back, as a double, to exactly the value in the file: 0.1 as F32 is
// 0.10000000149011612. Text mode: 1.0, nan, inf, -inf, true, false, 1.0+2.0j. A BOOL byte over 1 is a number. JSON mode
// is the same, except that a value that is not finite is a string ("nan"), C64 is [1.0, 2.0], and any BOOL byte except
// 0 is true.
std::string element_text(Dtype dtype, bool json, std::span<const std::byte> packed, std::uint64_t index) {
  if (dtype == Dtype::C64) {
    const std::string real = element_text(Dtype::F32, json, packed, 2 * index);
    const std::string imaginary = element_text(Dtype::F32, json, packed, 2 * index + 1);
    if (json) return formatted("[{}, {}]", real, imaginary);
    return formatted("{}{}{}j", real, imaginary.starts_with('-') ? "" : "+", imaginary);
  }
  const unsigned width = bits(dtype);
  const std::uint64_t value = bits_at(packed, index, width);
  if (dtype == Dtype::BOOL) return value == 0 ? "false" : value == 1 || json ? "true" : std::to_string(value);
  if (is_signed_integer(dtype)) return std::to_string(static_cast<std::int64_t>(value << (64 - width)) >> (64 - width));
  if (is_integer(dtype)) return std::to_string(value);
  const double number = dtype == Dtype::F64   ? std::bit_cast<double>(value)
                        : dtype == Dtype::F32 ? double{std::bit_cast<float>(static_cast<std::uint32_t>(value))}
                                              : double{to_float(dtype, static_cast<std::uint16_t>(value))};
  const std::string text = shortest(number);
  return json && !std::isfinite(number) ? '"' + text + '"' : text;
}

// In bytes. A multiple of 3, so that no F6 element crosses from one chunk into the next.
constexpr std::uint64_t kChunk = 768 << 10;

// The bytes of a slice in the dtype of the output. A cast converts each chunk as it is read.
class SliceValues {
 public:
  explicit SliceValues(const CatRequest& request)
      : request_(request),
        from_(request.tensor.dtype),
        to_(request.dtype),
        from_bytes_(bits(from_) / 8),
        to_bytes_(bits(to_) / 8) {}

  // In bytes of the output. Without a cast, elements may have fewer than 8 bits.
  [[nodiscard]] std::uint64_t size() const {
    return from_ == to_ ? request_.slice.nbytes() : request_.slice.nbytes() / from_bytes_ * to_bytes_;
  }
  // Reads the bytes from `offset` on. With a cast, they are whole elements.
  [[nodiscard]] Status read(std::uint64_t offset, std::span<std::byte> destination) {
    if (from_ == to_) return read_slice(offset, destination);
    const std::size_t count = destination.size() / to_bytes_;
    const std::uint64_t first = offset / to_bytes_ * from_bytes_;
    source_.resize(count * from_bytes_);
    if (Status status = read_slice(first, source_); !status) return status;
    const std::size_t done = format::try_cast(from_, source_.data(), to_, destination.data(), count);
    return done == count ? Status() : out_of_range(first + done * from_bytes_, source_.data() + done * from_bytes_);
  }

 private:
  // Reads the bytes of the slice from `offset` on: whole pieces together, and parts of the first and of the last piece.
  Status read_slice(std::uint64_t offset, std::span<std::byte> destination) {
    const file::ReadTensorBytes read = [this](std::uint64_t from, std::span<std::byte> to) {
      return os::read_exactly(request_.file.source(), request_.tensor.file_offset + from, to);
    };
    while (!destination.empty()) {
      const std::uint64_t inside = offset % piece_bytes_;
      const std::uint64_t count = inside == 0 ? destination.size() / piece_bytes_ : 0;
      const std::uint64_t bytes = count > 0 ? count * piece_bytes_ : piece_bytes_ - inside;
      const auto part = destination.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, destination.size())));
      Status status = count > 0
                          ? file::read_slice(request_.slice, {offset / piece_bytes_, count}, read, bounce_, part.data())
                          : read(in_tensor(offset), part);
      if (!status) return status;
      offset += part.size();
      destination = destination.subspan(part.size());
    }
    return {};
  }
  // The offset in the tensor of a byte of the slice.
  [[nodiscard]] std::uint64_t in_tensor(std::uint64_t offset) const {
    return format::piece_offset(request_.slice, offset / piece_bytes_) + offset % piece_bytes_;
  }
  // The error for an element that does not fit. offset: of the element, in the bytes of the slice.
  [[nodiscard]] Error out_of_range(std::uint64_t offset, const std::byte* element) const {
    const TensorInfo& tensor = request_.tensor;
    Error error = format::out_of_range(from_, element, to_, in_tensor(offset) / from_bytes_, tensor.shape);
    error.message = "tensor `" + printable(tensor.name) + "`: " + error.message;
    error.offset = tensor.file_offset + in_tensor(offset);
    error.path = request_.file.path();
    return error;
  }

  const CatRequest& request_;
  const Dtype from_;
  const Dtype to_;
  const std::size_t from_bytes_;
  const std::size_t to_bytes_;
  const std::uint64_t piece_bytes_ = detail::Access<ResolvedSlice>::piece_size(request_.slice);
  io::BounceBuffer bounce_;
  std::vector<std::byte> source_;
};

Status write_bytes(const CatRequest& request, const Sink& sink, Console& console) {
  SliceValues values(request);
  const std::uint64_t total = values.size();
  std::vector<std::byte> chunk(static_cast<std::size_t>(std::min(kChunk, total)));
  for (std::uint64_t done = 0; done < total && console.writable();) {
    const std::span<std::byte> part(chunk.data(), static_cast<std::size_t>(std::min(kChunk, total - done)));
    if (Status status = values.read(done, part); !status) return status;
    if (Status status = sink(as_text(part)); !status) return status;
    done += part.size();
    if (request.progress) console.progress(done, total);
  }
  return {};
}

// Writes nested brackets around the elements: [[1, 2],\n [3, 4]].
class Brackets {
 public:
  Brackets(const CatRequest& request, bool json, const Sink& sink, Console& console)
      : shape_(request.slice.shape()),
        limit_(request.limit),
        dtype_(request.dtype),
        json_(json),
        values_(request),
        sink_(sink),
        console_(console),
        index_(shape_.rank(), 0),
        inside_(shape_.rank(), 1) {
    for (std::size_t dim = shape_.rank(); dim-- > 1;) inside_[dim - 1] = inside_[dim] * shape_[dim];
  }

  Status run() {
    out_.append(shape_.rank(), '[');
    bool more = true;
    while (more && console_.writable()) {
      if (Status status = append_element(); !status) return status;
      more = advance();
      if (out_.size() >= kFull) {
        if (Status status = sink_(out_); !status) return status;
        out_.clear();
      }
    }
    return sink_(out_);
  }

 private:
  static constexpr std::size_t kFull = 64 << 10;

  Status append_element() {
    const std::uint64_t in_chunk = kChunk * 8 / bits(dtype_);
    const std::uint64_t begin = next_ / in_chunk * kChunk;
    if (begin != loaded_ || chunk_.empty()) {
      loaded_ = begin;
      chunk_.resize(static_cast<std::size_t>(std::min(kChunk, values_.size() - begin)));
      if (Status status = values_.read(begin, chunk_); !status) return status;
    }
    out_ += element_text(dtype_, json_, chunk_, next_++ % in_chunk);
    return {};
  }

  // Moves to the next element and writes the separators and brackets before it. Returns false at the end.
  bool advance() {
    std::size_t dim = shape_.rank();
    while (dim > 0 && ++index_[dim - 1] == shape_[dim - 1]) {
      index_[--dim] = 0;
      out_ += ']';
    }
    if (dim == 0) return false;
    const std::size_t closed = shape_.rank() - dim;
    separate(dim, closed);
    elide(dim - 1, closed);
    out_.append(closed, '[');
    return true;
  }

  void separate(std::size_t dim, std::size_t closed) {
    // As NumPy does: one empty line between matrices, two between stacks of matrices, never more.
    const std::size_t lines = json_ ? std::min<std::size_t>(closed, 1) : std::min<std::size_t>(closed, 3);
    out_ += closed == 0 ? ", " : ",";
    out_.append(lines, '\n');
    if (closed > 0 && !json_) out_.append(std::min(dim, kMaxIndent), ' ');
  }

  // Skips the middle of a dimension that is longer than the limit.
  void elide(std::size_t dim, std::size_t closed) {
    if (limit_ == 0 || shape_[dim] <= limit_ || index_[dim] != (limit_ + 1) / 2) return;
    const std::uint64_t skipped = shape_[dim] - limit_;
    next_ += skipped * inside_[dim];
    index_[dim] += skipped;
    out_ += "...";
    if (index_[dim] < shape_[dim]) separate(dim + 1, closed);
  }

  static constexpr std::size_t kMaxIndent = 64;

  const Shape& shape_;
  std::uint64_t limit_;
  Dtype dtype_;
  bool json_;
  SliceValues values_;
  std::uint64_t next_ = 0;    // index of the next element
  std::uint64_t loaded_ = 0;  // offset of chunk_, in bytes
  std::vector<std::byte> chunk_;
  const Sink& sink_;
  Console& console_;
  std::vector<std::uint64_t> index_;
  std::vector<std::uint64_t> inside_;  // elements per index of each dimension
  std::string out_;
};

Status write_values(const CatRequest& request, bool json, const Sink& sink, Console& console) {
  if (request.slice.nbytes() == 0) return sink("[]");
  return Brackets(request, json, sink, console).run();
}

// Writes the members that say which values the output has.
void json_values(Json& json, const std::string& path, const CatRequest& request) {
  json.field("path", path).field("name", request.tensor.name).field("dtype", to_string(request.dtype));
  if (request.dtype != request.tensor.dtype) json.field("cast_from", to_string(request.tensor.dtype));
  json.field("shape", request.slice.shape());
}

Status write_json(const CatRequest& request, const Sink& sink, Console& console) {
  Status status;
  Json json([&](std::string_view text) { status = status ? sink(text) : status; }, "cat");
  json_values(json, request.file.path(), request);
  json.line().key("values").raw("");
  if (status) status = write_values(request, true, sink, console);
  json.finish();
  return status;
}

// Returns a header of the NPY format, as of version 1.0, or of version 2.0 if the shape is too long: magic, version,
// length, and a Python dict as text. It is padded so that the data, in C order, starts at a multiple of 64 bytes.
std::string npy_header(std::string_view type, ShapeView shape) {
  std::string text = formatted("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                               dimensions_text(shape), shape.size() == 1 ? "," : "");
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kMaxShortHeader = 65535;  // bytes; the limit of a length in 2 bytes
  // Magic, version and the length in 2 or 4 bytes; the text ends with a line feed.
  const std::size_t length_bytes = text.size() + kAlignment > kMaxShortHeader ? 4 : 2;
  const std::size_t before = 8 + length_bytes;
  text.append((kAlignment - (before + text.size() + 1) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string header = "\x93NUMPY";
  header += length_bytes == 2 ? '\x01' : '\x02';
  header += '\0';
  for (std::size_t i = 0; i < length_bytes; ++i) header += static_cast<char>(text.size() >> (8 * i) & 0xFF);
  return header + text;
}

// The type string of NumPy, such as "<f4". nullopt for a dtype that NumPy lacks.
std::optional<std::string_view> npy_type(Dtype dtype) noexcept {
  static constexpr std::pair<Dtype, std::string_view> kTypes[] = {
      {Dtype::BOOL, "|b1"}, {Dtype::U8, "|u1"},  {Dtype::I8, "|i1"},  {Dtype::U16, "<u2"}, {Dtype::I16, "<i2"},
      {Dtype::F16, "<f2"},  {Dtype::U32, "<u4"}, {Dtype::I32, "<i4"}, {Dtype::F32, "<f4"}, {Dtype::U64, "<u8"},
      {Dtype::I64, "<i8"},  {Dtype::F64, "<f8"}, {Dtype::C64, "<c8"}};
  for (const auto& [known, type] : kTypes) {
    if (known == dtype) return type;
  }
  return std::nullopt;
}

// The number of bytes that write_tensor() produces, known in advance for raw and npy. nullopt for the other formats.
std::optional<std::uint64_t> output_bytes(const CatRequest& request) {
  if (request.format == "text" || request.format == "json") return std::nullopt;
  const std::uint64_t bytes = SliceValues(request).size();
  if (request.format == "raw") return bytes;
  return npy_header(*npy_type(request.dtype), request.slice.shape()).size() + bytes;
}

// Writes the tensor to sink. The format npy needs a dtype that NumPy has, and another dtype a cast that castable()
// allows. Stops early if the console's standard output fails.
Status write_tensor(const CatRequest& request, const Sink& sink, Console& console) {
  if (request.format == "json") return write_json(request, sink, console);
  if (request.format == "text") {
    if (Status status = write_values(request, false, sink, console); !status) return status;
    return sink("\n");
  }
  if (request.format == "npy") {
    if (Status status = sink(npy_header(*npy_type(request.dtype), request.slice.shape())); !status) return status;
  }
  return write_bytes(request, sink, console);
}

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
         "convert floats to F32, F64, F16, BF16 or an F8 dtype, rounded to nearest even, or integers to another "
         "integer dtype. NumPy lacks BF16: cast it for npy",
         nullptr, Values::dtype},
        {"--limit", "N",
         "in text, show at most N elements (2 or more) per dimension, the first and the last; 0 shows all (default: "
         "all, but 6 on a terminal if the tensor has over 100 elements)"},
        {"-o,--output", "OUT", "write into a file, which appears when it is complete", nullptr, Values::path},
        {"--force", nullptr, "replace OUT; write raw bytes to a terminal"},
        {"-n,--dry-run", nullptr, "show what would be written, write nothing"},
        {"--json", nullptr, "one JSON document, schema safetensors.cat/1; with --dry-run the plan"},
    });

constexpr const char kLimitUsage[] = "0, or a number from 2 on";

// The format of the output. Checks all that needs no file.
std::string checked_format(const Arguments& given, const Selection& selection, const Console& console) {
  if (selection.empty() && given.positionals.size() != 2) throw UsageError("takes one PATH and one NAME");
  if (!selection.empty() && given.positionals.size() != 1)
    throw UsageError("takes one PATH, and either a NAME or options that choose a tensor");
  const bool as_json = given.json() && !given.has("dry-run");
  const bool terminal =
      console.out_is_terminal() && !given.has("output") && !given.has("force") && !given.has("dry-run");
  std::string format = given.value("format").value_or(as_json ? "json" : terminal ? "text" : "raw");
  if (as_json && format != "json") throw UsageError("--json goes with --format json only");
  const auto limit = given.number("limit", kLimitUsage);
  if (limit && format != "text") throw UsageError("--limit goes with --format text only");
  if (limit == 1) throw UsageError(formatted("--limit is {}", kLimitUsage));
  if (terminal && (format == "raw" || format == "npy"))
    throw UsageError("will not write binary data to a terminal: use --format text, --output PATH or --force");
  return format;
}

// The dtype of the output. Throws UsageError.
Dtype output_dtype(const std::optional<std::string>& cast, Dtype from) {
  if (!cast) return from;
  const Dtype to = dtype_of("--cast", *cast);
  if (format::castable(from, to)) return to;
  std::string allowed;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype)) (allowed += allowed.empty() ? "" : ", ") += to_string(dtype);
  }
  throw UsageError(formatted("--cast: no cast from {0} to {1}; {0} can be cast to {2}", to_string(from), to_string(to),
                             allowed.empty() ? "no dtype" : allowed));
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
  const auto output = given.value("output");
  const std::optional<std::uint64_t> size = output_bytes(request);
  if (given.json()) {
    Json json(console, "cat");
    json_values(json, given.positionals[0], request);
    json.field("nbytes", SliceValues(request).size()).field("dry_run", true).field("format", request.format);
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
  if (format == "npy" && !npy_type(dtype))
    throw UsageError(
        formatted("NumPy has no dtype for {0}: use {2}--format raw (the same bytes, {1} bits per element) or text",
                  to_string(dtype), bits(dtype), format::castable(dtype, Dtype::F32) ? "--cast F32, " : ""));
  const Result<ResolvedSlice> resolved = slice->resolve(tensor.dtype, tensor.shape);
  if (!resolved) return fail(resolved.error());
  const auto output = given.value("output");
  if (Status status = output ? check_output(*output, given.has("force"), path, *input) : Status(); !status)
    return console.error(*output, status.error());
  const bool shown = console.out_is_terminal() && !output;
  const std::uint64_t limit = given.number("limit").value_or(shown && parameters(tensor) > 100 ? 6 : 0);
  const CatRequest request = {input->files()[found->file], tensor, *resolved, dtype, format, limit, !shown};
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
    .after_model = Values::any,
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
