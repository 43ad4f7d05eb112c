// The files of a model in a folder: which of them its index names, and which of them a killed writer left.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/checkpoint/shard_index.h"

namespace safetensors::write {

struct ShardLess {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const noexcept { return format::shard_less(a, b); }
};

// The contents of the indexes in a folder.
struct NamedFiles {
  bool has_index = false;                  // the folder has an index of this stem
  bool certain = true;                     // false: an index is invalid or cannot be read, so it may name any file
  std::set<std::string, ShardLess> names;  // of the files, from all indexes
};

// Reads the indexes in a folder. listed: the names in the folder. Throws std::bad_alloc.
[[nodiscard]] NamedFiles read_named_files(const std::string& folder, const std::vector<std::string>& listed,
                                          std::string_view stem);

// Returns the names of the stem's shards that a killed writer left. It was killed before it renamed its index over that
// of the model, or before it removed the shards of the older model. If an index names one shard of a set, no shard of
// the set is returned, because the index may be damaged and lack some of them. If the folder has neither an index of
// the stem nor `STEM.safetensors`, returns nothing, because the shards may be the model. Sorted if `listed` is sorted.
// Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> find_leftovers(const NamedFiles& named, const std::vector<std::string>& listed,
                                                      std::string_view stem);

// Removes from the names those of files in `folder` that this process has open: they may be the input of the caller.
// Returns no names if the system does not tell. Throws std::bad_alloc.
[[nodiscard]] std::vector<std::string> without_open_files(const std::string& folder, std::vector<std::string> names);

}  // namespace safetensors::write
