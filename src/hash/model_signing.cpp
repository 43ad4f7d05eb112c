// The in-toto statement that the PyPI package model-signing signs and verifies: the SHA-256 of every file of a folder,
// and one root digest over them. Each thread hashes a file of its own.
#include <safetensors/hash.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "hash/hasher.h"
#include "io/progress.h"
#include "json/writer.h"
#include "os/directory.h"
#include "os/file_status.h"
#include "os/parallel.h"
#include "os/path.h"
#include "os/regular_file.h"

namespace safetensors {
namespace hash {
namespace {

// The package leaves these names out, at the top of the folder.
constexpr std::string_view kIgnored[] = {".git", ".gitattributes", ".github", ".gitignore"};

struct SignedFile {
  std::string name;  // relative to the folder, or "." for a model that is one file
  std::string path;
  Digest digest = {};
};

// The package compares paths component by component.
bool path_less(const SignedFile& a, const SignedFile& b) {
  const auto key = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
  return std::ranges::lexicographical_compare(a.name, b.name, {}, key, key);
}

Status refuse_link(const std::string& path) {
  os::FileStatus status;
  if (os::status_of_path(path.c_str(), os::Symlinks::keep, status) != 0 || !status.is_symlink()) return {};
  return base::make_error(Errc::invalid_argument, "a symbolic link: model-signing refuses links by default", path);
}

Status collect(const std::string& folder, const std::string& prefix, std::vector<SignedFile>& files) {
  const Result<std::vector<std::string>> names = os::list_directory(folder, true);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (prefix.empty() && std::ranges::find(kIgnored, name) != std::end(kIgnored)) continue;
    const std::string path = os::join_path(folder, name);
    if (Status status = refuse_link(path); !status) return status;
    if (base::first_invalid_utf8(name) != std::string_view::npos)
      return base::make_error(Errc::invalid_utf8, "the name is not UTF-8", path);
    if (os::kind_of(path) == os::PathKind::directory) {
      if (Status status = collect(path, prefix + name + '/', files); !status) return status;
    } else {
      files.push_back({prefix + name, path});
    }
  }
  return {};
}

// Each task is a thread, which hashes files until none is left.
class FileTasks final : public os::Tasks {
 public:
  FileTasks(std::vector<SignedFile>& files, io::ProgressMeter& meter) : files_(files), meter_(meter) {}

  [[nodiscard]] Status run(std::size_t) noexcept override {
    return base::guarded([&]() -> Status {
      const Result<std::unique_ptr<Hasher>> hasher = make_hasher(HashAlgorithm::sha256);
      if (!hasher) return hasher.error();
      std::vector<std::byte> buffer(std::size_t{256} << 10);
      for (std::size_t index = next_++; index < files_.size(); index = next_++) {
        if (Status status = hash_one(files_[index], **hasher, buffer); !status) {
          next_ = files_.size();
          return base::with_path(status.error(), files_[index].path);
        }
      }
      return {};
    });
  }

 private:
  Status hash_one(SignedFile& file, Hasher& hasher, std::span<std::byte> buffer) {
    const Result<std::shared_ptr<const os::RegularFile>> opened = os::RegularFile::open(file.path);
    if (!opened) return opened.error();
    const std::uint64_t size = (*opened)->size().value();
    for (std::uint64_t offset = 0; offset < size;) {
      const std::span<std::byte> bytes =
          buffer.first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size - offset)));
      if (Status status = os::read_exactly(**opened, offset, bytes); !status) return status;
      hasher.update(bytes);
      offset += bytes.size();
      if (Status status = meter_.add(bytes.size()); !status) return status;
    }
    const Result<Digest> digest = hasher.finish();
    if (!digest) return digest.error();
    file.digest = *digest;
    return {};
  }

  std::vector<SignedFile>& files_;
  io::ProgressMeter& meter_;
  std::atomic<std::size_t> next_{0};
};

Result<std::uint64_t> total_bytes(const std::vector<SignedFile>& files) {
  std::uint64_t total = 0;
  for (const SignedFile& file : files) {
    const Result<std::shared_ptr<const os::RegularFile>> opened = os::RegularFile::open(file.path);
    if (!opened) return opened.error();
    total += (*opened)->size().value();
  }
  return total;
}

std::string statement_text(const std::string& name, const std::vector<SignedFile>& files, const Digest& root) {
  std::string out = "{\"_type\": \"https://in-toto.io/Statement/v1\",\n \"subject\": [{\"name\": ";
  json::append_string(out, name);
  out += ", \"digest\": {\"sha256\": \"" + to_hex(root) + "\"}}],\n";
  out += " \"predicateType\": \"https://model_signing/signature/v1.0\",\n \"predicate\": {\n";
  out += "  \"serialization\": {\"method\": \"files\", \"hash_type\": \"sha256\", \"allow_symlinks\": false,\n";
  out += "   \"ignore_paths\": [\".git\", \".gitattributes\", \".github\", \".gitignore\"]},\n  \"resources\": [";
  for (const SignedFile& file : files) {
    out += &file == files.data() ? "\n   {\"name\": " : ",\n   {\"name\": ";
    json::append_string(out, file.name);
    out += ", \"algorithm\": \"sha256\", \"digest\": \"" + to_hex(file.digest) + "\"}";
  }
  return out + "]}}\n";
}

// The name that a path leads to, behind all symlinks. Paths are UTF-8 on every system. Empty: there is no such file.
std::string name_of(const std::string& path) {
  std::error_code error;
  const std::filesystem::path given(std::u8string(path.begin(), path.end()));
  const std::u8string name = std::filesystem::canonical(given, error).filename().u8string();
  return {name.begin(), name.end()};
}

Result<std::string> make_statement(std::string path, const ManifestOptions& options) {
  path = os::without_end_slash(std::move(path));
  const std::string name = name_of(path);
  if (base::first_invalid_utf8(name) != std::string_view::npos)
    return base::make_error(Errc::invalid_utf8, "the name is not UTF-8", path);
  std::vector<SignedFile> files;
  if (os::kind_of(path) == os::PathKind::directory) {
    if (Status status = collect(path, "", files); !status) return std::move(status).error();
  } else {
    if (Status status = refuse_link(path); !status) return std::move(status).error();
    files.push_back({".", path});
  }
  std::ranges::sort(files, path_less);
  const Result<std::uint64_t> total = total_bytes(files);
  if (!total) return total.error();
  io::ProgressMeter meter(options.progress, *total, 0, path, std::this_thread::get_id());
  FileTasks tasks(files, meter);
  const unsigned threads = options.threads == 0 ? os::usable_processors() : options.threads;
  if (Status status = os::run_parallel(tasks, threads, threads); !status) return std::move(status).error();
  if (Status status = meter.finish(); !status) return std::move(status).error();
  std::vector<std::byte> digests;
  for (const SignedFile& file : files) {
    const auto bytes = std::as_bytes(std::span(file.digest.bytes));
    digests.insert(digests.end(), bytes.begin(), bytes.end());
  }
  const Result<Digest> root = hash_bytes(digests);
  if (!root) return root.error();
  return statement_text(name, files, *root);
}

}  // namespace
}  // namespace hash

inline namespace v0 {

Result<std::string> model_signing_statement(PathView path, const ManifestOptions& options) noexcept {
  return base::guarded([&] { return hash::make_statement(os::generic_path(path), options); });
}

}  // namespace v0
}  // namespace safetensors
