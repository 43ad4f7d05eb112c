// The models in a folder of folders, such as a pipeline of diffusers: `unet/`, `vae/`, `text_encoder/`.
#pragma once

#include "command.h"

#include <string>
#include <vector>

namespace safetensors::cli {

// The row of the option in the table of a command.
inline constexpr Option kRecursiveOption = {"-R,--recursive", nullptr,
                                            "each model and file in the folder and in the\n"
                                            "folders below it, by itself"};

// Replaces each folder by the paths of the models and files in it, sorted.
//
// recursive: for every folder, at any depth. Otherwise, only for a pipeline: a folder that is no model, with folders
// below it that are. Symlinks to folders are not followed, and hidden names are skipped. A path that gives nothing
// stays as it is, so that the caller reports its error.
[[nodiscard]] std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive);

// Replaces each pattern that matches files in different folders by these files, because they are no one model.
[[nodiscard]] std::vector<std::string> expand_patterns(const std::vector<std::string>& paths);

}  // namespace safetensors::cli
