// Compares files with the digests of a manifest. verify_file() of the component hash finds the ranges whose digests
// differ. It gets the open File whose format was checked, so nobody can swap the file in between. Chunks that follow
// each other are shown as one range.
#include "verify_manifest.h"

#include "interrupt.h"
#include "text/formatted.h"
#include "text/size.h"

#if defined(SAFETENSORS_HAVE_HASH)
#include <safetensors/hash.h>

#include <algorithm>
#include <set>
#include <tuple>
#endif

namespace safetensors::cli {

#if defined(SAFETENSORS_HAVE_HASH)

struct GivenManifest::State {
  std::string path;
  Manifest manifest;
};

namespace {

// The verdict of one file. error: the file could not be compared, or has another size.
struct ManifestVerdict {
  std::string name;
  std::vector<DamagedRange> damaged;
  std::optional<Error> error;

  [[nodiscard]] bool matches() const { return !error && damaged.empty(); }
  [[nodiscard]] Exit code() const {
    if (error) return exit_of(*error);
    return damaged.empty() ? Exit::good : Exit::negative;
  }
};

auto damage_of(const DamagedRange& range) {
  return std::tie(range.header, range.data, range.file, range.tensors);
}

// Joins ranges that follow each other and differ in the same things.
std::vector<DamagedRange> joined(const std::vector<DamagedRange>& ranges) {
  std::vector<DamagedRange> list;
  for (const DamagedRange& range : ranges) {
    if (!list.empty() && list.back().end == range.begin && damage_of(list.back()) == damage_of(range)) {
      list.back().end = range.end;
    } else {
      list.push_back(range);
    }
  }
  return list;
}

std::string damage_text(const DamagedRange& range) {
  constexpr std::size_t kNamed = 4;
  std::string text = range.header ? "the header" : "";
  for (std::size_t i = 0; i < range.tensors.size() && i < kNamed; ++i)
    text += formatted("{}tensor {}", text.empty() ? "" : ", ", printable(range.tensors[i]));
  if (range.tensors.size() > kNamed)
    text += formatted(" and {} more", counted(range.tensors.size() - kNamed, "tensor"));
  if (range.data) text = "the data";
  if (range.file) text = "the file";
  if (text.empty()) text = "chunks";
  return formatted("{}, in bytes [{}, {})", text, range.begin, range.end);
}

void print_verdict_of(const ManifestVerdict& verdict, const std::string& path, bool quiet, Console& console) {
  if (verdict.error && exit_of(*verdict.error) == Exit::system) {
    console.error(path, *verdict.error);
  } else if (verdict.error) {
    console.out(formatted("{}: {}: {}\n", printable(path), console.red("differs"), describe(*verdict.error)));
  }
  for (const DamagedRange& range : verdict.damaged)
    console.out(formatted("{}: {}: {}\n", printable(path), console.red("differs"), damage_text(range)));
  if (verdict.matches() && !quiet)
    console.out(formatted("{}: {} the manifest\n", printable(path), console.green("matches")));
}

void print_verdict_json_of(const ManifestVerdict& verdict, Json& json) {
  json.line().open('{').field("name", verdict.name).field("matches", verdict.matches());
  if (verdict.error) json.error(*verdict.error);
  if (!verdict.damaged.empty()) {
    json.key("damaged").open('[');
    for (const DamagedRange& range : verdict.damaged) {
      json.line().open('{').field("begin", range.begin).field("end", range.end).field("header", range.header);
      json.field("data", range.data).field("file", range.file);
      json.key("tensors").open('[');
      for (const std::string& name : range.tensors) json.string(name);
      json.close(']').close('}');
    }
    json.close(']');
  }
  json.close('}');
}

// The length of the folder that all paths have in common.
std::size_t folder_length(std::span<const File> files) {
  std::string_view common = files.front().path();
  common = common.substr(0, common.rfind('/') + 1);
  for (const File& file : files) {
    while (!file.path().starts_with(common))
      common = common.substr(0, common.substr(0, common.size() - 1).rfind('/') + 1);
  }
  return common.size();
}

ManifestVerdict compare_file(const File& file, std::string name, const Manifest& manifest, Console& console) {
  ManifestVerdict verdict{.name = std::move(name), .damaged = {}, .error = {}};
  const ManifestFile* const expected = manifest.find(verdict.name);
  if (expected == nullptr) {
    verdict.error = Error{.code = Errc::not_found, .path = {}, .message = "the file is not in the manifest"};
    return verdict;
  }
  const ManifestOptions options{.progress = [&](std::uint64_t done, std::uint64_t total) {
    console.progress(done, total);
    return !Interrupt::caught();
  }};
  const Result<std::vector<DamagedRange>> ranges = verify_file(file, *expected, manifest, options);
  if (ranges) {
    verdict.damaged = joined(*ranges);
  } else {
    verdict.error = ranges.error();
  }
  return verdict;
}

}  // namespace

Result<GivenManifest> GivenManifest::read(const std::string& path) {
  Result<Manifest> manifest = Manifest::read(path);
  if (!manifest) return manifest.error();
  if (hash_library(manifest->algorithm).empty())
    return Error{.code = Errc::unsupported,
                 .path = path,
                 .message = formatted("this build has no {}", to_string(manifest->algorithm))};
  return GivenManifest(std::make_shared<const State>(State{path, *std::move(manifest)}));
}

Exit GivenManifest::compare(std::span<const File> files, bool whole, bool quiet, Console& console, Json* json) const {
  const Interrupt interrupt;
  const std::size_t folder = folder_length(files);
  std::set<std::string> found;
  Exit code = Exit::good;
  if (json != nullptr) json->line().key("manifest").open('{').field("path", state_->path).key("files").open('[');
  const auto show = [&](const ManifestVerdict& verdict, const std::string& path) {
    if (json != nullptr) print_verdict_json_of(verdict, *json);
    if (json == nullptr) print_verdict_of(verdict, path, quiet, console);
    code = worse(code, verdict.code());
  };
  for (const File& file : files) {
    const std::string& path = file.path();
    const ManifestVerdict verdict = compare_file(file, path.substr(folder), state_->manifest, console);
    if (Interrupt::caught()) return code;
    found.insert(verdict.name);
    show(verdict, path);
  }
  for (const ManifestFile& file : state_->manifest.files) {
    if (!whole || found.contains(file.name)) continue;
    const Error error{.code = Errc::not_found, .path = {}, .message = "the file of the manifest is not in the model"};
    show({.name = file.name, .damaged = {}, .error = error}, files[0].path().substr(0, folder) + file.name);
  }
  if (json != nullptr) json->close(']').field("matches", code == Exit::good).close('}');
  return code;
}

#else

struct GivenManifest::State {};

Result<GivenManifest> GivenManifest::read(const std::string& path) {
  return Error{.code = Errc::unsupported,
               .path = path,
               .message = "this build has no hash functions: build it with OpenSSL 3 (Debian: libssl-dev)"};
}

Exit GivenManifest::compare(std::span<const File>, bool, bool, Console&, Json*) const {
  return Exit::system;
}

#endif

}  // namespace safetensors::cli
