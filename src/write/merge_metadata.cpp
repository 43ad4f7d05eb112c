// Merges the metadata of several files: a union, with a choice for keys that have several values.
#include <safetensors/edit.h>

#include <map>
#include <string_view>

#include "base/error.h"

namespace safetensors {
inline namespace v0 {
namespace {

// "`value`", with at most 60 bytes of the value.
std::string quoted(std::string_view value) {
  constexpr std::size_t kShown = 60;
  if (value.size() <= kShown) return "`" + printable(value) + "`";
  return "`" + printable(value.substr(0, kShown)) + "...`";
}

// The value of a key, and the first file that has it.
struct Value {
  std::string_view text;
  const File* file;
};

Error conflict_error(std::string_view key, const Value& first, const Value& second) {
  return base::make_error(Errc::invalid_argument, "metadata key " + quoted(key) + " is " + quoted(first.text) +
                                                      " in `" + printable(first.file->path()) + "` and " +
                                                      quoted(second.text) + " in `" + printable(second.file->path()) +
                                                      "`");
}

Result<std::optional<MetadataPairs>> merge(std::span<const File> files, MetadataConflict conflict) {
  std::map<std::string_view, Value> merged;
  bool present = false;
  for (const File& file : files) {
    present = present || file.metadata().present();
    for (const auto& [key, text] : file.metadata()) {
      const Value value{text, &file};
      const auto [place, added] = merged.emplace(key, value);
      if (added || place->second.text == text) continue;
      if (conflict == MetadataConflict::refuse) return conflict_error(key, place->second, value);
      if (conflict == MetadataConflict::last) place->second = value;
    }
  }
  if (!present) return std::optional<MetadataPairs>();
  MetadataPairs pairs;
  for (const auto& [key, value] : merged) pairs.emplace_back(key, value.text);
  return std::optional(std::move(pairs));
}

}  // namespace

Result<std::optional<MetadataPairs>> merge_metadata(std::span<const File> files, MetadataConflict conflict) noexcept {
  return base::guarded([&] { return merge(files, conflict); });
}

}  // namespace v0
}  // namespace safetensors
