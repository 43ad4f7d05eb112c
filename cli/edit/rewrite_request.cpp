// The common part of the verbs that write a new file or model from the tensors of others. Rewrite of the library makes
// the plan and writes it. A dry run makes the same plan, so it finds the same errors in the arguments and in IN.
#include "rewrite_request.h"

#include "console.h"
#include "folders.h"
#include "input.h"
#include "interrupt.h"
#include "new_file.h"
#include "rows.h"
#include "text/text.h"

#include "base/error.h"
#include "format/checkpoint/model_names.h"
#include "os/descriptor.h"
#include "os/open.h"
#include "os/regular_file.h"
#include "os/system_error.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

// The functions down to copy_side_files() copy the files beside a model. A model may come from a stranger, so a symlink
// in its folder must not make this program copy another file of the user: see own_target(). A file is opened without
// following links, and copied only if it is then a regular file.

// Returns the blobs of the snapshot that a folder belongs to, or an empty path if the folder belongs to no snapshot. In
// the cache, a snapshot is the folder `snapshots/REVISION`, beside `blobs`, and a component of a pipeline is a folder
// below it, such as `snapshots/REVISION/unet`. folder: a real path, in which no part is a symlink.
fs::path blobs_of(fs::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path above = folder.parent_path();
    if (above.filename() == "snapshots") return above.parent_path() / "blobs";
  }
  return {};
}

// Returns the real path of a symlink in the folder of a model, if this path is in the same folder, or in the blobs of
// the same model in the cache of huggingface_hub. Otherwise returns nullopt: a model may come from a stranger, and
// another link could lead to any file of the user.
std::optional<std::string> own_target(const fs::path& link, const fs::path& folder) {
  std::error_code failed;
  const fs::path target = fs::canonical(link, failed);
  if (failed) return std::nullopt;
  const fs::path real = fs::canonical(folder, failed);
  if (failed) return std::nullopt;
  if (target.parent_path() != real && target.parent_path() != blobs_of(real)) return std::nullopt;
  return target.string();
}

constexpr std::string_view kConfigurations[] = {"config.json", "adapter_config.json"};
constexpr std::string_view kWeights[] = {".safetensors", ".bin",       ".pt",        ".pth",     ".ckpt",     ".gguf",
                                         ".ggml",        ".onnx",      ".h5",        ".msgpack", ".pickle",   ".pkl",
                                         ".npz",         ".npy",       ".pb",        ".tflite",  ".pdparams", ".ot",
                                         ".onnx_data",   ".onnx.data", ".index.json"};

// Returns whether a file holds weights or says which files do, by its name.
bool is_weights(std::string_view name) {
  return format::is_index_name(name) ||
         std::ranges::any_of(kWeights, [&](std::string_view end) { return name.ends_with(end); });
}

Status copy_file(const SideFile& from, const std::string& to, bool replace) {
  os::Descriptor opened(os::open_at(os::kWorkingDirectory, from.path.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  if (!opened.valid()) return os::system_error(Errc::open_failed, errno, "cannot open", from.path);
  const auto file = os::RegularFile::take(std::move(opened));
  if (!file) return base::with_path(file.error(), from.path);
  const auto at_target = [&](Error error) {
    error.path = to;
    return error;
  };
  std::error_code unknown;
  if (fs::is_symlink(fs::symlink_status(to, unknown)))
    return fault(Errc::not_regular_file, "is a symlink: not replaced", to);
  Result<NewFile> copy = NewFile::create(to, replace);
  if (!copy) return at_target(copy.error());
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::uint64_t done = 0;;) {
    const Result<std::size_t> got = (*file)->read_at(done, buffer);
    if (!got) return base::with_path(got.error(), from.path);
    if (*got == 0) break;
    done += *got;
    const auto bytes = std::span(buffer).first(*got);
    if (Status written = copy->write(as_text(bytes)); !written) return at_target(written.error());
  }
  if (Status placed = copy->commit(); !placed) return at_target(placed.error());
  return {};
}

// Finds the side files in the folder of the input. These are regular files whose names are not those of weights
// or indexes, and symlinks to such files in the folder or in the blobs of the same model in the cache of
// huggingface_hub. Hidden files do not count. A file given by itself has side files only if there is a configuration
// beside it. If `output` is the same folder, no files are copied. Error: open_failed if the folder cannot be listed.
Result<SideFiles> find_side_files(const Input& input, const std::string& output) {
  SideFiles found;
  if (input.files().empty()) return found;
  fs::path folder = fs::path(input.files()[0].path()).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code failed;
  if (fs::equivalent(folder, output, failed)) return found;
  bool configured = !input.is_file();
  for (const std::string_view name : kConfigurations) configured = configured || fs::exists(folder / name, failed);
  if (!configured) return found;
  const FolderNames names = names_in(folder.string());
  if (names.failed) return *names.failed;
  for (const std::string& name : names.files) {
    if (is_weights(name)) continue;
    const fs::path path = folder / name;
    const fs::file_type type = fs::symlink_status(path, failed).type();
    if (type == fs::file_type::regular) found.files.push_back({name, path.string()});
    if (type != fs::file_type::symlink || fs::is_directory(path, failed)) continue;
    std::optional<std::string> target = own_target(path, folder);
    if (target && is_weights(*target)) continue;
    if (target && fs::is_regular_file(*target, failed)) {
      found.files.push_back({name, *std::move(target)});
    } else {
      found.refused.push_back(name);
    }
  }
  return found;
}

// Returns the error that a copy into the folder would have: a file exists there and `replace` is false, or it is not a
// regular file.
Status check_side_files(const SideFiles& files, const std::string& folder, bool replace) {
  for (const SideFile& file : files.files) {
    const std::string to = path_in_folder(folder, file.name);
    std::error_code unknown;
    const fs::file_type type = fs::symlink_status(to, unknown).type();
    if (type == fs::file_type::not_found || type == fs::file_type::none) continue;
    if (type != fs::file_type::regular) return fault(Errc::not_regular_file, "is not a regular file: not replaced", to);
    if (!replace) return fault(Errc::invalid_argument, "exists; --force replaces it", to);
  }
  return {};
}

// Copies the files into a folder. replace: whether old files are replaced. A signal stops the copy. Errors, with the
// path of the file: open_failed, not_regular_file, read_failed, and those of NewFile.
Status copy_side_files(const SideFiles& files, const std::string& folder, bool replace) {
  const Interrupt interrupt;
  for (const SideFile& file : files.files) {
    const std::string to = path_in_folder(folder, file.name);
    if (Status status = copy_file(file, to, replace); !status) return status;
  }
  return {};
}

// Says which tensors of the files do not get into OUT: of two of one name, the index decides.
void notice_hidden(const Input& input, Console& console) {
  std::vector<std::size_t> read(input.files().size());
  for (const Listed& listed : input.tensors()) ++read[listed.file];
  for (std::size_t i = 0; i < read.size(); ++i) {
    const std::size_t hidden = input.files()[i].header().size() - read[i];
    if (hidden > 0)
      console.message(formatted("{}: notice: left out {} that the index does not have in this file",
                                printable(input.files()[i].path()), counted(hidden, "tensor")));
  }
}

Status check_folder(const std::string& path, bool replace) {
  std::error_code failed;
  const std::filesystem::file_status status = std::filesystem::status(path, failed);
  if (status.type() == std::filesystem::file_type::not_found) {
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, failed)))
      return NewFile::check(path.substr(0, path.find_last_not_of('/') + 1), true);
    return fault(Errc::open_failed, "is a symlink to nothing, expected a folder or no file");
  }
  if (status.type() == std::filesystem::file_type::none)
    return os::system_error(Errc::open_failed, failed.value(), "cannot write");
  if (status.type() != std::filesystem::file_type::directory)
    return fault(Errc::not_regular_file, "is not a folder, and several files are to be written");
  const bool empty = std::filesystem::is_empty(path, failed);
  if (failed) return os::system_error(Errc::open_failed, failed.value(), "cannot read the folder");
  if (empty || replace) return {};
  return fault(Errc::invalid_argument, "exists and is not empty; --force writes the model into it");
}

}  // namespace

RewriteRequest::RewriteRequest(const Command& command, const Arguments& given, std::size_t max_inputs, bool takes_rest)
    : verb(command.name),
      given_(given),
      choices_(std::ranges::count(command.options, std::string_view("match"), option_name) > 0) {
  std::vector<std::string> paths = given.positionals;
  const auto out = given.value("output");
  const bool several = max_inputs > 1;  // a forgotten OUT must not replace the last IN
  if (paths.empty()) throw UsageError(out || several ? "which IN?" : "which IN and which OUT?");
  if (several && !out) throw UsageError("which OUT? -o OUT names it");
  if (out) paths.insert(takes_rest ? paths.begin() + 1 : paths.end(), *out);
  if (paths.size() == 1) throw UsageError("which OUT?");
  if (takes_rest) {
    rest.assign(paths.begin() + 2, paths.end());
    paths.resize(2);
  }
  if (paths.size() - 1 > max_inputs)
    throw UsageError(formatted("takes one IN and one OUT{}", choices_ ? "; --match GLOB chooses tensors" : ""));
  output = paths.back();
  inputs.assign(paths.begin(), paths.end() - 1);
  if (std::ranges::count(paths, kStandardInput) > 0)
    throw UsageError("IN and OUT are paths, not standard input or output");
  if (std::ranges::count(paths, "") > 0)
    throw UsageError(output.empty() ? "OUT is an empty path" : "IN is an empty path");
  options.stem = given.value("name");
  constexpr const char* kSize = "a size, such as 5GB or 512MiB";
  options.max_shard_size = given.number("max-shard-size", kSize, &parse_size);
  if (options.max_shard_size == 0) throw UsageError(formatted("--max-shard-size is {}", kSize));
}

void RewriteRequest::choose_kind(const Input& input) {
  options.folder = kind == OutputKind::folder ||
                   (kind == OutputKind::as_input && !input.is_file() && !output.ends_with(".safetensors"));
  if (options.folder) return;
  for (const char* const option : {"max-shard-size", "name", "weights-only"}) {
    if (given_.has(option))
      throw UsageError(formatted("--{} is for a folder, but OUT is a file: split writes a folder", option));
  }
  if (!output.ends_with('/') && !is_folder(output)) return;
  const std::string name = input.is_file() ? input.file_name(0) : "model.safetensors";
  throw UsageError(formatted("OUT is a folder, but one file is to be written: name it, such as {}",
                             printable(output + (output.ends_with('/') ? "" : "/") + name)));
}

Result<Rewrite> RewriteRequest::plan(const Input& input) {
  std::vector<RewriteTensor> tensors;
  tensors.reserve(input.checkpoint()->tensors().size());
  for (const Tensor& tensor : input.checkpoint()->tensors()) tensors.push_back({.tensor = tensor});
  if (change) {
    if (Status status = change(input, tensors); !status) return status.error();
  }
  RewriteOptions planned = options;
  planned.names_of = *input.checkpoint();
  const auto metadata = given_.value("metadata");
  if (metadata != "none") {
    const MetadataConflict conflict = metadata == "first"  ? MetadataConflict::first
                                      : metadata == "last" ? MetadataConflict::last
                                                           : MetadataConflict::refuse;
    Result<std::optional<MetadataPairs>> merged = merge_metadata(input.files(), conflict);
    if (!merged) {
      Error error = merged.error();
      if (error.code == Errc::invalid_argument) error.message += " (choose with --metadata)";
      return error;
    }
    planned.metadata = *std::move(merged);
    planned.index_metadata = input.checkpoint()->index_metadata();
  }
  const bool of_index = !planned.index_metadata.empty();
  Result<Rewrite> rewrite = Rewrite::plan(std::move(tensors), std::move(planned));
  if (rewrite || !of_index || !rewrite.error().message.starts_with("index_metadata")) return rewrite;
  return fault(Errc::invalid_index,
               "the metadata of its index has two members of one name: remove one of them from the index");
}

Result<RewriteReport> RewriteRequest::write(const Rewrite& rewrite, Console& console) const {
  const Interrupt interrupt;
  CheckpointWriteOptions how;
  how.write = write_options(given_, console);
  // A file or folder that appears at the path from now on is not replaced. If the path is an empty folder, a model that
  // appears in it from now on is replaced.
  how.new_folder = !force() && !(options.folder && is_folder(output));
  return rewrite.write(output, how);
}

Status RewriteRequest::look_at_side_files(const Input& input) {
  if (!options.folder || given_.has("weights-only")) return {};
  Result<SideFiles> found = find_side_files(input, output);
  if (!found) return found.error();
  side_files_ = *std::move(found);
  return check_side_files(side_files_, output, force());
}

void RewriteRequest::show_side_files(Console& console, Json* json) const {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> names;
  for (const SideFile& file : side_files_.files) names.push_back(file.name);
  if (json != nullptr) {
    json->field("copied_files", names).field("refused_files", side_files_.refused).line();
    return;
  }
  const auto line = [&](std::string_view text, const std::vector<std::string>& list) {
    if (list.empty()) return;
    console.line(formatted("{} {}", text, first_texts(list, kNamed, printable)), 2);
  };
  line(given_.has("dry-run") ? "would copy:" : "copied:", names);
  if (choices_ && std::ranges::find(names, "config.json") != names.end())
    console.line("config.json is copied unchanged: check what it says about layers, names and dtypes", 2);
  line("not copied, because they are symlinks that lead out of the folder or to no regular file:", side_files_.refused);
}

// JSON has all files, and a table shows those of a folder in a dry run.
void RewriteRequest::show_files(Console& console, Json* json, const Rewrite& rewrite, const RewriteReport* report) {
  const CheckpointLayout& layout = rewrite.layout();
  if (json == nullptr && (report != nullptr || !rewrite.folder())) return;
  Rows rows(console, json, "files",
            {{"name", "FILE"},
             {"tensor_count", "TENSORS", kRight},
             {"header_bytes", nullptr},
             {"file_bytes", "SIZE", kRight}});
  for (std::size_t i = 0; i < layout.files().size(); ++i) {
    const CheckpointFile& file = layout.files()[i];
    const Cell name = report != nullptr && rewrite.folder() ? Cell(report->files[i]) : Cell(file.name);
    rows.row({rewrite.folder() ? name : Cell(std::nullopt), file.header.size(), file.header.header_bytes(),
              Cell::bytes(file.header.file_bytes())});
  }
  if (json == nullptr && !layout.index_text().empty())
    rows.row({layout.index_name(), Cell(), Cell(), Cell::bytes(layout.index_text().size())});
  rows.finish();
}

void RewriteRequest::print(Console& console, const Rewrite& rewrite, const RewriteReport* report) const {
  const CheckpointLayout& layout = rewrite.layout();
  std::uint64_t tensors = 0;
  for (const CheckpointFile& file : layout.files()) tensors += file.header.size();
  if (given_.json()) {
    Json json = document(console, report != nullptr);
    json.field("tensor_count", tensors).field("nbytes", layout.total_size());
    json.field("index", layout.index_text().empty() ? std::nullopt : std::optional(layout.index_name())).line();
    show_files(console, &json, rewrite, report);
    json.line();
    if (options.folder) show_side_files(console, &json);
    if (show) show(console, &json, report);
    return json.finish();
  }
  if (show) show(console, nullptr, report);
  show_files(console, nullptr, rewrite, report);
  console.out(formatted("{} {}: {}, {}{}\n", report == nullptr ? "would write" : "wrote", printable(output),
                        counted(tensors, "tensor"), size_text(layout.total_size()),
                        rewrite.folder() ? formatted(" in {}", counted(layout.files().size(), "file")) : ""));
  show_side_files(console, nullptr);
}

Json RewriteRequest::document(Console& console, bool written) const {
  Json json(console, verb);
  json.field("inputs", inputs)
      .field("output", output)
      .field("dry_run", given_.has("dry-run"))
      .field("written", written);
  return json;
}

Exit RewriteRequest::fail(const std::string& path, const Error& error, Console& console, bool written) const {
  if (given_.json()) {
    Json json = document(console, written);
    json_input_error(json, path, error);
    json.finish();
  }
  return input_error(path, error, console);
}

Exit RewriteRequest::run(Console& console) {
  const Result<Input> input = Input::open(inputs, console, parse);
  if (!input) return fail(inputs[0], input.error(), console);
  notice_hidden(*input, console);
  choose_kind(*input);
  const Result<Rewrite> rewrite = plan(*input);
  if (!rewrite) return fail(inputs[0], rewrite.error(), console);
  Status status = options.folder ? check_folder(output, force()) : NewFile::check(output, force());
  if (status && options.folder) status = rewrite->check_old_files(output, *input->checkpoint());
  if (status) status = look_at_side_files(*input);
  if (!status) return fail(output, status.error(), console);
  std::optional<RewriteReport> report;
  if (!given_.has("dry-run")) {
    Result<RewriteReport> written = write(*rewrite, console);
    if (!written) return fail(output, written.error(), console);
    report = *std::move(written);
  }
  const RewriteReport* shown = report ? &*report : nullptr;
  if (report && rewrite->folder()) notice_beside(output, console);
  if (shown != nullptr) status = copy_side_files(side_files_, output, force());
  if (!status) return fail(output, status.error(), console, report.has_value());
  print(console, *rewrite, shown);
  return Exit::good;
}

Result<std::vector<bool>> select_tensors(const std::vector<RewriteTensor>& tensors, const Selection& selection) {
  std::vector<bool> selected(tensors.size(), true);
  if (selection.empty()) return selected;
  std::vector<const TensorInfo*> infos;
  infos.reserve(tensors.size());
  for (const RewriteTensor& one : tensors) infos.push_back(&one.tensor.info());
  if (const std::string* const glob = selection.unmatched(infos))
    return fault(Errc::not_found, formatted("no tensor's name matches `{}`{}", printable(*glob), pattern_hint(*glob)));
  std::transform(infos.begin(), infos.end(), selected.begin(),
                 [&](const TensorInfo* one) { return selection.selects(*one); });
  if (std::ranges::count(selected, true) == 0) return fault(Errc::not_found, selection.nothing(std::move(infos)));
  return selected;
}

}  // namespace safetensors::cli
