#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/read_packed.h>

#include <array>
#include <cstring>
#include <limits>

#include "os/memory.h"
#include "support/file_support.h"
#include "support/plan_support.h"
#include "support/plan_tuning.h"

namespace safetensors {
namespace {

using test::data_of;
using test::error_of;
using test::file_bytes;
using test::file_of;
using test::pattern;
using test::PlannedTensor;
using test::PlanRandom;
using test::put;
using test::random_file;
using test::ScriptedSource;
using test::succeeds;
using test::TemporaryDirectory;
using test::tensor;
using test::tensors_of;
using test::two_tensors;

constexpr std::byte kUntouched{0xA5};

File open_bytes(std::string bytes) {
  Result<File> file = File::from_source(std::make_shared<ScriptedSource>(std::move(bytes)));
  EXPECT_TRUE(succeeds(file));
  return *std::move(file);
}

PackedLayout layout_of(const File& file, const PackedOptions& options = {}) {
  Result<PackedLayout> layout = PackedLayout::make(file.tensors(), options);
  EXPECT_TRUE(succeeds(layout));
  return *std::move(layout);
}

std::string names_of(const PackedTable& table) {
  std::string names;
  for (const PackedTensor& row : table.tensors()) names += row.name + " ";
  return names;
}

// Memory of the caller whose bytes are all kUntouched, at a multiple of 4096 plus `shift`.
class Memory {
 public:
  explicit Memory(std::size_t size, std::size_t shift = 0) : bytes_(size + shift + 4096, kUntouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    span_ = std::span(bytes_).subspan((4096 - address % 4096) % 4096 + shift, size);
  }
  [[nodiscard]] std::span<std::byte> span() const { return span_; }

 private:
  std::vector<std::byte> bytes_;
  std::span<std::byte> span_;
};

// Compares a buffer with the tensors that it was made from: each range, and the zeros between the ranges.
void expect_bytes(const Packed& packed, const std::vector<PlannedTensor>& tensors, std::uint64_t alignment) {
  const std::span<const std::byte> bytes = packed.memory.bytes();
  ASSERT_EQ(bytes.size(), packed.table.nbytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment, 0U);
  ASSERT_EQ(packed.table.tensors().size(), tensors.size());
  std::vector<bool> covered(bytes.size());
  for (const PlannedTensor& tensor : tensors) {
    const PackedTensor* const row = packed.table.find(tensor.name);
    ASSERT_NE(row, nullptr) << tensor.name;
    EXPECT_EQ(row->dtype, tensor.dtype);
    EXPECT_TRUE(std::ranges::equal(row->shape, tensor.shape));
    EXPECT_EQ(row->offset % alignment, 0U);
    ASSERT_EQ(row->nbytes, tensor.bytes.size());
    ASSERT_LE(row->offset, bytes.size());
    ASSERT_LE(row->nbytes, bytes.size() - row->offset);
    const auto offset = static_cast<std::size_t>(row->offset);
    EXPECT_EQ(std::memcmp(bytes.data() + offset, tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
    for (std::size_t i = offset; i < offset + tensor.bytes.size(); ++i) {
      ASSERT_FALSE(covered[i]) << "two tensors share byte " << i;
      covered[i] = true;
    }
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (covered[i]) continue;
    ASSERT_EQ(bytes[i], std::byte{0}) << "gap at " << i;
  }
}

TEST(PackedLayout, PlacesTensorsAtMultiplesOfAlignment) {
  const File file = open_bytes(two_tensors());
  const PackedLayout layout = layout_of(file, {.alignment = 16});
  const std::span<const PackedTensor> rows = layout.table().tensors();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "a");
  EXPECT_EQ(rows[0].dtype, Dtype::F32);
  EXPECT_EQ(to_string(rows[0].shape), "[2, 3]");
  EXPECT_EQ(rows[0].offset, 0U);
  EXPECT_EQ(rows[0].nbytes, 24U);
  EXPECT_EQ(rows[1].offset, 32U);
  EXPECT_EQ(rows[1].nbytes, 4U);
  EXPECT_EQ(layout.nbytes(), 36U);
  EXPECT_EQ(layout.table().alignment(), 16U);
  EXPECT_EQ(layout.table().find("b"), &rows[1]);
  EXPECT_EQ(layout.table().find("c"), nullptr);
  EXPECT_EQ(layout.table().find(""), nullptr);
}

TEST(PackedLayout, ReadsNothing) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const File file = File::from_source(source).value();
  (void)source->reads();
  const PackedLayout layout = layout_of(file);
  EXPECT_TRUE(source->reads().empty());
}

TEST(PackedLayout, OrdersTensors) {
  std::vector<PlannedTensor> tensors = tensors_of({8, 4, 2});
  tensors[0].name = "c";
  tensors[1].name = "a";
  tensors[2].name = "b";
  const File file = open_bytes(file_of(tensors, 0));
  const std::vector<Tensor> list = {tensor(file, "b"), tensor(file, "c"), tensor(file, "a")};
  const auto names = [&](PackedOrder order) {
    const Result<PackedLayout> layout = PackedLayout::make(std::span<const Tensor>(list), {.order = order});
    return succeeds(layout) ? names_of(layout->table()) : "";
  };
  EXPECT_EQ(names(PackedOrder::file), "c a b ");
  EXPECT_EQ(names(PackedOrder::given), "b c a ");
  EXPECT_EQ(names(PackedOrder::name), "a b c ");
}

TEST(PackedLayout, OrdersFilesAsListNamesThem) {
  std::vector<PlannedTensor> tensors = tensors_of({8, 4});
  const File one = open_bytes(file_of(tensors, 0));
  tensors[0].name = "u0";
  tensors[1].name = "u1";
  const File two = open_bytes(file_of(tensors, 0));
  const std::vector<Tensor> list = {tensor(two, "u1"), tensor(one, "t1"), tensor(two, "u0"), tensor(one, "t0")};
  const Result<PackedLayout> layout = PackedLayout::make(std::span<const Tensor>(list));
  ASSERT_TRUE(succeeds(layout));
  EXPECT_EQ(names_of(layout->table()), "u0 u1 t0 t1 ");
}

TEST(PackedLayout, RefusesAlignment) {
  const File file = open_bytes(two_tensors());
  for (const std::uint64_t alignment : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{8192}, ~std::uint64_t{0}}) {
    const Error error = error_of(PackedLayout::make(file.tensors(), {.alignment = alignment}));
    EXPECT_EQ(error.code, Errc::invalid_argument);
    EXPECT_EQ(error.message,
              "invalid alignment " + std::to_string(alignment) + ", expected a power of two from 1 to 4096");
  }
}

TEST(PackedLayout, RefusesRepeatedName) {
  const File one = open_bytes(two_tensors());
  const File two = open_bytes(two_tensors());
  const std::vector<Tensor> list = {tensor(one, "a"), tensor(one, "b"), tensor(two, "b")};
  const Error error = error_of(PackedLayout::make(std::span<const Tensor>(list)));
  EXPECT_EQ(error.code, Errc::duplicate_name);
  EXPECT_EQ(error.message, "tensor `b` occurs twice in the list, expected each name once");
}

// A file of one tensor of 2^61-1 bytes, the largest possible one: the header, then zeros.
class ZeroSource final : public Source {
 public:
  explicit ZeroSource(const std::string& name) {
    constexpr std::uint64_t kBytes = (std::uint64_t{1} << 61) - 1;
    head_ = file_bytes("{\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(kBytes) +
                           R"(],"data_offsets":[0,)" + std::to_string(kBytes) + "]}}",
                       "");
    size_ = head_.size() + kBytes;
  }
  Result<std::uint64_t> size() const noexcept override { return size_; }
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> to) const noexcept override {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = offset + i < head_.size() ? static_cast<std::byte>(head_[static_cast<std::size_t>(offset + i)])
                                        : std::byte{0};
    return to.size();
  }

 private:
  std::string head_;
  std::uint64_t size_ = 0;
};

TEST(PackedLayout, RefusesBufferOf2To64Bytes) {
  std::vector<Tensor> list;
  for (const char* const name : {"0", "1", "2", "3", "4", "5", "6", "7", "8"}) {
    Result<File> file = File::from_source(std::make_shared<ZeroSource>(name));
    ASSERT_TRUE(succeeds(file));
    list.push_back(tensor(*file, name));
  }
  const std::span<const Tensor> all(list);
  const Result<PackedLayout> largest = PackedLayout::make(all.first(8));
  ASSERT_TRUE(succeeds(largest));
  EXPECT_EQ(largest->nbytes(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(error_of(read_packed(*largest)).code, Errc::out_of_memory);
  const Error error = error_of(PackedLayout::make(all));
  EXPECT_EQ(error.code, Errc::size_overflow);
  EXPECT_EQ(error.message, "tensor `8`: the buffer would be larger than 2^64-1 bytes");
}

TEST(ReadPacked, ReadsNothingWithoutTensors) {
  const Result<Packed> packed = read_packed(std::span<const Tensor>());
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(packed->memory.nbytes(), 0U);
  EXPECT_EQ(to_string(packed->memory.shape()), "[0]");
  EXPECT_TRUE(packed->table.tensors().empty());
}

// Random files with all dtypes, empty tensors and neighbours of all sizes.
TEST(ReadPacked, GivesBytesOfFile) {
  constexpr std::uint64_t kChunk = 65536;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(seed);
    PlanRandom random(seed);
    const test::PlannedFile planned = random_file(random, kChunk, 300000);
    const File file = open_bytes(planned.bytes);
    for (std::uint64_t alignment = 1; alignment <= 4096; alignment *= random.one_in(4) ? 2 : 16) {
      const PackedOptions options{
          .alignment = alignment,
          .order = random.of<PackedOrder>({PackedOrder::file, PackedOrder::given, PackedOrder::name})};
      const ReadOptions read{.threads = static_cast<unsigned>(random.up_to(3))};
      const ChunkBytes chunks(kChunk);
      const PackedLayout layout = layout_of(file, options);
      Result<Packed> ours = read_packed(layout, {}, read);
      ASSERT_TRUE(succeeds(ours));
      EXPECT_EQ(ours->memory.memory(), MemoryKind::owned);
      expect_bytes(*ours, planned.tensors, alignment);
      if (layout.nbytes() == 0) continue;
      const Memory memory(static_cast<std::size_t>(layout.nbytes()) + 3);
      Result<Packed> theirs = read_packed(layout, memory.span(), read);
      ASSERT_TRUE(succeeds(theirs));
      EXPECT_EQ(theirs->memory.memory(), MemoryKind::borrowed);
      EXPECT_EQ(theirs->memory.bytes().data(), memory.span().data());
      expect_bytes(*theirs, planned.tensors, alignment);
      for (const std::byte behind : memory.span().last(3)) EXPECT_EQ(behind, kUntouched);
    }
  }
}

TEST(ReadPacked, ReadsFilesOfCheckpointInHugePages) {
  const TemporaryDirectory directory;
  std::vector<PlannedTensor> all;
  for (const char* const name : {"one", "two"}) {
    std::vector<PlannedTensor> tensors = tensors_of({os::kHugePage + 5, 0, 7, 300000});
    for (PlannedTensor& tensor : tensors) tensor.name = std::string(name) + tensor.name;
    put(directory / (std::string(name) + ".safetensors"), file_of(tensors, 64));
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  const Result<Checkpoint> model = Checkpoint::open(directory / "*.safetensors");
  ASSERT_TRUE(succeeds(model));
  for (const Cache cache : {Cache::automatic, Cache::bypass}) {
    Result<Packed> packed = read_packed(model->tensors(), {}, {.cache = cache});
    ASSERT_TRUE(succeeds(packed));
    EXPECT_EQ(packed->report.bytes, 2 * (os::kHugePage + 5 + 7 + 300000));
    expect_bytes(*packed, all, 64);
  }
}

TEST(ReadPacked, ArraysShareBuffer) {
  const File file = open_bytes(two_tensors());
  Result<Packed> packed = read_packed(file.tensors(), {.alignment = 4});
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(packed->memory.nbytes(), 28U);
  const Result<Array> a = packed->array("a");
  ASSERT_TRUE(succeeds(a));
  EXPECT_EQ(to_string(a->shape()), "[2, 3]");
  EXPECT_EQ(a->bytes().data(), packed->memory.bytes().data());
  Result<Array> b = packed->array("b");
  ASSERT_TRUE(succeeds(b));
  EXPECT_TRUE(b->writable());
  const Error error = error_of(packed->array("c"));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.message, "the buffer has no tensor `c`");
  *packed = Packed{};  // the array keeps the memory
  EXPECT_EQ(test::elements<std::uint16_t>(b), (std::vector<std::uint16_t>{1, 2}));
}

TEST(ReadPacked, RefusesDestination) {
  const PackedLayout layout = layout_of(open_bytes(two_tensors()), {.alignment = 32});
  ASSERT_EQ(layout.nbytes(), 36U);
  const Memory memory(36, 32);
  Error error = error_of(read_packed(layout, memory.span().first(35)));
  EXPECT_EQ(error.code, Errc::buffer_size);
  EXPECT_EQ(error.message, "the tensors have 36 bytes, the destination 35");
  const Memory shifted(36, 16);
  error = error_of(read_packed(layout, shifted.span()));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "the destination is misaligned, expected an address that is a multiple of 32");
  for (const std::byte byte : memory.span()) EXPECT_EQ(byte, kUntouched);
  EXPECT_TRUE(succeeds(read_packed(layout, memory.span())));
}

TEST(ReadPacked, CastsEveryTensor) {
  const std::string bytes = file_bytes(R"({"f":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                       R"("h":{"dtype":"F16","shape":[1],"data_offsets":[8,10]}})",
                                       std::string("\0\0\x80\x3f\0\0\0\xc0\0\x42", 10));
  const File file = open_bytes(bytes);
  const Result<Packed> packed = read_packed(file.tensors(), {.alignment = 8, .cast = Dtype::F64});
  ASSERT_TRUE(succeeds(packed));
  EXPECT_EQ(packed->memory.nbytes(), 24U);
  EXPECT_EQ(test::elements<double>(packed->array("f")), (std::vector<double>{1, -2}));
  EXPECT_EQ(test::elements<double>(packed->array("h")), (std::vector<double>{3}));
  const File integers = open_bytes(two_tensors());
  const Error error = error_of(read_packed(integers.tensors(), {.cast = Dtype::BF16}));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `b`: cannot cast U16 to BF16");
}

TEST(ReadPacked, GivesBytesOfUnknownDtype) {
  const std::string bytes = file_bytes(R"({"q":{"dtype":"Q4_K","shape":[2,3],"data_offsets":[0,5]}})", "hello");
  Result<File> file = File::from_source(std::make_shared<ScriptedSource>(bytes), {.accept = {.unknown_dtypes = true}});
  ASSERT_TRUE(succeeds(file));
  const Result<Packed> packed = read_packed(file->tensors());
  ASSERT_TRUE(succeeds(packed));
  const PackedTensor* const row = packed->table.find("q");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->dtype, Dtype::U8);
  EXPECT_EQ(to_string(row->shape), "[5]");
  EXPECT_EQ(std::memcmp(packed->memory.bytes().data(), "hello", 5), 0);
}

TEST(ReadPacked, NamesTensorThatFails) {
  const auto source = std::make_shared<ScriptedSource>(two_tensors());
  const PackedLayout layout = layout_of(File::from_source(source).value(), {.order = PackedOrder::name});
  source->fail_from = two_tensors().size() - 1;
  const Error error = error_of(read_packed(layout));
  EXPECT_EQ(error.code, Errc::read_failed);
  EXPECT_EQ(error.message, "tensor `a`: no answer from the server");  // one read for both tensors
  source->fail_from = ~std::uint64_t{0};
  EXPECT_TRUE(succeeds(read_packed(layout)));  // the layout is still good
}

TEST(ReadPacked, CallbacksHaveOrderOfTable) {
  const File file = open_bytes(two_tensors());
  const std::vector<Tensor> list = {tensor(file, "b"), tensor(file, "a")};
  const PackedLayout layout = PackedLayout::make(std::span<const Tensor>(list), {.order = PackedOrder::given}).value();
  std::vector<std::uint64_t> reserved;
  const ReadOptions options{.threads = 1, .on_reserved = [&](std::span<const Array> arrays) {
                              for (const Array& array : arrays) reserved.push_back(array.nbytes());
                              return true;
                            }};
  ASSERT_TRUE(succeeds(read_packed(layout, {}, options)));
  EXPECT_EQ(reserved, (std::vector<std::uint64_t>{4, 24}));
  const ReadOptions cancels{.progress = [](std::uint64_t, std::uint64_t) { return false; }};
  EXPECT_EQ(error_of(read_packed(layout, {}, cancels)).code, Errc::cancelled);
}

}  // namespace
}  // namespace safetensors
