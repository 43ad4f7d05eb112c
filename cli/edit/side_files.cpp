// Copies the files beside a model. A model may come from a stranger, so a symlink in its folder must not make this
// program copy another file of the user: see own_target(). A file is opened without following links, and copied only if
// it is then a regular file. Manifests are not copied: they hold digests of the old files.
#include "side_files.h"

#include "folders.h"
#include "interrupt.h"
#include "link_target.h"
#include "new_file.h"

#include "format/checkpoint/model_names.h"
#include "os/descriptor.h"
#include "os/file_status.h"
#include "os/open.h"
#include "os/system.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

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

Error failure(Errc code, const char* what, const std::string& path) {
  const int error_number = errno;
  return {.code = code, .os_error = error_number, .path = path, .message = what + (": " + system_text(error_number))};
}

Status copy_file(const SideFile& from, const std::string& to, bool replace) {
  os::System& system = os::real_system();
  const os::Descriptor file(
      system.open_at(os::kWorkingDirectory, from.path.c_str(), os::OpenFlags::read | os::kDistrust, 0));
  if (!file.valid()) return failure(Errc::open_failed, "cannot open", from.path);
  os::FileStatus status;
  if (os::status_of(file.get(), status) != 0) return failure(Errc::open_failed, "cannot examine", from.path);
  if (!status.is_regular())
    return Error{.code = Errc::not_regular_file, .path = from.path, .message = "not a regular file: not copied"};
  const auto at_target = [&](Error error) {
    error.path = to;
    return error;
  };
  std::error_code unknown;
  if (fs::is_symlink(fs::symlink_status(to, unknown)))
    return Error{.code = Errc::not_regular_file, .path = to, .message = "is a symlink: not replaced"};
  Result<NewFile> copy = NewFile::create(to, replace);
  if (!copy) return at_target(copy.error());
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (std::uint64_t done = 0;;) {
    const std::ptrdiff_t got = system.read_at(file.get(), buffer.data(), buffer.size(), done);
    if (got < 0) return failure(Errc::read_failed, "cannot read", from.path);
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), static_cast<std::size_t>(got));
    if (Status written = copy->write(bytes); !written) return at_target(written.error());
  }
  if (Status placed = copy->commit(); !placed) return at_target(placed.error());
  return {};
}

}  // namespace

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
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.') || is_weights(name)) continue;
    const fs::file_type type = entry->symlink_status(unknown).type();
    if (type == fs::file_type::regular) found.files.push_back({name, entry->path().string()});
    if (type != fs::file_type::symlink || fs::is_directory(entry->path(), unknown)) continue;
    std::optional<std::string> target = own_target(entry->path(), folder);
    if (target && is_weights(*target)) continue;
    if (target && fs::is_regular_file(*target, unknown)) {
      found.files.push_back({name, *std::move(target)});
    } else {
      found.refused.push_back(name);
    }
  }
  if (failed)
    return Error{.code = Errc::open_failed,
                 .os_error = failed.value(),
                 .path = folder.string(),
                 .message = "cannot list: " + system_text(failed.value())};
  std::ranges::sort(found.files, {}, &SideFile::name);
  std::ranges::sort(found.refused);
  return found;
}

Status check_side_files(const SideFiles& files, const std::string& folder, bool replace) {
  for (const SideFile& file : files.files) {
    const std::string to = path_in_folder(folder, file.name);
    std::error_code unknown;
    const fs::file_type type = fs::symlink_status(to, unknown).type();
    if (type == fs::file_type::not_found || type == fs::file_type::none) continue;
    if (type != fs::file_type::regular)
      return Error{.code = Errc::not_regular_file, .path = to, .message = "is not a regular file: not replaced"};
    if (!replace) return Error{.code = Errc::invalid_argument, .path = to, .message = "exists; --force replaces it"};
  }
  return {};
}

Status copy_side_files(const SideFiles& files, const std::string& folder, bool replace) {
  const Interrupt interrupt;
  for (const SideFile& file : files.files) {
    const std::string to = path_in_folder(folder, file.name);
    if (Status status = copy_file(file, to, replace); !status) return status;
  }
  return {};
}

}  // namespace safetensors::cli
