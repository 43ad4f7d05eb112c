// The files of an older model in a folder: which of them a new model removes or replaces.
#pragma once

#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>

#include <string>

namespace safetensors::write {

// Refuses to write `layout` into `folder` if the folder holds a file of `input`, and the new model would remove or
// replace files with tensors that `input` does not have. Files that a killed writer left do not count. Errors:
// invalid_argument, which names the files, and those of list_directory(). Throws std::bad_alloc.
[[nodiscard]] Status check_old_files(const std::string& folder, const CheckpointLayout& layout,
                                     const Checkpoint& input);

}  // namespace safetensors::write
