// The subcommand version: prints the version, the compiler, what was built in, the dtypes and the limits.
#include "arguments.h"
#include "command.h"
#include "json_output.h"
#include "text/formatted.h"

#include <safetensors/c.h>
#include <safetensors/dtype.h>
#include <safetensors/header.h>
#if defined(SAFETENSORS_HAVE_HASH)
#include <safetensors/hash.h>
#endif

namespace safetensors::cli {
namespace {

constexpr Option kVersionTable[] = {
    kJsonOption,
};

constexpr const char* kVersionExamples[] = {
    "safetensors version --json | jq -r .version",
};

constexpr const char* compiler_name() {
#if defined(__clang__)
  return "clang";
#elif defined(__GNUC__)
  return "gcc";
#else
  return "unknown";
#endif
}

std::string compiler_version() {
#if defined(__clang__)
  return formatted("{}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#elif defined(__GNUC__)
  return formatted("{}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#else
  return "unknown";
#endif
}

constexpr const char* build_kind() {
#if defined(NDEBUG)
  return "release";
#else
  return "with assertions";
#endif
}

// Whether `rename` takes expressions.
constexpr bool has_re2() {
#if defined(SAFETENSORS_HAVE_RE2)
  return true;
#else
  return false;
#endif
}

std::string fmt_version() {
  return formatted("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100);
}

// The libraries that compute hashes, "none" where this build has none.
struct HashLibraries {
  std::string sha256 = "none";
  std::string blake3 = "none";
};

HashLibraries hash_libraries() {
  HashLibraries libraries;
#if defined(SAFETENSORS_HAVE_HASH)
  libraries.sha256 = hash_library(HashAlgorithm::sha256);
  if (!hash_library(HashAlgorithm::blake3).empty()) libraries.blake3 = hash_library(HashAlgorithm::blake3);
#endif
  return libraries;
}

void print_text(Console& console) {
  const ParseOptions limits;
  console.out(formatted("safetensors {}\n", safetensors_version_string()));
  console.out(formatted("  built with  {} {}, C++{}, {}\n", compiler_name(), compiler_version(),
                        __cplusplus / 100 % 100, build_kind()));
  console.out(formatted("  built in    fmt {}{}\n", fmt_version(), has_re2() ? ", RE2" : ""));
  console.out(formatted("  hashes      sha256: {}, blake3: {}\n", hash_libraries().sha256, hash_libraries().blake3));
  std::string dtypes;
  for (const Dtype dtype : all_dtypes()) {
    dtypes += dtypes.size() / 60 == (dtypes.size() + to_string(dtype).size() + 1) / 60 ? " " : "\n              ";
    dtypes += to_string(dtype);
  }
  console.out(formatted("  dtypes      {}\n", dtypes.substr(1)));
  console.out(formatted("  limits      headers up to {} bytes\n", limits.max_header_bytes));
}

void print_json(Console& console) {
  const ParseOptions limits;
  Json json(console, "version");
  json.field("version", safetensors_version_string()).line().key("compiler").open('{').field("name", compiler_name());
  json.field("version", compiler_version()).close('}').field("cplusplus", std::uint64_t{__cplusplus});
  json.field("build", build_kind()).line().key("built_in").open('{');
  json.field("fmt", fmt_version()).field("re2", has_re2()).close('}').line().key("hashes").open('{');
  json.field("sha256", hash_libraries().sha256).field("blake3", hash_libraries().blake3).close('}');
  json.line().key("dtypes").open('[');
  for (const Dtype dtype : all_dtypes()) json.string(to_string(dtype));
  json.close(']').line().key("limits").open('{').field("max_header_bytes", limits.max_header_bytes).close('}');
  json.finish();
}

Exit run_version(std::span<const std::string> given, Console& console) {
  std::vector<std::string> none;
  bool as_json = false;
  Arguments arguments(kVersion);
  arguments.positionals(none);
  arguments.flag("json", as_json);
  if (const auto wrong = arguments.parse(given, console)) return console.usage("version", *wrong);
  if (!none.empty()) return console.usage("version", "takes no arguments");
  if (as_json) {
    print_json(console);
  } else {
    print_text(console);
  }
  return Exit::good;
}

}  // namespace

const Command kVersion = {
    .name = "version",
    .summary = "show the version and how it was built",
    .title = "Show the version and how it was built.",
    .usage =
        "safetensors version [--json]\n"
        "safetensors --version",
    .options = kVersionTable,
    .arguments = Values::any,
    .examples = kVersionExamples,
    .exits = "0; 2 usage",
    .run = run_version,
};

}  // namespace safetensors::cli
