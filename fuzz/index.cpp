// Any text as an index of shards: what is refused says why and where, what is accepted is consistent and safe to open.
#include <cstring>
#include <memory>
#include <string_view>

#include "base/utf8.h"
#include "format/shard_index.h"
#include "json/reader.h"
#include "require.h"

namespace {

using fuzz::require;
using safetensors::Errc;
using safetensors::format::ShardIndex;

void check(const ShardIndex& index, std::string_view text) {
  std::size_t grouped = 0;
  for (std::uint32_t shard = 0; shard < index.shards().size(); ++shard) {
    const std::string_view name = index.shards()[shard];
    require(safetensors::format::check_shard_name(name) == nullptr, "a name that may be opened");
    require(shard == 0 || index.shards()[shard - 1] < name, "shards ascend, each once");
    require(index.of_shard(shard).size() > 0, "a shard has a tensor");
    for (const std::uint32_t entry : index.of_shard(shard)) {
      require(index[entry].shard == shard, "an entry of this shard");
      require(index[entry].at < text.size() && text[index[entry].at] == '"', "where its name begins");
      require(index.find(index[entry].tensor) == entry, "found by its name");
      ++grouped;
    }
  }
  require(grouped == index.size(), "every entry is of one shard");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  auto copy = std::make_unique<char[]>(size + safetensors::json::Reader::kPadding);
  if (size != 0) std::memcpy(copy.get(), data, size);
  const auto index = ShardIndex::parse(std::move(copy), size);
  if (index) {
    require(safetensors::base::first_invalid_utf8(text) == text.npos, "UTF-8");
    check(**index, text);
  } else {
    const safetensors::Error& error = index.error();
    require(error.code == Errc::invalid_index && !error.message.empty(), "an error that says why");
    require(error.offset <= size, "a place in the text");
    require(safetensors::base::first_invalid_utf8(error.message) == text.npos, "a printable message");
  }
  return 0;
}
