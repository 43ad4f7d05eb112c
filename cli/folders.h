// The models in a folder of folders, such as a pipeline of diffusers: `unet/`, `vae/`, `text_encoder/`.
#pragma once

#include "command.h"

#include <string>
#include <string_view>
#include <vector>

namespace safetensors::cli {

// The entry of the option in the table of a command.
inline constexpr Option kRecursiveOption = {"-R,--recursive", nullptr,
                                            "look into all folders below, and treat each\n"
                                            "model and file there by itself"};

// Joins the path of a folder and a name with one separator.
[[nodiscard]] std::string path_in_folder(const std::string& folder, const std::string& name);

// Returns whether a file is an index by its name: "model.safetensors.index.json", or
// "model.safetensors.index.fp16.json" of a variant.
[[nodiscard]] bool is_index_name(std::string_view name);

// Replaces each folder by the paths of the models and files in it, sorted. With `recursive`, every folder is replaced,
// at any depth. Otherwise, only a pipeline is: a folder that is no model, with folders below it that are. Symlinks to
// folders are not followed, and hidden names are skipped. A path that gives nothing stays as it is, so that the caller
// reports its error.
[[nodiscard]] std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive);

// Replaces each pattern that matches files in different folders by these files, because they are not one model.
[[nodiscard]] std::vector<std::string> expand_patterns(const std::vector<std::string>& paths);

}  // namespace safetensors::cli
