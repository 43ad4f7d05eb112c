// The names of a model's files: the whole file, the shards, and the index. No other file knows how they are made.
#pragma once

#include <safetensors/error.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace safetensors::format {

inline constexpr std::string_view kShardExtension = ".safetensors";

// Checks the beginning of the names of a model's files. Errors: invalid_argument, invalid_utf8.
[[nodiscard]] Status check_stem(std::string_view stem);

// What the names of a model's files begin with.
struct ModelName {
  std::string_view prefix;   // "model"
  std::string_view variant;  // empty, or "fp16"

  // "model", or "model.fp16"
  [[nodiscard]] std::string stem() const;
};
// An index is called `PREFIX.safetensors.index.json`. With a variant it is `PREFIX.safetensors.index.VARIANT.json`, or
// `PREFIX.safetensors.VARIANT.index.json` in old repositories of diffusers. Returns nullopt for any other name.
[[nodiscard]] std::optional<ModelName> parse_index_name(std::string_view name) noexcept;
[[nodiscard]] inline bool is_index_name(std::string_view name) noexcept {
  return parse_index_name(name).has_value();
}

// The parts of the name of a shard. At least five digits are a number. With a variant and in a generation:
// - `model-00001-of-00003.safetensors`, `model-gen00002-00001-of-00003.safetensors`;
// - `model.fp16-00001-of-00003.safetensors`, with the prefix `model.fp16`, and `model-00001-of-00003.fp16.safetensors`;
// - `model.safetensors-00001-of-00003.safetensors`, with the prefix `model`, as Qwen3.5 has it.
// The variant of the second form is in the prefix.
struct ShardName : ModelName {
  std::string_view before;      // all of the name before the generation and the number: "model.safetensors"
  std::string_view generation;  // empty, or "00002"
  std::string_view number;      // "00001"
  std::string_view count;       // "00003", or "000163" also beside a shorter number
};
// Returns nullopt for a name without a number.
[[nodiscard]] std::optional<ShardName> parse_shard_name(std::string_view name) noexcept;

// Returns what the names of a model's files have in common: "model" of `model.safetensors` and of its shards in any
// generation. ModelName::stem() is equal to it. Returns an empty text for a name without `.safetensors`.
[[nodiscard]] std::string stem_of(std::string_view name);

// Returns the name without its generation: `model-00001-of-00003.safetensors`.
[[nodiscard]] std::string without_generation(std::string_view name);
// Returns the generation of a file: 1 if its name has none, and 0 if the number is larger than a writer would choose.
[[nodiscard]] std::size_t generation_of(std::string_view name) noexcept;
// Returns the name of a shard in a generation of its model. Generation 1 is the name itself. name: must be a shard's.
[[nodiscard]] std::string in_generation(std::string_view name, std::size_t generation);

// Makes the names of a model.
struct ModelNames {
  std::string index;              // "model.safetensors.index.json"
  std::string whole;              // "model.safetensors": the only file of a model
  std::string before;             // of a shard's name: "model"
  std::string after;              // ".safetensors", or ".fp16.safetensors"
  std::size_t number_digits = 5;  // at least so many
  std::size_t count_digits = 5;   // at least so many
  std::size_t first = 1;          // the number of the first shard: 0 or 1
  bool counts_from_zero = false;  // the count is the last number, as in `model-00000-of-00002` of three shards

  // `STEM.safetensors`, `STEM-00001-of-00002.safetensors`, `STEM.safetensors.index.json`.
  [[nodiscard]] static ModelNames of_stem(std::string_view stem);
  // The names that an index and the shards in it have. If the shards are no set, only the name of the index is kept.
  // index: must be the name of an index.
  [[nodiscard]] static ModelNames of_index(std::string_view index, std::span<const std::string> shards);

  // The name of one of `files` files. position: from 0. numbered(): also the only file of a model gets a number. In a
  // generation it needs one: other programs call whole models `model-gen00002.safetensors`.
  [[nodiscard]] std::string file(std::size_t position, std::size_t files) const {
    return files == 1 ? whole : numbered(position, files);
  }
  [[nodiscard]] std::string numbered(std::size_t position, std::size_t files) const;
};

// Returns the name of the index of a model that has a file: `model.safetensors.index.fp16.json` for the variant `fp16`.
[[nodiscard]] std::string index_for(std::string_view file);

// Shards that belong together: their names differ only in the number.
struct ShardSet {
  std::string stem;                // "model"
  std::size_t count = 0;           // of all shards of the set
  std::size_t first = 1;           // the number of the first shard: 0 or 1
  std::vector<std::string> names;  // in the order of the numbers

  // "model-*-of-00003.safetensors", for messages.
  [[nodiscard]] std::string pattern() const { return with_number("*"); }
  // Returns the name of the shard with a number.
  [[nodiscard]] std::string name(std::size_t number) const;
  [[nodiscard]] bool complete() const noexcept { return names.size() == count; }
  // Returns the names of the shards that `names` lacks, in order.
  [[nodiscard]] std::vector<std::string> missing() const;
  // Returns "5 of the 6 files `model-*-of-00006.safetensors`: `model-00003-of-00006.safetensors` is missing".
  [[nodiscard]] std::string missing_text() const;

 private:
  [[nodiscard]] std::string with_number(std::string_view number) const;
};
// Sorts names into sets, in the order of the first name of each set. Leaves out names without a number, numbers above
// the count, and counts above 99,999. A set is numbered from 0 if it has the number 0, otherwise from 1. From 0, it
// either ends before the count, or with it, as that of gpt-oss does. The names must have no folders.
[[nodiscard]] std::vector<ShardSet> shard_sets(std::span<const std::string> names);
// Returns the set that all names belong to, or nullopt. A name that is given twice belongs to no set.
[[nodiscard]] std::optional<ShardSet> shard_set(std::span<const std::string> names);

// A model in a folder.
struct ModelFiles {
  std::string stem;        // "model", or "model.fp16"
  std::string index = {};  // empty: none
  std::string whole = {};  // `model.safetensors`, or empty. Beside an index that does not name it, it counts
  ShardSet shards = {};    // without an index and a whole file; empty: none
};
// Returns the models that a folder may stand for: one, or several that are equal. This is the rule for all readers:
// - Beside an index, a file counts only if it is the whole file of this model, of a model of which this is a variant,
// or of a model that wins.
// - A variant, such as `model.fp16`, does not count beside its plain model.
// - Shards do not count beside an index. An older save left those beside the whole file of the same stem.
// - `model`, or else `diffusion_pytorch_model`, wins over all others, such as `consolidated` and `adapter_model`.
// names: of the files in the folder.
[[nodiscard]] std::vector<ModelFiles> models_of(std::span<const std::string> names);

}  // namespace safetensors::format
