// The models in a folder of folders, such as a pipeline of diffusers: `unet/`, `vae/`, `text_encoder/`.
#pragma once

#include "command.h"
#include "console.h"
#include "folder_names.h"

#include <safetensors/header.h>

#include <cstddef>
#include <string>
#include <vector>

namespace safetensors::cli {

// The entry of the option in the table of a command.
inline constexpr Option kRecursiveOption = {"-R,--recursive", nullptr,
                                            "look into all folders below, and treat each\n"
                                            "model and file there by itself"};

// What verify says about folders, beside the verdicts of the paths.
struct FolderCheck {
  struct Below {
    std::string folder;
    std::size_t count;  // of folders below it that hold models, and are not in the list
  };
  std::vector<Below> below;

  // Writes a notice for each folder of `below`.
  void notice(Console& console) const;
};

// Returns whether a file, or an index, is a variant of the model that has this file: "model.fp16.safetensors".
[[nodiscard]] bool is_variant_of(const std::string& path, const std::string& file);

// Replaces each folder by the paths of the models and files in it, sorted. With `recursive`, every folder is replaced,
// at any depth. Otherwise, these are: a folder that is no model, with folders below it that are; a folder with variants
// of one model; and a folder with a model_path(). Symlinks to folders are not followed, and hidden names are skipped. A
// path that gives nothing stays as it is, so that the caller reports its error.
//
// If `check` is not null, it receives what the list does not show. A model of numbered files is then one path even if
// some of its files are missing, so that the caller reports them.
[[nodiscard]] std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive,
                                                      FolderCheck* check = nullptr);

// Replaces each pattern that matches files in different folders by these files, because they are not one model.
[[nodiscard]] std::vector<std::string> expand_patterns(const std::vector<std::string>& paths);

}  // namespace safetensors::cli
