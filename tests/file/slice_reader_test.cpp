// How the pieces of a slice are read: one by one, or together with the gaps between them. A fake tensor counts the
// reads, and a gather from memory gives the expected bytes.
#include "file/slice_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace safetensors::file {
namespace {

// A tensor whose bytes differ from place to place. It counts the reads.
class FakeTensor {
 public:
  explicit FakeTensor(std::size_t size) : bytes_(size) {
    for (std::size_t i = 0; i < size; ++i) bytes_[i] = static_cast<std::byte>(i * 31 + i / 251);
  }
  Status operator()(std::uint64_t offset, std::span<std::byte> destination) {
    ++reads;
    EXPECT_LE(offset, bytes_.size());
    EXPECT_LE(destination.size(), bytes_.size() - offset);
    std::memcpy(destination.data(), bytes_.data() + offset, destination.size());
    return {};
  }
  [[nodiscard]] const std::byte* data() const { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  int reads = 0;

 private:
  std::vector<std::byte> bytes_;
};

// Reads all pieces and compares them with a gather from memory.
void expect_equal(FakeTensor& tensor, const ResolvedSlice& slice, std::uint64_t max_gap) {
  const PieceRange all{0, format::piece_count(slice)};
  std::vector<std::byte> expected(slice.nbytes());
  gather_slice(slice, all, tensor.data(), expected.data());
  std::vector<std::byte> found(slice.nbytes());
  io::BounceBuffer bounce;
  ASSERT_TRUE(read_slice(slice, all, std::ref(tensor), bounce, found.data(), max_gap).ok());
  EXPECT_EQ(found, expected);
}

// Gathers from a copy that holds the extent only, so the address sanitizer notices every byte outside.
void expect_gathered_within_extent(const FakeTensor& tensor, const ResolvedSlice& slice, PieceRange pieces) {
  const std::uint64_t piece = slice.nbytes() / format::piece_count(slice);
  std::vector<std::byte> expected(pieces.count * piece);
  gather_slice(slice, pieces, tensor.data(), expected.data());
  const PieceExtent extent = extent_of(slice, pieces);
  ASSERT_LE(extent.offset, tensor.size());
  ASSERT_LE(extent.size, tensor.size() - extent.offset);
  const std::vector<std::byte> part(tensor.data() + extent.offset, tensor.data() + extent.offset + extent.size);
  std::vector<std::byte> found(expected.size());
  gather_slice(slice, pieces, part.data(), found.data(), extent.offset);
  EXPECT_EQ(found, expected);
}

TEST(SliceReader, ReadsGapsUpToLimit) {
  const struct {
    Shape shape;
    const char* slice;
    int reads;
  } cases[] = {
      {{512, 8192}, ":,1024:2048", 4},   // 4 MiB through a buffer of 1 MiB
      {{64, 32768}, ":,1024:2048", 64},  // wider gaps
      {{16, 131072}, ":,:126976", 16},   // large pieces
  };
  for (const auto& each : cases) {
    FakeTensor tensor(static_cast<std::size_t>(each.shape.numel()));
    expect_equal(tensor, Slice(each.slice).resolve(Dtype::U8, each.shape).value(), 8192);
    EXPECT_EQ(tensor.reads, each.reads) << to_string(each.shape);
  }
}

TEST(SliceReader, ReadsWhatGatherGathers) {
  std::mt19937 random(7);
  const auto below = [&](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::uint64_t> dims{1 + below(40), 1 + below(40), 1 + below(3000)};
    const std::uint64_t size = dims[0] * dims[1] * dims[2];
    FakeTensor tensor(size);
    std::vector<DimSlice> parts;
    for (const std::uint64_t dim : dims) {
      const auto begin = static_cast<std::int64_t>(below(dim));
      const auto step = static_cast<std::int64_t>(1 + below(4));
      if (below(3) == 0)
        parts.push_back(DimSlice::range(std::nullopt, std::nullopt, -step));
      else
        parts.push_back(DimSlice::range(begin, begin + static_cast<std::int64_t>(1 + below(dim)), step));
    }
    const Result<ResolvedSlice> slice = Slice(parts).resolve(Dtype::U8, ShapeView(dims));
    ASSERT_TRUE(slice.ok());
    if (slice->nbytes() != 0) {
      const std::uint64_t count = format::piece_count(*slice);
      const std::uint64_t first = below(count);
      expect_gathered_within_extent(tensor, *slice, {first, 1 + below(count - first)});
    }
    for (const std::uint64_t max : {0U, 100U, 4096U, 65536U}) expect_equal(tensor, *slice, max);
  }
}

}  // namespace
}  // namespace safetensors::file
