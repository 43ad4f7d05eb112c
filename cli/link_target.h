// Decides which symlinks in the folder of a model may be followed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace safetensors::cli {

// Returns the real path of a symlink in the folder of a model, if this path is in the same folder, or in the blobs of
// the same model in the cache of huggingface_hub. Otherwise returns nullopt: a model may come from a stranger, and
// another link could lead to any file of the user.
[[nodiscard]] std::optional<std::string> own_target(const std::filesystem::path& link,
                                                    const std::filesystem::path& folder);

}  // namespace safetensors::cli
