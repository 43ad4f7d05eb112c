// A file of any bytes. If it opens, every way to read it gives the bytes of the file, and it can be written again.
#include <safetensors/safetensors.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "require.h"

namespace {

using fuzz::require;
using namespace safetensors;

using Bytes = std::span<const std::byte>;

bool equal(Bytes a, Bytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// A Source that gives its bytes only through read_at().
class Reading final : public Source {
 public:
  explicit Reading(Bytes bytes) : bytes_(bytes) {}
  Result<std::uint64_t> size() const noexcept override { return bytes_.size(); }
  // Gives at most seven bytes per call, because a Source may give fewer bytes than requested.
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count =
        std::min({destination.size(), bytes_.size() - static_cast<std::size_t>(offset), std::size_t{7}});
    std::memcpy(destination.data(), bytes_.data() + offset, count);
    return count;
  }

 private:
  Bytes bytes_;
};

void check_parts(const Tensor& tensor, Bytes expected) {
  if (tensor.shape().empty()) return;
  // Both halves along the first dimension, one after the other, are equal to the whole tensor.
  std::vector<std::byte> joined;
  for (std::uint64_t rank = 0; rank < 2; ++rank) {
    const auto half = tensor.read(Slice::shard(0, rank, 2));
    if (!half) return require(half.error().code == Errc::slice_bits, "a part can be read");
    joined.insert(joined.end(), half->bytes().begin(), half->bytes().end());
  }
  require(equal(joined, expected), "two halves are the whole");
}

void check_tensor(const Tensor& tensor, Bytes file) {
  const Bytes expected = file.subspan(tensor.info().file_offset, tensor.nbytes());
  const auto viewed = tensor.view();
  require(viewed.ok() && equal(viewed->bytes(), expected), "view gives the bytes of the file");
  const auto read = tensor.read();
  require(read.ok() && equal(read->bytes(), expected), "read gives the bytes of the file");
  std::vector<std::byte> own(expected.size());
  require(tensor.read_into(own).ok() && equal(own, expected), "read_into gives the bytes of the file");
  own.push_back(std::byte{});
  require(tensor.read_into(own).error().code == Errc::buffer_size, "only into memory of its size");
  check_parts(tensor, expected);
}

void check_written(const File& file) {
  std::vector<Array> arrays;
  std::vector<TensorData> tensors;
  for (const TensorInfo& info : file.header().tensors())
    arrays.push_back(file.tensor(info.name).value().view().value());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const TensorInfo& info = file.header().tensors()[i];
    tensors.push_back({info.name, info.dtype, info.shape, arrays[i].bytes()});
  }
  std::optional<MetadataPairs> metadata;
  if (file.header().metadata().present()) metadata.emplace();
  for (const auto& [key, value] : file.header().metadata()) metadata->emplace_back(key, value);

  const auto written = serialize(tensors, metadata);
  require(written.ok(), "what was read can be written");
  const auto again = File::from_memory(written->bytes(), nullptr);
  require(again.ok() && again->header().size() == file.header().size(), "what we write we accept");
  require(again->header().data_start() % 8 == 0, "the data is aligned");
  for (const TensorData& tensor : tensors) {
    const auto found = again->tensor(tensor.name);
    require(found.ok() && found->dtype() == tensor.dtype, "the same tensor");
    const ShapeView shape = found->shape();
    require(std::equal(shape.begin(), shape.end(), tensor.shape.begin(), tensor.shape.end()), "the same shape");
    const Array array = found->view().value();
    require(equal(array.bytes(), tensor.bytes), "the same bytes");
  }
  require(again->header().metadata().present() == metadata.has_value(), "the same metadata");
  require(again->header().text().value() == std::string_view(reinterpret_cast<const char*>(written->bytes().data()) + 8,
                                                             again->header().header_bytes()),
          "the text of what we wrote");
}

}  // namespace

int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const Bytes bytes = std::as_bytes(std::span(data, size));
  const auto file = File::from_memory(bytes, nullptr);
  const auto source = std::make_shared<Reading>(bytes);
  const auto slow = File::from_source(source);
  require(file.ok() == slow.ok(), "the same verdict from memory and from a Source");
  if (!file) {
    require(file.error().code == slow.error().code && file.error().message == slow.error().message, "the same error");
    require(file.error().offset <= size, "the place is in the file");
    return 0;
  }
  require(slow->access() == Access::read, "a Source is read");
  require(file->header().file_bytes() == size, "the header covers the file");
  for (const TensorInfo& info : file->header().tensors()) {
    check_tensor(file->tensor(info.name).value(), bytes);
    check_tensor(slow->tensor(info.name).value(), bytes);
  }
  check_written(*file);
  return 0;
}
