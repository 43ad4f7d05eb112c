// The numbered files of a model, by their names.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace safetensors::format {

struct ShardSet {
  std::size_t count = 0;             // of the whole model
  std::vector<std::string> missing;  // the names that the list lacks, in order
};

// Returns the model that all names belong to: `STEM-00001-of-00006.safetensors`, with the same stem, generation and
// count, and as many digits per number. The names have no folders. Returns nullopt for other names, for numbers from 0
// on, for a number that is twice there or larger than the count, and for a count above 99,999.
[[nodiscard]] std::optional<ShardSet> shard_set(std::span<const std::string> names);

}  // namespace safetensors::format
