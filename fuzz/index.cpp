// Parses any text as an index of shards. If the text is refused, the error must give a reason and an offset. An
// accepted index must be consistent, and its names must be safe to open. Parsing must stay below its limit of memory
// and take linear time. To test these limits on large indexes, the target also makes a weight_map from each short text:
// it repeats the text as an entry and replaces each # by a number.
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "format/checkpoint/shard_index.h"
#include "json/reader.h"
#include "require.h"
#include "support/allocation_counter.h"

namespace {

using fuzz::require;
using safetensors::Errc;
using safetensors::Result;
using safetensors::format::ShardIndex;

void check(const ShardIndex& index, std::string_view text) {
  std::size_t grouped = 0;
  for (std::uint32_t shard = 0; shard < index.shard_count(); ++shard) {
    const std::string_view name = index.shard(shard);
    require(safetensors::format::check_shard_name(name) == nullptr, "the name of each shard may be opened");
    require(shard == 0 || index.shard(shard - 1) < name, "shards are in ascending order, and each is there once");
    require(index.of_shard(shard).size() > 0, "each shard has at least one tensor");
    for (const std::uint32_t entry : index.of_shard(shard)) {
      require(index[entry].shard == shard, "each entry in the list of a shard belongs to this shard");
      require(index[entry].offset < text.size() && text[index[entry].offset] == '"',
              "the offset of an entry is that of the quote before its name");
      require(index.find(index[entry].tensor) == entry, "find() returns each entry by its name");
      ++grouped;
    }
  }
  require(grouped == index.size(), "each entry is in the list of exactly one shard");
}

Result<std::unique_ptr<const ShardIndex>> parse_bounded(std::string_view text) {
  const allocations::Peak peak;
  auto copy = std::make_unique<char[]>(text.size() + safetensors::json::Reader::kPadding);
  if (!text.empty()) std::memcpy(copy.get(), text.data(), text.size());
  auto index = ShardIndex::parse(std::move(copy), text.size());
  require(peak.bytes() <= 4 * text.size() + (64 << 10), "parsing uses at most 4 x text + 64 KiB of memory");
  // Even with a good hash, some keys collide: NameIndex::build() reads about two slots per name. The limit allows for
  // chance: 8 slots per name, and 64 more, because chance has the largest effect on an index of few names.
  require(!index || (*index)->probes() <= 8 * (*index)->size() + 64, "the index of names takes constant time per name");
  return index;
}

std::string repeated(std::string_view entry) {
  constexpr std::size_t kSize = 512 << 10;
  std::string text = R"({"weight_map":{)";
  for (std::size_t i = 0; text.size() < kSize; ++i) {
    if (i > 0) text += ',';
    for (const char c : entry) c == '#' ? text += std::to_string(i) : text += c;
  }
  return text + "}}";
}

void check_any(std::string_view text) {
  const auto index = parse_bounded(text);
  if (index) {
    require(safetensors::base::first_invalid_utf8(text) == text.npos, "the text of an accepted index is UTF-8");
    return check(**index, text);
  }
  const safetensors::Error& error = index.error();
  require(error.code == Errc::invalid_index && !error.message.empty(),
          "the error has the code invalid_index and a message");
  require(error.offset <= text.size(), "the offset of the error is in the text");
  require(safetensors::base::first_invalid_utf8(error.message) == text.npos, "the message of the error is UTF-8");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_any(text);
  if (size < 256) check_any(repeated(text));
  return 0;
}
