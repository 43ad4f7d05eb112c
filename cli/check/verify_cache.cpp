// Compares files with the names of their blobs. The name comes from the symlink of the snapshot, and the bytes from the
// open file whose format was checked. The name of a small file is git's SHA-1, which this program does not compute.
#include "verify_cache.h"

#include "folders.h"
#include "interrupt.h"
#include "sha256.h"
#include "text/text.h"

#include "os/file_status.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

// Returns the target of a symlink of a snapshot. Returns an empty path for a file that is not a symlink into a folder
// `blobs`.
fs::path blob_of(const std::string& path) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(path, failed);
  const fs::path blob = failed || target.is_absolute() ? target : fs::path(path).parent_path() / target;
  return blob.parent_path().filename() == "blobs" ? blob : fs::path();
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// The paths and the sizes of the unfinished downloads in folders.
std::vector<std::pair<std::string, std::uint64_t>> unfinished(const std::set<std::string>& folders) {
  std::vector<std::pair<std::string, std::uint64_t>> list;
  for (const std::string& folder : folders) {
    for (const std::string& name : names_in(folder).files) {
      const std::string path = path_in_folder(folder, name);
      os::FileStatus status;
      const bool known = os::status_of_path(path.c_str(), os::Symlinks::keep, status) == 0;
      if (name.ends_with(".incomplete") && known && status.is_regular()) list.emplace_back(path, status.identity.size);
    }
  }
  return list;
}

Result<std::string> digest_of(const File& file, Console& console) {
  const Interrupt interrupt;
  const std::uint64_t size = file.header().file_bytes();
  std::uint64_t done = 0;
  return sha256_of(file.source(), 0, size, [&](std::uint64_t bytes) {
    console.progress(done += bytes, size);
    return !Interrupt::caught();
  });
}

// Many models of a cache are only a tokenizer, or have weights of another format.
bool has_models(const std::string& folder) {
  return names_in(folder).holds_models() || expand_folders({folder}, false) != std::vector{folder};
}

}  // namespace

std::vector<std::string> CacheComparison::snapshots(const std::string& path) {
  const FolderNames names = names_in(path);
  const auto holds = [&](const std::string& name) { return std::ranges::binary_search(names.folders, name); };
  std::vector<std::string> list;
  if (holds("blobs") && holds("snapshots")) {
    const std::string folder = path_in_folder(path, "snapshots");
    for (const std::string& name : names_in(folder).folders) list.push_back(path_in_folder(folder, name));
  } else if (!names.holds_models()) {
    for (const std::string& name : names.folders) {
      if (!name.starts_with("models--")) continue;
      for (std::string& snapshot : snapshots(path_in_folder(path, name)))
        if (has_models(snapshot)) list.push_back(std::move(snapshot));
    }
  }
  return list.empty() ? std::vector{path} : list;
}

void CacheComparison::add(const std::string& path, const Result<File>& file, Console& console) {
  Verdict verdict;
  verdict.path = path;
  const fs::path blob = blob_of(path);
  verdict.blob = blob.filename().string();
  if (!blob.empty()) blobs_.insert(blob.parent_path().lexically_normal().string());
  if (blob.empty()) {
    verdict.text = !file && file.error().os_error == ENOENT ? "it does not exist" : "it is not a symlink to a blob";
  } else if (!file) {
    verdict.code = exit_of(file.error());
    verdict.text = verdict.code == Exit::system ? "it cannot be read" : "it is invalid";
  } else if (verdict.blob.size() == 40 && is_hex(verdict.blob)) {
    verdict.text = "the name of its blob is a hash of git, not a SHA-256";
  } else if (verdict.blob.size() != 64 || !is_hex(verdict.blob)) {
    verdict.text = "the name of its blob is not a SHA-256";
  } else if (const Result<std::string> digest = digest_of(*file, console); !digest) {
    verdict.text = describe(digest.error());
    verdict.code = exit_of(digest.error());
  } else {
    verdict.text = *digest;
    verdict.matches = *digest == verdict.blob;
    if (!*verdict.matches) verdict.code = Exit::negative;
  }
  verdicts_.push_back(std::move(verdict));
}

void CacheComparison::print_verdict(const Verdict& verdict, Console& console) {
  const std::string path = printable(verdict.path);
  if (verdict.matches == true) {
    console.out(formatted("{}: {} its blob\n", path, console.green("matches")));
  } else if (verdict.matches) {
    console.out(formatted("{}: {} from its blob: the SHA-256 is {}, the name {}\n", path, console.red("differs"),
                          verdict.text, printable(verdict.blob)));
  } else if (verdict.code == Exit::good) {
    console.out(formatted("{}: note: not compared: {}\n", path, verdict.text));
  } else {
    console.out(formatted("{}: {} with its blob: {}\n", path, console.red("not compared"), printable(verdict.text)));
  }
}

Exit CacheComparison::print(bool quiet, Console& console, Json* json) const {
  Exit code = Exit::good;
  for (const Verdict& verdict : verdicts_) {
    code = std::max(code, verdict.code);
    if (json == nullptr && (!quiet || verdict.code != Exit::good)) print_verdict(verdict, console);
  }
  const auto incomplete = unfinished(blobs_);
  if (json != nullptr) {
    json->line().key("cache").open('{').objects("files", verdicts_, [&](const Verdict& verdict) {
      json->field("path", verdict.path).field("blob", verdict.blob);
      json->field("matches", verdict.matches).field(verdict.matches ? "sha256" : "reason", verdict.text);
    });
    json->line().objects("incomplete", incomplete,
                         [&](const auto& one) { json->field("path", one.first).field("file_bytes", one.second); });
    json->close('}').line();
  }
  for (const auto& [path, size] : incomplete) {
    if (json == nullptr && !quiet)
      console.out(formatted("{}: note: an unfinished download, {}\n", printable(path), counted(size, "byte")));
  }
  return code;
}

}  // namespace safetensors::cli
