// The components of a pipeline of diffusers that its model_index.json lists, but that have no weights here.
#pragma once

#include "folder_names.h"

#include <string>
#include <vector>

namespace safetensors::cli {

inline constexpr char kPipelineIndex[] = "model_index.json";

// A path of a pipeline without a model that can be checked.
struct Lack {
  enum class Kind : unsigned char {
    missing,  // weights
    invalid,  // model_index.json
    note,     // is no error
  };
  std::string path;
  Kind kind;
  std::string text;  // escaped for display
};

// Compares model_index.json in a folder with the folders beside it. names: those of the folder. Returns nothing for a
// folder without model_index.json.
//
// A component is `["diffusers", "CLASS"]` and such. Classes of schedulers, tokenizers and processors have no weights. A
// name that is no plain name of a folder is not followed.
[[nodiscard]] std::vector<Lack> pipeline_lacks(const std::string& folder, const FolderNames& names);

}  // namespace safetensors::cli
