// Any text as an index of shards. The error of a refused text says why and where. An accepted index is consistent and
// safe to open. Its memory is bounded. To test this bound on large indexes, a short text is also used as an entry of a
// weight_map: it is repeated, with each # replaced by a number.
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "format/shard_index.h"
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
    require(safetensors::format::check_shard_name(name) == nullptr, "a name that may be opened");
    require(shard == 0 || safetensors::format::shard_less(index.shard(shard - 1), name), "shards ascend, each once");
    require(index.of_shard(shard).size() > 0, "a shard has a tensor");
    for (const std::uint32_t entry : index.of_shard(shard)) {
      require(index[entry].shard == shard, "an entry of this shard");
      require(index[entry].offset < text.size() && text[index[entry].offset] == '"', "where its name begins");
      require(index.find(index[entry].tensor) == entry, "found by its name");
      ++grouped;
    }
  }
  require(grouped == index.size(), "every entry is of one shard");
}

Result<std::unique_ptr<const ShardIndex>> parse_bounded(std::string_view text) {
  const allocations::Peak peak;
  auto copy = std::make_unique<char[]>(text.size() + safetensors::json::Reader::kPadding);
  if (!text.empty()) std::memcpy(copy.get(), text.data(), text.size());
  auto index = ShardIndex::parse(std::move(copy), text.size());
  require(peak.bytes() <= 4 * text.size() + (64 << 10), "memory is at most 4 x text + 64 KiB");
  // Keys collide now and then, even with a good hash: a lookup reads about two slots per name. It never reads eight per
  // name, unless there are very few names.
  require(!index || (*index)->probes() <= 8 * (*index)->size() + 64, "lookups take constant time each");
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
    require(safetensors::base::first_invalid_utf8(text) == text.npos, "UTF-8");
    return check(**index, text);
  }
  const safetensors::Error& error = index.error();
  require(error.code == Errc::invalid_index && !error.message.empty(), "an error that says why");
  require(error.offset <= text.size(), "a place in the text");
  require(safetensors::base::first_invalid_utf8(error.message) == text.npos, "a printable message");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_any(text);
  if (size < 256) check_any(repeated(text));
  return 0;
}
