// Which files behind symlinks belong to a model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace safetensors::cli {

// The real path of a symlink in the folder of a model, if it is in the folder, or in the blobs of the same model in the
// cache of huggingface_hub. A model may come from a stranger: another link could lead to any file of the user.
[[nodiscard]] std::optional<std::string> own_target(const std::filesystem::path& link,
                                                    const std::filesystem::path& folder);

}  // namespace safetensors::cli
