// Merges the metadata of several files: a union, with a choice for keys that have several values.
#include "write/rewrite.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "format/header/merged_metadata.h"

namespace safetensors {
inline namespace v0 {
namespace {

using Pair = format::MergedMetadata::Pair;

constexpr std::size_t kShown = 60;  // bytes of a key or a value

Error conflict_error(std::span<const File> files, const Pair& first, const Pair& second) {
  return base::make_error(Errc::invalid_argument, "metadata key " + base::shown_name(first.key, kShown) + " is " +
                                                      base::shown_name(first.value, kShown) + " in `" +
                                                      printable(files[first.header].path()) + "` and " +
                                                      base::shown_name(second.value, kShown) + " in `" +
                                                      printable(files[second.header].path()) + "`");
}

Result<std::optional<MetadataPairs>> merge(std::span<const File> files, MetadataConflict conflict) {
  std::vector<Metadata> headers;
  bool present = false;
  for (const File& file : files) {
    headers.push_back(file.metadata());
    present = present || file.metadata().present();
  }
  if (!present) return std::optional<MetadataPairs>();
  const format::MergedMetadata merged(std::move(headers));
  std::size_t keys = 0;
  // The two values of a conflict. If several keys conflict, the conflict in the earliest file is reported.
  std::optional<std::pair<Pair, Pair>> found;
  for (std::size_t i = 0; i < merged.size(); i = merged.next_key(i), ++keys) {
    for (std::size_t other = i + 1; other < merged.next_key(i); ++other) {
      const bool earlier = !found || merged[other].header < found->second.header;
      if (earlier && merged[other].value != merged[i].value) found = {merged[i], merged[other]};
    }
  }
  if (found && conflict == MetadataConflict::refuse) return conflict_error(files, found->first, found->second);
  MetadataPairs pairs;
  pairs.reserve(keys);
  for (std::size_t i = 0; i < merged.size();) {
    const std::size_t next = merged.next_key(i);
    const Pair chosen = merged[conflict == MetadataConflict::last ? next - 1 : i];
    pairs.emplace_back(chosen.key, chosen.value);
    i = next;
  }
  return std::optional(std::move(pairs));
}

}  // namespace

Result<std::optional<MetadataPairs>> merge_metadata(Span<const File> files, MetadataConflict conflict) noexcept {
  return base::guarded([&] { return merge(files, conflict); });
}

}  // namespace v0
}  // namespace safetensors
