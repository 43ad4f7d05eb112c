// The functions _read_manifest, _manifest_text and _manifest_names: the text of manifests, and the names of files in
// them. Files and tensors are tuples of the members of the classes ManifestFile and ManifestTensor of the package. The
// package computes the digests: hashlib is there without OpenSSL's headers.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <safetensors/hash.h>

#include <tuple>
#include <utility>
#include <vector>

#include "hash/manifest_names.h"
#include "module.h"

namespace safetensors::python {
namespace {

using TensorFields = std::tuple<std::string, std::uint64_t, std::uint64_t, std::string>;
using FileFields = std::tuple<std::string, std::uint64_t, std::uint64_t, std::string, std::string, std::string,
                              std::vector<TensorFields>, std::vector<std::string>>;
using ManifestFields = std::tuple<std::string, std::uint64_t, std::vector<FileFields>>;

ManifestFields from_manifest(const Manifest& manifest) {
  std::vector<FileFields> files;
  for (const ManifestFile& file : manifest.files) {
    std::vector<TensorFields> tensors;
    for (const auto& [name, begin, end, digest] : file.tensors) tensors.emplace_back(name, begin, end, to_hex(digest));
    std::vector<std::string> chunks;
    for (const Digest& chunk : file.chunks) chunks.push_back(to_hex(chunk));
    files.emplace_back(file.name, file.bytes, file.data_start, to_hex(file.digest), to_hex(file.header),
                       to_hex(file.data), std::move(tensors), std::move(chunks));
  }
  return {to_string(manifest.algorithm), manifest.chunk_bytes, std::move(files)};
}

Digest to_digest(const std::string& text) {
  const std::optional<Digest> digest = digest_from_hex(text);
  if (!digest) raise("a digest is not 64 hexadecimal digits");
  return *digest;
}

ManifestFile to_file(const FileFields& fields) {
  const auto& [name, bytes, data_start, digest, header, data, tensors, chunks] = fields;
  ManifestFile file{.name = name,
                    .bytes = bytes,
                    .data_start = data_start,
                    .digest = to_digest(digest),
                    .header = to_digest(header),
                    .data = to_digest(data)};
  for (const auto& [tensor, begin, end, of_tensor] : tensors)
    file.tensors.push_back({tensor, begin, end, to_digest(of_tensor)});
  for (const std::string& chunk : chunks) file.chunks.push_back(to_digest(chunk));
  return file;
}

ManifestFields read_manifest(nb::handle object) {
  const std::string path = to_path(object, "path");
  const Result<Manifest> manifest = [&] {
    const WithoutGil released;
    return Manifest::read(path);
  }();
  if (!manifest) raise_read_error(manifest.error(), path + ": ", path);
  return from_manifest(*manifest);
}

std::string manifest_text(const std::string& algorithm, std::uint64_t chunk_bytes, nb::handle objects) {
  std::vector<FileFields> files;
  if (!nb::try_cast(objects, files))
    raise_type_error(
        "a member of a file of the manifest has the wrong type, is not UTF-8, or is not a number from 0 to 2^64-1");
  const std::optional<HashAlgorithm> known = hash_algorithm(algorithm);
  if (!known) raise("unknown algorithm " + printable(algorithm) + ", expected sha256 or blake3");
  Manifest manifest{.algorithm = *known, .chunk_bytes = chunk_bytes};
  for (const FileFields& file : files) manifest.files.push_back(to_file(file));
  Result<std::string> text = manifest.text();
  if (!text) throw std::bad_alloc();
  return *std::move(text);
}

nb::list manifest_names(nb::handle objects, bool check) {
  const std::vector<std::string> paths = to_paths(objects);
  const std::vector<std::string_view> views(paths.begin(), paths.end());
  nb::list names;
  if (views.empty()) return names;
  const std::size_t folder = hash::common_folder(views);
  for (const std::string_view path : views) {
    const std::string_view name = path.substr(folder);
    if (const Status status = check ? hash::check_new_file_name(name) : Status(); !status)
      raise(status.error().message, &status.error());
    names.append(from_path(name));
  }
  return names;
}

}  // namespace

void define_manifest(nb::module_& module) {
  module.def("_read_manifest", &read_manifest, nb::arg("path").none(), "(algorithm, chunk_bytes, files) of a file.");
  module.def("_manifest_text", &manifest_text, nb::arg("algorithm"), nb::arg("chunk_bytes"), nb::arg("files").none(),
             "The text of a manifest.");
  module.def("_manifest_names", &manifest_names, nb::arg("paths").none(), nb::kw_only(), nb::arg("check"),
             "The paths, relative to the last folder that all have in common. check: whether a new manifest will hold\n"
             "the names, so that a name that it may not hold raises SafetensorError.");
}

}  // namespace safetensors::python
