// Makes manifests: computes the digests of the files of a model, of their chunks and of their tensors.
#include <safetensors/hash.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "hash/manifest_names.h"

namespace safetensors {
namespace hash {
namespace {

Result<ManifestFile> make_file(const File& file, std::string name, const HashOptions& options) {
  Result<FileHashes> hashes = hash_file(file, options);
  if (!hashes) return std::move(hashes).error();
  const Header& header = file.header();
  ManifestFile made{.name = std::move(name), .bytes = header.file_bytes(), .data_start = header.data_start()};
  made.digest = *hashes->file;
  made.header = hashes->header;
  made.data = *hashes->data;
  made.chunks = std::move(hashes->chunks);
  const TensorList tensors = header.tensors();
  made.tensors.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t begin = tensors[i].file_offset;
    made.tensors.push_back({std::string(tensors[i].name), begin, begin + tensors[i].nbytes(), hashes->tensors[i]});
  }
  return made;
}

// The paths, relative to the last folder that all have in common.
std::vector<std::string> names_of(std::span<const File> files) {
  std::vector<std::string_view> paths;
  for (const File& file : files) paths.push_back(file.path());
  const std::size_t folder = common_folder(paths);
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const std::string_view path : paths) names.emplace_back(path.substr(folder));
  return names;
}

// Refuses, before a byte is hashed, files whose manifest read() would refuse.
Status check_files(std::span<const File> files, const ManifestOptions& options) {
  constexpr std::uint64_t kChunkBytes = 71;  // of the text, per chunk
  const auto fail = [](std::string what) { return base::make_error(Errc::invalid_argument, std::move(what)); };
  if (files.empty()) return fail("no files");
  if (options.chunk_bytes == 0) return fail("a manifest needs chunks");
  std::uint64_t chunks = 0;
  for (const File& file : files) {
    if (file.path().empty()) return fail("a file without a path has no name");
    chunks += file.header().file_bytes() / options.chunk_bytes;
  }
  if (chunks > kMaxManifestBytes / kChunkBytes)
    return fail("a manifest of " + std::to_string(chunks) + " chunks would be too large: choose larger chunks");
  for (const std::string& name : names_of(files)) {
    if (Status status = check_new_file_name(name); !status) return status;
  }
  return {};
}

Result<Manifest> make(std::span<const File> files, const ManifestOptions& options) {
  if (Status status = check_files(files, options); !status) return std::move(status).error();
  std::uint64_t total = 0;
  for (const File& file : files) total += file.header().file_bytes();
  const std::vector<std::string> names = names_of(files);
  Manifest manifest{.algorithm = options.algorithm, .chunk_bytes = options.chunk_bytes};
  std::uint64_t before = 0;  // bytes of the files before
  for (std::size_t i = 0; i < files.size(); ++i) {
    HashOptions one{.algorithm = options.algorithm,
                    .data = true,
                    .tensors = true,
                    .chunk_bytes = options.chunk_bytes,
                    .threads = options.threads};
    if (options.progress)
      one.progress = [&](std::uint64_t done, std::uint64_t) { return options.progress(before + done, total); };
    Result<ManifestFile> made = make_file(files[i], names[i], one);
    if (!made) return std::move(made).error();
    manifest.files.push_back(*std::move(made));
    before += files[i].header().file_bytes();
  }
  std::ranges::sort(manifest.files, {}, &ManifestFile::name);
  const auto twice = std::ranges::adjacent_find(manifest.files, {}, &ManifestFile::name);
  if (twice == manifest.files.end()) return manifest;
  return base::make_error(Errc::invalid_argument, "two files have the name " + base::shown_name(twice->name));
}

}  // namespace
}  // namespace hash

inline namespace v0 {

Result<Manifest> Manifest::make(std::span<const File> files, const ManifestOptions& options) noexcept {
  return base::guarded([&] { return hash::make(files, options); });
}

}  // namespace v0
}  // namespace safetensors
