// The old files of a model in a folder: which of them its index names, which of them a killed writer left, and which of
// them a new model removes or replaces.
#pragma once

#include <safetensors/checkpoint.h>
#include <safetensors/checkpoint_layout.h>
#include <safetensors/error.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint/shard_index.h"

namespace safetensors::write {

// Returns the name of the index for a model: one of its stem in the folder, if the folder lacks that of the layout.
// listed: the names in the folder. Throws std::bad_alloc.
[[nodiscard]] std::string index_of(const std::vector<std::string>& listed, const CheckpointLayout& layout);

// The files that the indexes in a folder name.
struct NamedFiles {
  bool has_index = false;   // the folder has the index of the model
  bool certain = true;      // false: an index is invalid or cannot be read, so it may name any file
  bool unreadable = false;  // the index of the model is there, and cannot be read: other processes may be able to
  std::set<std::string> of_model;   // in the index of the model
  std::set<std::string> of_others;  // in all other indexes
  std::string whole;                // the file of the new model, if it were one
  std::set<std::string> stems;      // keys: of the new model, of its files, and of the shards in the index of the model

  // Returns whether a file is called as the files of the model are.
  [[nodiscard]] bool is_alike(std::string_view name) const;
  // Returns whether a new model replaces a file: it is called alike, or the index of the model names it. Files that
  // other indexes name stay, and so do files in folders below.
  [[nodiscard]] bool is_old(const std::string& name) const {
    return name.find_first_of("/\\") == name.npos && (is_alike(name) || of_model.contains(name)) &&
           !of_others.contains(name);
  }
};

// Reads the indexes in a folder. listed: the names in the folder. index: the name of the index of the model. layout: of
// the new model. Throws std::bad_alloc.
[[nodiscard]] NamedFiles read_named_files(const std::string& folder, const std::vector<std::string>& listed,
                                          std::string_view index, const CheckpointLayout& layout);

// Returns the names of the model's shards that a killed writer left. It was killed before it renamed its index over
// that of the model, or before it removed the shards of the older model. If an index names one shard of a set, no shard
// of the set is returned, because the index may be damaged and lack some of them. If the folder has neither an index of
// the model nor its whole file, returns nothing, because the shards may be the model. Sorted if `listed` is sorted.
// Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> find_leftovers(const NamedFiles& named, const std::vector<std::string>& listed);

// Removes from the names those of files in `folder` that this process has open: they may be the input of the caller.
// Returns no names if the system does not tell. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> without_open_files(const std::string& folder, std::vector<std::string> names);

// Refuses to write `layout` into `folder` if the folder holds a file of `input`, and the new model would remove or
// replace files with tensors that `input` does not have. Files that a killed writer left do not count. Errors:
// invalid_argument, which names the files, and those of list_directory(). Throws std::bad_alloc.
[[nodiscard]] Status check_old_files(const std::string& folder, const CheckpointLayout& layout,
                                     const Checkpoint& input);

}  // namespace safetensors::write
