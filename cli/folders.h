// Finds the models in a folder, and says what to do about a folder that is no model.
#pragma once

#include "command.h"
#include "console.h"

#include <safetensors/error.h>

#include <optional>
#include <string>
#include <vector>

namespace safetensors::cli {

// The entry of the option in the table of a command.
inline constexpr Option kRecursiveOption = {
    "-R,--recursive", nullptr, "look into all folders below, and treat each model and file there by itself"};

struct FolderNames {
  std::vector<std::string> files;    // and symlinks, sorted
  std::vector<std::string> folders;  // sorted; symlinks to folders are among the files
  std::optional<Error> failed;       // if the folder could not be listed

  // Returns whether one of the files is an index or a safetensors file by its name.
  [[nodiscard]] bool holds_models() const;
};
// Returns whether the path leads to a folder.
[[nodiscard]] bool is_folder(const std::string& path);
// Lists a folder without its hidden names.
[[nodiscard]] FolderNames names_in(const std::string& folder);

[[nodiscard]] std::string path_in_folder(const std::string& folder, const std::string& name);

// Replaces each folder by the paths of the models and files in it, sorted. With `recursive`, every folder is replaced,
// at any depth. Otherwise, these are: a folder that is no model, with folders below it that are, such as a pipeline of
// diffusers (`unet/`, `vae/`); a folder with variants of one model; and a folder of the cache of huggingface_hub, by
// its snapshot. Symlinks to folders are not followed, and hidden names are skipped. A path that gives nothing stays as
// it is, so that the caller reports its error.
//
// check: every file is to be checked. A pattern that matches files in different folders is replaced by these files,
// because they are not one model. A model of numbered files without an index is one path, a pattern, even if some of
// its files are missing, so that the caller reports them. So are shards that are given by themselves, unless they were
// chosen from more.
[[nodiscard]] std::vector<std::string> expand_folders(const std::vector<std::string>& paths, bool recursive,
                                                      bool check = false);

// Writes a notice if folders below a model hold models, which expand_folders() leaves out.
void notice_below(const std::string& folder, Console& console);

// Returns the error of the library. If it is about the folder `argument`, the function adds to its message what the
// user can do.
[[nodiscard]] Error explain_folder(Error error, const std::string& argument);

// Writes a notice that names the model read from a folder, if other models lie beside it: indexes, and whole files.
// Variants of the model are not other models. Beside an index, a whole file counts only if programs know its name, and
// only if `indexed` is true. Ignores errors.
void notice_beside(const std::string& argument, Console& console, bool indexed = true);

}  // namespace safetensors::cli
