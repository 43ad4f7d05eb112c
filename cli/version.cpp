// The text of --version: the version, the compiler, what was built in, the dtypes and the limits.
#include "command.h"
#include "sha256.h"
#include "text/text.h"

#include <safetensors/c.h>
#include <safetensors/dtype.h>
#include <safetensors/header.h>

namespace safetensors::cli {
namespace {

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

}  // namespace

std::string version_text() {
  const ParseOptions limits;
  std::string text = formatted("safetensors {}\n", safetensors_version_string());
  text += formatted("  built with  {} {}, C++{}, {}\n", compiler_name(), compiler_version(), __cplusplus / 100 % 100,
                    build_kind());
  text += formatted("  built in    fmt {}{}\n", fmt_version(), has_re2() ? ", RE2" : "");
  text += formatted("  sha256      {}\n", sha256_library());
  std::string dtypes;
  for (const Dtype dtype : all_dtypes()) {
    dtypes += dtypes.size() / 60 == (dtypes.size() + to_string(dtype).size() + 1) / 60 ? " " : "\n              ";
    dtypes += to_string(dtype);
  }
  text += formatted("  dtypes      {}\n", dtypes.substr(1));
  return text + formatted("  limits      headers up to {} bytes\n", limits.max_header_bytes);
}

}  // namespace safetensors::cli
