// Compares files with the digests of a manifest. verify_file() of the component hash finds the ranges whose digests
// differ. It gets the open File whose format was checked, so nobody can swap the file in between. The verdicts are kept
// until the caller prints them, but no file stays open for them. Chunks that follow each other are shown as one range.
#include "verify_manifest.h"

#include "interrupt.h"
#include "progress.h"
#include "text/formatted.h"
#include "text/size.h"

#if defined(SAFETENSORS_HAVE_HASH)
#include <safetensors/hash.h>

#include <cerrno>
#include <set>
#include <tuple>
#endif

namespace safetensors::cli {

#if defined(SAFETENSORS_HAVE_HASH)

struct GivenManifest::State {
  std::string path;
  Manifest manifest;
};

// The verdict of one file. error: the file could not be compared, or has another size. opened: false if the error is
// that of opening the file.
struct ManifestVerdict {
  std::string name;
  std::string path;
  bool opened = true;
  std::vector<DamagedRange> damaged = {};
  std::optional<Error> error = std::nullopt;

  [[nodiscard]] bool matches() const { return !error && damaged.empty(); }
  [[nodiscard]] Exit code() const {
    if (error) return exit_of(*error);
    return damaged.empty() ? Exit::good : Exit::negative;
  }
};

namespace {

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

// The reason why a file is not compared. The verdict of its format has the details.
const char* refusal_text(const Error& error) {
  if (error.os_error == ENOENT) return "it does not exist";
  return exit_of(error) == Exit::system ? "it cannot be read" : "it is invalid";
}

void print_verdict_of(const ManifestVerdict& verdict, bool quiet, Console& console) {
  const std::string& path = verdict.path;
  if (!verdict.opened) {
    console.out(formatted("{}: {} with the manifest: {}\n", printable(path), console.red("not compared"),
                          refusal_text(*verdict.error)));
  } else if (verdict.error && exit_of(*verdict.error) == Exit::system) {
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
std::size_t folder_length(std::span<const std::string> paths) {
  if (paths.empty()) return 0;
  std::string_view common = paths.front();
  common = common.substr(0, common.rfind('/') + 1);
  for (const std::string& path : paths) {
    while (!path.starts_with(common)) common = common.substr(0, common.substr(0, common.size() - 1).rfind('/') + 1);
  }
  return common.size();
}

void compare_file(const File& file, const Manifest& manifest, Console& console, ManifestVerdict& verdict) {
  const ManifestFile* const expected = manifest.find(verdict.name);
  if (expected == nullptr) {
    verdict.error = Error{.code = Errc::not_found, .path = {}, .message = "the file is not in the manifest"};
    return;
  }
  const ManifestOptions options{.progress = shown_progress(console)};
  const Result<std::vector<DamagedRange>> ranges = verify_file(file, *expected, manifest, options);
  if (ranges) {
    verdict.damaged = joined(*ranges);
  } else {
    verdict.error = ranges.error();
  }
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

struct ManifestComparison::State {
  GivenManifest given;
  std::string folder;  // that all files have in common
  std::vector<ManifestVerdict> verdicts;
};

ManifestComparison::ManifestComparison(GivenManifest manifest, std::span<const std::string> paths)
    : state_(std::make_shared<State>(State{std::move(manifest), {}, {}})) {
  if (!paths.empty()) state_->folder = paths.front().substr(0, folder_length(paths));
}

void ManifestComparison::add(const std::string& path, const Result<File>& file, Console& console) {
  const Interrupt interrupt;
  ManifestVerdict verdict{.name = path.substr(state_->folder.size()), .path = path};
  if (file) {
    compare_file(*file, state_->given.state_->manifest, console, verdict);
  } else {
    verdict.opened = false;
    verdict.error = file.error();
  }
  state_->verdicts.push_back(std::move(verdict));
}

Exit ManifestComparison::print(bool whole, bool quiet, Console& console, Json* json) const {
  const GivenManifest::State& given = *state_->given.state_;
  std::set<std::string> found;
  Exit code = Exit::good;
  if (json != nullptr) json->line().key("manifest").open('{').field("path", given.path).key("files").open('[');
  const auto show = [&](const ManifestVerdict& verdict) {
    if (json != nullptr) print_verdict_json_of(verdict, *json);
    if (json == nullptr) print_verdict_of(verdict, quiet, console);
    code = worse(code, verdict.code());
  };
  for (const ManifestVerdict& verdict : state_->verdicts) {
    found.insert(verdict.name);
    show(verdict);
  }
  for (const ManifestFile& file : given.manifest.files) {
    if (!whole || found.contains(file.name)) continue;
    const Error error{.code = Errc::not_found, .path = {}, .message = "the file of the manifest is not in the model"};
    show({.name = file.name, .path = state_->folder + file.name, .error = error});
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

struct ManifestComparison::State {};

ManifestComparison::ManifestComparison(GivenManifest, std::span<const std::string>) {}

void ManifestComparison::add(const std::string&, const Result<File>&, Console&) {}

Exit ManifestComparison::print(bool, bool, Console&, Json*) const {
  return Exit::system;
}

#endif

}  // namespace safetensors::cli
