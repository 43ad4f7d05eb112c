// Compares real paths, in which no part is a symlink. A snapshot of the cache is `snapshots/REVISION`, beside `blobs`.
#include "link_target.h"

#include <system_error>

namespace safetensors::cli {

std::optional<std::string> own_target(const std::filesystem::path& link, const std::filesystem::path& folder) {
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::canonical(link, failed);
  if (failed) return std::nullopt;
  const std::filesystem::path real = std::filesystem::canonical(folder, failed);
  if (failed) return std::nullopt;
  const bool snapshot = real.parent_path().filename() == "snapshots";
  const std::filesystem::path blobs = real.parent_path().parent_path() / "blobs";
  if (target.parent_path() != real && !(snapshot && target.parent_path() == blobs)) return std::nullopt;
  return target.string();
}

}  // namespace safetensors::cli
