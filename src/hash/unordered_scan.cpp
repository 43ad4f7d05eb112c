// Each thread takes the next extent, a few MiB, and gives its blocks to the consumer. If the page cache has the extent
// and the file cannot change meanwhile, the thread maps the extent: to copy its bytes would cost more than half the
// time of BLAKE3. Otherwise it reads one block after the other into a buffer, which stays in the cache of the
// processor. A thread reports progress only after the end of its map, because the function of the caller may take long.
#include "hash/unordered_scan.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "file/file.h"
#include "os/leased_map.h"
#include "os/regular_file.h"

namespace safetensors::hash {
namespace {

// So large that the system calls for a map cost little, and so small that nobody waits long for the end of its lease.
constexpr std::size_t kExtentBytes = std::size_t{8} << 20;

}  // namespace

// Gives one thread the bytes of the file.
class UnorderedScan::Reader {
 public:
  explicit Reader(const File& file) noexcept
      : file_(file), may_map_(file.access() == Access::map && posix() != nullptr) {}

  // Returns nothing if there is no safe map. Then this thread does not ask again.
  std::optional<os::LeasedMap> map(std::uint64_t offset, std::size_t size) noexcept {
    if (!may_map_) return std::nullopt;
    may_map_ = false;
    const Result<os::Lease> descriptor = posix()->lease();
    if (!descriptor) return std::nullopt;  // the read reports the same error
    std::optional<os::LeasedMap> made = os::LeasedMap::make(descriptor->get(), offset, size);
    may_map_ = made.has_value();
    return made;
  }

  // The bytes are valid until the next call. Throws std::bad_alloc.
  Result<std::span<const std::byte>> read(std::uint64_t offset, std::size_t size) {
    buffer_.resize(std::max(buffer_.size(), size));
    const std::span<std::byte> bytes = std::span(buffer_).first(size);
    if (Status status = os::read_exactly(file_.source(), offset, bytes); !status) return std::move(status).error();
    return std::span<const std::byte>(bytes);
  }

 private:
  [[nodiscard]] const os::RegularFile* posix() const noexcept {
    return detail::Access<File>::state(file_)->posix.get();
  }

  const File& file_;
  bool may_map_;
  std::vector<std::byte> buffer_;
};

Status UnorderedScan::run_all(unsigned threads) {
  const std::size_t share = static_cast<std::size_t>(
      std::min<std::uint64_t>(kExtentBytes, file_.header().file_bytes() / std::max(threads, 1U)));
  extent_bytes_ = std::max<std::size_t>(share / block_bytes_, 1) * block_bytes_;
  const auto most = static_cast<unsigned>(std::max<std::size_t>(kMaxBytes / block_bytes_, 1));
  threads = std::min(threads, most);
  return os::run_parallel(*this, threads, threads);
}

Status UnorderedScan::run(std::size_t) noexcept {
  return base::guarded([&]() -> Status {
    Reader reader(file_);
    const std::uint64_t size = file_.header().file_bytes();
    for (std::uint64_t offset = next_++ * extent_bytes_; offset < size; offset = next_++ * extent_bytes_) {
      const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(extent_bytes_, size - offset));
      if (Status status = take_extent(reader, offset, bytes); !status) {
        next_ = size / extent_bytes_ + 1;  // the other threads find nothing to do
        return status;
      }
    }
    return {};
  });
}

Status UnorderedScan::take_extent(Reader& reader, std::uint64_t offset, std::size_t size) {
  std::optional<os::LeasedMap> map = reader.map(offset, size);
  const std::size_t mapped = map ? size : 0;
  for (std::size_t at = 0; at < size; at += block_bytes_) {
    const std::size_t count = std::min(block_bytes_, size - at);
    Result<std::span<const std::byte>> block = map ? map->bytes().subspan(at, count) : reader.read(offset + at, count);
    if (!block) return std::move(block).error();
    if (Status status = consumer_(offset + at, *block); !status) return status;
    if (map) continue;
    if (Status status = meter_.add(count); !status) return status;
  }
  map.reset();
  return mapped == 0 ? Status() : meter_.add(mapped);
}

}  // namespace safetensors::hash
