// Opens an argument as a Checkpoint. Standard input is opened as one file.
#include "input.h"

#include "folders.h"
#include "new_file.h"
#include "text/text.h"

#include <safetensors/error.h>

#include "file/checkpoint_paths.h"
#include "os/command/command.h"
#include "os/file_status.h"
#include "os/regular_file.h"

#include <algorithm>
#include <bit>
#include <set>

namespace safetensors::cli {
namespace {

// Writes notices of the faults that the reader accepted.
void notice_faults(const Header& header, const std::string& path, Console& console) {
  if (header.tolerated().leading_whitespace)
    console.message(formatted(
        "{}: notice: white space before the header's `{{` (byte 8), which the format forbids and verify refuses",
        printable(path)));
  const Tolerated tolerated = header.tolerated();
  if (tolerated.any())
    console.message(
        formatted("{}: notice: accepted {}, which the format forbids", printable(path), to_string(tolerated)));
}

// The length of the part that all paths have in common, up to and with the last separator.
std::size_t common_folder(std::span<const File> files) {
  const std::string& first = files.front().path();
  std::size_t length = first.size();
  for (const File& file : files) {
    const std::string& path = file.path();
    const auto [end, other] =
        std::mismatch(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(length), path.begin(), path.end());
    length = static_cast<std::size_t>(end - first.begin());
  }
  const std::size_t separator = first.substr(0, length).rfind('/');
  return separator == std::string::npos ? 0 : separator + 1;
}

// Returns the path of the index that Checkpoint::open() reads for an argument. Returns an empty text if there is none.
std::string index_path(const std::string& argument) {
  base::Cancellation cancellation;
  file::CheckpointPaths paths(cancellation);
  return paths.add(argument) && paths.index() != nullptr ? paths.index()->path : std::string();
}

}  // namespace

Input::Input(Checkpoint checkpoint, bool is_file)
    : checkpoint_(std::move(checkpoint)),
      files_(checkpoint_->files().begin(), checkpoint_->files().end()),
      folder_(files_.empty() ? 0 : common_folder(files_)),
      is_file_(is_file) {}

Result<Input> Input::open(const std::string& argument, Console& console, const ParseOptions& parse, PipeData data) {
  OpenOptions options{.access = Access::read, .parse = parse};
  options.parse.allow_leading_whitespace = true;
  const bool part = data == PipeData::part;
  if (argument != kStandardInput) {
    Result<Input> input = open(std::span(&argument, 1), console, parse);
    if (input || !part || !is_too_short(input.error()) || input.error().path != argument) return input;
  }
  std::optional<MissingData> missing;
  const Result<File> file = argument == kStandardInput ? open_standard_input(options, data, part ? &missing : nullptr)
                                                       : open_part(argument, options.parse, missing);
  if (!file) return file.error();
  const std::string path = shown_path(argument);
  notice_faults(file->header(), path, console);
  if (missing)
    console.message(formatted("{}: notice: {} of {} of the data are missing: only the header was checked",
                              printable(path), grouped(missing->missing), counted(missing->total, "byte")));
  return Input(*file, missing);
}

Result<Input> Input::open(std::span<const std::string> arguments, Console& console, const ParseOptions& parse) {
  OpenOptions options{.access = Access::read, .parse = parse};
  options.parse.allow_leading_whitespace = true;
  Result<Checkpoint> opened = Checkpoint::open(arguments, options);
  if (!opened) {
    Error error = std::move(opened).error();
    const std::string path = error.path;
    return explain_folder(std::move(error), path);
  }
  for (const std::string& argument : arguments) notice_beside(argument, console);
  for (const File& file : opened->files()) notice_faults(file.header(), file.path(), console);
  const bool is_file = opened->files().size() == 1 && opened->files()[0].path() == arguments[0];
  return Input(*std::move(opened), is_file);
}

std::string Input::file_name(std::size_t file) const {
  return files_[file].path().substr(folder_);
}

std::vector<Listed> Input::tensors() const {
  std::vector<Listed> list;
  if (!checkpoint_) {
    for (const TensorInfo& tensor : files_[0].header().tensors()) list.push_back({&tensor, 0});
    return list;
  }
  list.reserve(checkpoint_->tensors().size());
  std::size_t file = 0;  // the tensors come in the order of the files
  for (const Tensor& tensor : checkpoint_->tensors()) {
    const File owner = tensor.file();
    while (&owner.header() != &files_[file].header()) ++file;
    list.push_back({&tensor.info(), file});
  }
  return list;
}

Result<Listed> Input::find(std::string_view name) const {
  const Result<Tensor> exact = is_file_ ? files_[0].tensor(name) : checkpoint_->tensor(name);
  if (exact) {
    const File owner = exact->file();
    const auto file = std::ranges::find(files_, &owner.header(), [](const File& one) { return &one.header(); });
    return Listed{&exact->info(), static_cast<std::size_t>(file - files_.begin())};
  }
  const bool escaped = name.find('\\') != std::string_view::npos;
  for (const Listed& listed : escaped ? tensors() : std::vector<Listed>()) {
    if (printable(listed.info->name) == name) return listed;
  }
  return exact.error();  // which names the most similar tensor
}

std::vector<const TensorInfo*> infos(const Input& input) {
  std::vector<const TensorInfo*> list;
  for (const Listed& listed : input.tensors()) list.push_back(listed.info);
  return list;
}

Result<std::string> read_text(const std::string& path, const char* what) {
  const auto file = os::RegularFile::open(path);
  if (!file) return file.error();
  const std::uint64_t size = (*file)->identity().size;
  if (size > kMaxText) return fault(Errc::invalid_argument, formatted("more than 256 MiB of {}", what), path);
  std::string text(static_cast<std::size_t>(size), '\0');
  const Status status = os::read_exactly(**file, 0, std::as_writable_bytes(std::span(text)));
  return status ? Result<std::string>(std::move(text)) : status.error();
}

std::string shown_path(const std::string& argument) {
  return argument == kStandardInput ? "standard input" : argument;
}

Exit input_error(const std::string& argument, const Error& error, Console& console) {
  return console.error(error.path.empty() ? shown_path(argument) : error.path, error);
}

Exit for_each_file(std::string_view command, std::span<const std::string> paths, bool as_json, Console& console,
                   const std::function<Result<Exit>(const std::string& path, Json* json)>& one) {
  std::optional<Json> json;
  if (as_json) json.emplace(console, command).key("files").open('[');
  Exit code = Exit::good;
  for (const std::string& path : paths) {
    if (json) json->line().open('{').field("path", path);
    const Result<Exit> result = one(path, json ? &*json : nullptr);
    if (!result && json) json_input_error(*json, path, result.error());
    code = std::max(code, result ? *result : input_error(path, result.error(), console));
    if (json) json->close('}');
  }
  if (json) {
    json->close(']');
    json->finish();
  }
  return code;
}

Status check_output(const std::string& output, bool replace, const std::string& argument, const Input& input) {
  if (output.empty() || output == kStandardInput)
    throw UsageError(output.empty() ? "OUT is an empty path" : "OUT is a path, not standard output");
  os::FileStatus out;
  const auto is_output = [&](const std::string& path) {
    os::FileStatus in;
    const bool standard_input = path.empty() || path == kStandardInput;
    const int failed = standard_input ? os::status_of(os::kStandardInput, in)
                                      : os::status_of_path(path.c_str(), os::Symlinks::follow, in);
    return failed == 0 && in.identity.same_file(out.identity);
  };
  Status status = NewFile::check(output, replace);
  if (status && os::status_of_path(output.c_str(), os::Symlinks::follow, out) == 0) {
    const std::string index = input.is_file() ? std::string() : index_path(argument);
    const bool same = is_output(argument) || (!index.empty() && is_output(index)) ||
                      std::ranges::any_of(input.files(), [&](const File& file) { return is_output(file.path()); });
    if (same) status = fault(Errc::invalid_argument, "is a file that is read: choose another OUT");
  }
  if (!status && status.error().code == Errc::invalid_argument)
    throw UsageError(formatted("{} {}", printable(output), status.error().message));
  return status;
}

void json_metadata(Json& json, const Metadata& metadata, bool lines) {
  if (!metadata.present()) return void(json.field("metadata", std::nullopt));
  json.key("metadata").open('{');
  for (const auto& [key, value] : metadata) (lines ? json.line() : json).field(key, value);
  json.close('}');
}

void json_input_error(Json& json, const std::string& argument, const Error& error) {
  if (!error.path.empty() && error.path != argument) json.field("file", error.path);
  json.error(error);
}

void json_files(Json& json, const Input& input) {
  const auto sizes = [&](const Header& header) {
    json.field("file_bytes", header.file_bytes()).field("header_bytes", header.header_bytes());
    if (input.missing()) json.field("missing_bytes", input.missing()->missing);
    json_tolerated(json, header);
  };
  if (input.is_file()) return sizes(input.files()[0].header());
  json.objects("files", input.files(), [&](const File& file) {
    json.field("path", file.path());
    sizes(file.header());
  });
  json.line();
}

std::string_view emptiness(std::uint64_t tensors, std::uint64_t bytes) {
  return bytes > 0 ? "" : tensors == 0 ? "no tensor" : "only empty tensors";
}

std::string dimensions_text(ShapeView shape, std::string_view separator, std::size_t limit) {
  return joined_texts(
      shape, [](std::uint64_t size) { return std::to_string(size); }, separator, limit);
}

std::string shape_text(ShapeView shape) {
  constexpr std::size_t kShown = 8;
  const std::string rest = shape.size() > kShown ? formatted(",...{} dimensions", shape.size()) : "";
  return "[" + dimensions_text(shape, ",", kShown) + rest + "]";
}

std::uint64_t alignment_of(std::uint64_t offset) {
  constexpr unsigned kMaxShift = 16;
  return std::uint64_t{1} << std::min<unsigned>(kMaxShift, static_cast<unsigned>(std::countr_zero(offset)));
}

std::uint64_t parameters(const TensorInfo& tensor) {
  return tensor.dtype == Dtype::UNKNOWN ? 0 : tensor.numel();
}

bool is_misaligned(const TensorInfo& tensor) {
  // C64 is a pair of F32, and F4 and F6 are bytes.
  const unsigned alignment = tensor.dtype == Dtype::C64 ? 4 : std::max(1u, bits(tensor.dtype) / 8);
  return tensor.nbytes() != 0 && tensor.file_offset % alignment != 0;
}

Accept accept_of(const Arguments& given) {
  Accept accept;
  const std::optional<std::string> list = given.value("accept");
  if (!list) return accept;
  for (const std::string_view name : split(*list, ',')) {
    (name == "unknown-dtypes" ? accept.unknown_dtypes : accept.unused_bytes) = true;
    if (name != "unknown-dtypes" && name != "unused-bytes")
      throw UsageError("--accept is unknown-dtypes, unused-bytes, or both: unknown-dtypes,unused-bytes");
  }
  return accept;
}

void json_tolerated(Json& json, const Header& header) {
  const Tolerated tolerated = header.tolerated();
  if (!tolerated.any()) return;
  json.key("tolerated").open('{').field("unknown_dtypes", tolerated.unknown_dtypes);
  json.field("unused_bytes", tolerated.unused_bytes).close('}');
}

Result<NameMap> read_name_map(const std::string& path, const Input& input, const std::string& input_path) {
  NameMap names;
  const Result<std::string> text = read_text(path, "names");
  if (!text) return text.error();
  const auto fail = [&](std::size_t line, const char* what) {
    return fault(Errc::invalid_argument, formatted("line {}: {}", line, what), path);
  };
  std::string_view rest = *text;
  for (std::size_t line = 1; const std::optional<std::string_view> one = take_line(rest); ++line) {
    if (one->empty()) continue;
    const std::size_t tab = one->find('\t');
    if (tab == std::string_view::npos || one->find('\t', tab + 1) != std::string_view::npos)
      return fail(line, "expected OLD, a tab and NEW");
    if (!names.emplace(one->substr(0, tab), one->substr(tab + 1)).second)
      return fail(line, "an earlier line has the same OLD");
  }
  std::set<std::string_view> known;
  for (const Listed& listed : input.tensors()) known.insert(listed.info->name);
  for (const auto& [old, renamed] : names) {
    if (!known.contains(old))
      return fault(Errc::not_found,
                   formatted("`{}` is not a tensor of {}", printable(old), printable(shown_path(input_path))), path);
  }
  return names;
}

}  // namespace safetensors::cli
