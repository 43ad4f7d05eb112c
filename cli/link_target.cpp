// Compares real paths, in which no part is a symlink. A snapshot of the cache is `snapshots/REVISION`, beside `blobs`.
// A component of a pipeline is a folder below it, such as `snapshots/REVISION/unet`.
#include "link_target.h"

#include <system_error>

namespace safetensors::cli {
namespace {

namespace fs = std::filesystem;

// Returns the blobs of the snapshot that a folder belongs to. Empty if it belongs to none.
fs::path blobs_of(fs::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path above = folder.parent_path();
    if (above.filename() == "snapshots") return above.parent_path() / "blobs";
  }
  return {};
}

}  // namespace

std::optional<std::string> own_target(const fs::path& link, const fs::path& folder) {
  std::error_code failed;
  const fs::path target = fs::canonical(link, failed);
  if (failed) return std::nullopt;
  const fs::path real = fs::canonical(folder, failed);
  if (failed) return std::nullopt;
  if (target.parent_path() != real && target.parent_path() != blobs_of(real)) return std::nullopt;
  return target.string();
}

}  // namespace safetensors::cli
