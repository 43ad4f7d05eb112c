// Files, tensors, arrays, plans and checkpoints of the C++17 interface.
#include <gtest/gtest.h>
#include <safetensors/safetensors.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

namespace st = safetensors17;

// A type of an engine, and the dtype that it has.
struct Half {
  std::uint16_t bits;
};
template <>
struct safetensors17::ElementOf<Half> {
  static constexpr safetensors17::Dtype dtype = safetensors17::Dtype::F16;
  static constexpr bool accepts(safetensors17::Dtype given) noexcept { return given == dtype; }
};
struct Wrong {
  std::uint16_t bits;
};
template <>
struct safetensors17::ElementOf<Wrong> {
  static constexpr safetensors17::Dtype dtype = safetensors17::Dtype::F32;
  static constexpr bool accepts(safetensors17::Dtype given) noexcept { return given == dtype; }
};

namespace {

// The bytes of a file with this header, and then `data` bytes 0, 1, 2 ...
std::string file_of(std::string header, std::size_t data) {
  std::string bytes(8, '\0');
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> 8 * i & 255);
  bytes += header;
  for (std::size_t i = 0; i < data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

const char* const kText =
    R"({"__metadata__":{"format":"pt","a":"b"},"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
    R"("i":{"dtype":"I32","shape":[2,3],"data_offsets":[4,28]},)"
    R"("n":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[28,30]}})";

st::File small_file() {
  static const std::string bytes = file_of(kText, 30);
  return st::File::from_memory(bytes.data(), bytes.size()).value();
}

class Cpp17Disk : public testing::Test {
 protected:
  void SetUp() override {
    path =
        testing::TempDir() + "cpp17_" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".safetensors";
    const std::uint64_t shape[] = {2, 3};
    ASSERT_TRUE(st::save(path.c_str(),
                         {st::tensor_data("w", st::Dtype::F32, shape, weight, sizeof weight),
                          st::tensor_data("scalar", st::Dtype::I64, {}, &scalar, sizeof scalar)},
                         {st::metadata_pair("format", "pt")}));
  }
  void TearDown() override { std::remove(path.c_str()); }
  [[nodiscard]] st::File open() const { return st::File::open(path.c_str()).value(); }

  std::string path;
  const float weight[6] = {0, 1, 2, 3, 4, 5};
  const std::int64_t scalar = -7;
};

class Bytes {
 public:
  Bytes(std::string bytes, std::shared_ptr<int> owner) : bytes_(std::move(bytes)), owner_(std::move(owner)) {}
  [[nodiscard]] st::Result<std::uint64_t> size() const noexcept { return bytes_.size(); }
  [[nodiscard]] st::Result<std::size_t> read_at(std::uint64_t offset, void* memory,
                                                std::size_t capacity) const noexcept {
    if (*owner_ == 2) return st::Error(SAFETENSORS_ERROR_READ_FAILED, "the archive is gone");
    if (*owner_ == 3) return st::Error();
    return bytes_.copy(static_cast<char*>(memory), capacity, static_cast<std::size_t>(offset));
  }

 private:
  std::string bytes_;
  std::shared_ptr<int> owner_;
};

// An element of an array that may be a temporary.
template <class T>
T element(const st::Array& array, std::size_t index) {
  return array.as<T>().value()[index];
}

TEST(Cpp17File, ListsTensorsAndMetadata) {
  const st::File file = small_file();
  std::string names;
  for (const st::TensorInfo& info : file.tensors()) names += std::string(info.name()) + ' ';
  EXPECT_EQ(names, "h i n ");
  EXPECT_EQ(file.size(), 3u);
  const st::TensorInfo info = file.find("i").value();
  EXPECT_EQ(info.dtype(), st::Dtype::I32);
  EXPECT_EQ(info.shape()[1], 3u);
  EXPECT_EQ(info.nbytes(), 24u);
  EXPECT_EQ(info.data_begin(), 4u);
  EXPECT_EQ(info.data_end(), 28u);
  EXPECT_EQ(info.file_offset(), 8 + std::strlen(kText) + 4);
  EXPECT_EQ(file.find("j").error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  EXPECT_EQ(file.tensors()[3].nbytes(), 0u);
  EXPECT_EQ(file.header_info().tensor_count, 3u);
  EXPECT_EQ(file.dtype_name("h").value(), "F16");
  EXPECT_EQ(file.dtype_name("x").error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  std::string pairs;
  for (const st::MetadataPair pair : file.metadata())
    pairs += std::string(pair.key) + '=' + std::string(pair.value) + ' ';
  EXPECT_EQ(pairs, "a=b format=pt ");
  EXPECT_EQ(file.metadata().find("format"), "pt");
  EXPECT_FALSE(file.metadata().find("none"));
  EXPECT_TRUE(file.metadata()[2].key.empty());
}

TEST(Cpp17File, ShowsMoreThanEightDimensions) {
  const st::File file = small_file();
  const st::Dims dims = file.find("n").value().shape();
  ASSERT_EQ(dims.size(), 9u);
  EXPECT_EQ(dims[8], 2u);
  const st::Array array = file.tensor("n").value().read().value();
  ASSERT_EQ(array.shape().size(), 9u);
  EXPECT_EQ(array.shape()[8], 2u);
}

TEST(Cpp17File, NamesTheFault) {
  const std::string bytes = file_of(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4);
  const st::Result<st::File> file = st::File::from_memory(bytes.data(), bytes.size());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code(), SAFETENSORS_ERROR_SIZE_MISMATCH);
  EXPECT_EQ(file.error().rule(), 9);
  const st::Result<st::File> none = st::File::open("no such file");
  EXPECT_EQ(none.error().code(), SAFETENSORS_ERROR_OPEN_FAILED);
  EXPECT_EQ(none.error().os_error(), ENOENT);
  EXPECT_EQ(none.error().to_string(), "no such file: cannot open: no such file or directory");
  EXPECT_EQ(st::File::open(nullptr).error().code(), SAFETENSORS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(st::File::from_fd(-1).error().code(), SAFETENSORS_ERROR_OPEN_FAILED);
  EXPECT_EQ(st::File::adopt(nullptr).error().code(), SAFETENSORS_ERROR_INVALID_ARGUMENT);
}

TEST(Cpp17File, AcceptsFaultsOnRequest) {
  const std::string bytes = file_of(R"({"w":{"dtype":"Q4","shape":[2],"data_offsets":[0,2]}})", 3);
  st::ParseOptions options;
  EXPECT_FALSE(st::File::from_memory(bytes.data(), bytes.size(), options));
  options.accept = SAFETENSORS_ACCEPT_UNKNOWN_DTYPES | SAFETENSORS_ACCEPT_UNUSED_BYTES;
  const st::File file = st::File::from_memory(bytes.data(), bytes.size(), options).value();
  EXPECT_EQ(file.find("w").value().dtype(), st::Dtype::UNKNOWN);
  EXPECT_EQ(file.dtype_name("w").value(), "Q4");
  EXPECT_EQ(file.header_info().unused_bytes, 1u);
  EXPECT_EQ(file.tensor("w").value().read().value().nbytes(), 2u);
  const st::Tensor tensor = file.tensor("w").value();
  for (const char* const text : {"0", ":", ":2", "5"}) {
    const st::Slice slice = st::Slice::parse(text).value();
    const st::Result<st::Array> read = tensor.read(slice);
    const st::Result<std::uint64_t> nbytes = tensor.nbytes_of(slice);
    ASSERT_EQ(static_cast<bool>(read), static_cast<bool>(nbytes)) << text;
    if (read) {
      EXPECT_EQ(read->nbytes(), *nbytes) << text;
    } else {
      EXPECT_EQ(read.error().code(), nbytes.error().code()) << text;
    }
  }
  EXPECT_EQ(tensor.read(st::Slice::parse("0").value()).error().code(), SAFETENSORS_ERROR_DTYPE_MISMATCH);
}

TEST(Cpp17File, KeepsOwnerOfMemory) {
  const auto bytes = std::make_shared<const std::string>(file_of(kText, 30));
  std::weak_ptr<const std::string> alive = bytes;
  {
    st::Array array(nullptr);
    {
      st::File file = st::File::from_memory(bytes->data(), bytes->size(), bytes, {}).value();
      EXPECT_EQ(alive.use_count(), 2);
      array = file.tensor("i").value().view().value();
    }
    EXPECT_EQ(alive.use_count(), 2);
    EXPECT_EQ(array.memory(), SAFETENSORS_MEMORY_BORROWED);
  }
  EXPECT_EQ(alive.use_count(), 1);
  EXPECT_FALSE(st::File::from_memory(bytes->data(), 9, bytes, {}));
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Cpp17File, ReadsSourceOfCaller) {
  const auto state = std::make_shared<int>(1);
  {
    const st::File file = st::File::from_source(Bytes(file_of(kText, 30), state)).value();
    EXPECT_EQ(state.use_count(), 2);
    const st::Tensor tensor = file.tensor("h").value();
    const st::Array read = tensor.read().value();
    EXPECT_EQ(static_cast<const unsigned char*>(read.data())[3], 3);
    *state = 2;
    const st::Result<st::Array> gone = tensor.read();
    EXPECT_EQ(gone.error().code(), SAFETENSORS_ERROR_READ_FAILED);
    EXPECT_NE(std::string(gone.error().message()).find("the archive is gone"), std::string::npos);
    *state = 3;  // a failure without a code
    EXPECT_EQ(tensor.read().error().code(), SAFETENSORS_ERROR_READ_FAILED);
  }
  EXPECT_EQ(state.use_count(), 1);
  EXPECT_FALSE(st::File::from_source(Bytes("short", state)));
  EXPECT_EQ(state.use_count(), 1);
}

TEST(Cpp17Tensor, ReadsAndSlices) {
  const st::File file = small_file();
  const st::Tensor tensor = file.tensor("i").value();
  EXPECT_EQ(tensor.info().name(), "i");
  unsigned char bytes[24] = {};
  EXPECT_TRUE(tensor.read_into(bytes, sizeof bytes));
  EXPECT_EQ(bytes[23], 27);
  EXPECT_EQ(tensor.read_into(bytes, 23).error().code(), SAFETENSORS_ERROR_BUFFER_SIZE);
  const st::Slice column = st::Slice::of({st::Dim::all(), st::Dim::at(-1)}).value();
  EXPECT_EQ(tensor.nbytes_of(column).value(), 8u);
  EXPECT_TRUE(tensor.read_into(bytes, 8, column));
  EXPECT_EQ(bytes[0], 12);
  EXPECT_EQ(bytes[4], 24);
  const st::Array array = tensor.read(column).value();
  ASSERT_EQ(array.shape().size(), 1u);
  EXPECT_EQ(array.shape()[0], 2u);
  const st::Slice outside = st::Slice::of({st::Dim::at(2)}).value();
  EXPECT_EQ(tensor.read(outside).error().code(), SAFETENSORS_ERROR_SLICE_INDEX);
  EXPECT_EQ(tensor.nbytes_of(outside).error().code(), SAFETENSORS_ERROR_SLICE_INDEX);
  EXPECT_EQ(tensor.read_into(bytes, 4, outside).error().code(), SAFETENSORS_ERROR_SLICE_INDEX);
}

TEST(Cpp17Slice, TakesEveryKindOfDim) {
  const st::File file = small_file();
  const st::Tensor tensor = file.tensor("i").value();  // [2, 3] of 4 bytes
  const auto size = [&](const st::Result<st::Slice>& slice) { return tensor.nbytes_of(*slice).value(); };
  EXPECT_EQ(size(st::Slice::of({st::Dim::range(0, 1)})), 12u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::all(), st::Dim::range(0, 3, 2)})), 16u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::all(), st::Dim::from(1)})), 16u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::all(), st::Dim::from(-1, -1)})), 24u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::all(), st::Dim::until(1)})), 8u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::ellipsis(), st::Dim::at(0)})), 8u);
  EXPECT_EQ(size(st::Slice::of({st::Dim::shard(1, 2)})), 12u);
  EXPECT_EQ(size(st::Slice::shard(1, 0, 3)), 8u);
  EXPECT_EQ(size(st::Slice::parse("0,1:")), 8u);
  EXPECT_EQ(size(st::Slice::of({})), 24u);
  EXPECT_EQ(st::Slice::parse("0,,").error().code(), SAFETENSORS_ERROR_SLICE_SYNTAX);
  EXPECT_EQ(tensor.nbytes_of(st::Slice::shard(0, 2, 2).value()).error().code(), SAFETENSORS_ERROR_SLICE_INDEX);
  EXPECT_EQ(tensor.nbytes_of(st::Slice::of({st::Dim::range(0, 2, 0)}).value()).error().code(),
            SAFETENSORS_ERROR_SLICE_STEP);
}

TEST(Cpp17Array, ChecksTypeOfElements) {
  const st::File file = small_file();
  const st::Array half = file.tensor("h").value().read().value();
  EXPECT_EQ(half.dtype(), st::Dtype::F16);
  EXPECT_EQ(half.nbytes(), 4u);
  EXPECT_EQ(half.memory(), SAFETENSORS_MEMORY_OWNED);
  EXPECT_EQ(half.as<Half>().value()[1].bits, 0x0302);
  EXPECT_EQ(half.as<std::uint16_t>().value().size(), 2u);
  EXPECT_EQ(half.as<float>().error().code(), SAFETENSORS_ERROR_DTYPE_MISMATCH);
  const st::Array ints = file.tensor("i").value().read().value();
  EXPECT_EQ(ints.as<std::int32_t>().value()[0], 0x07060504);
  const st::Result<st::View<const float>> floats = ints.as<float>();
  EXPECT_STREQ(floats.error().message(), "expected F32, found I32");
}

TEST(Cpp17Array, RefusesElementsOfWrongSize) {
  const std::string bytes = file_of(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  const st::File file = st::File::from_memory(bytes.data(), bytes.size()).value();
  const st::Array array = file.tensor("w").value().read().value();
  EXPECT_EQ(array.as<Wrong>().error().code(), SAFETENSORS_ERROR_DTYPE_MISMATCH);
}

TEST(Cpp17Array, FindsMisalignedView) {
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  int misaligned = 0;
  for (int i = 0; i < 2; ++i) {  // one of the two headers leaves the data at an odd address
    header += ' ';
    const std::string bytes = file_of(header, 4);
    const st::File file = st::File::from_memory(bytes.data(), bytes.size()).value();
    const st::Array view = file.tensor("w").value().view().value();
    const bool aligned = reinterpret_cast<std::uintptr_t>(view.data()) % alignof(float) == 0;
    EXPECT_EQ(view.as<float>().ok(), aligned);
    misaligned += !aligned && view.as<float>().error().code() == SAFETENSORS_ERROR_MISALIGNED_MEMORY ? 1 : 0;
    EXPECT_GT(element<float>(file.tensor("w").value().read().value(), 0), 0);
  }
  EXPECT_GE(misaligned, 1);
}

TEST_F(Cpp17Disk, ViewsAndReadsFile) {
  const st::File file = open();
  EXPECT_EQ(file.metadata().size(), 1u);
  st::Array view = file.tensor("w").value().view().value();
  EXPECT_EQ(view.as<float>().value()[5], 5);
  EXPECT_TRUE(view.prefault(0, view.nbytes()));
  EXPECT_TRUE(view.memory() == SAFETENSORS_MEMORY_OWNED ||
              view.mutable_data().error().code() == SAFETENSORS_ERROR_NOT_WRITABLE);
  st::Array own = file.tensor("w").value().view(SAFETENSORS_MAP_COPY_ON_WRITE).value();
  const float nine = 9;
  std::memcpy(own.mutable_data().value(), &nine, sizeof nine);
  EXPECT_EQ(own.as<float>().value()[0], 9);
  EXPECT_EQ(view.as<float>().value()[0], 0);
  EXPECT_EQ(file.tensor("w").value().view(7).error().code(), SAFETENSORS_ERROR_INVALID_ARGUMENT);
  const st::Array all = file.view().value();
  EXPECT_EQ(all.nbytes(), 32u);
  EXPECT_EQ(std::memcmp(static_cast<const char*>(all.data()) + file.find("w").value().data_begin(), weight, 24), 0);
  EXPECT_EQ(element<std::int64_t>(file.tensor("scalar").value().read().value(), 0), -7);
}

TEST_F(Cpp17Disk, ArrayOutlivesFile) {
  st::Result<st::Array> array = [this] { return open().tensor("w").value().view(); }();
  EXPECT_EQ(array->as<float>().value()[5], 5);
}

TEST_F(Cpp17Disk, CastsWhileItReads) {
  const st::File file = open();
  const st::Tensor tensor = file.tensor("w").value();
  const st::Array half = tensor.read_as(st::Dtype::BF16).value();
  EXPECT_EQ(half.dtype(), st::Dtype::BF16);
  EXPECT_EQ(half.as<std::uint16_t>().value()[1], 0x3f80);
  const st::Array row = tensor.read_as(st::Dtype::F64, st::Slice::parse("1").value()).value();
  EXPECT_EQ(row.as<double>().value()[2], 5);
  EXPECT_EQ(tensor.read_as(st::Dtype::I32).error().code(), SAFETENSORS_ERROR_DTYPE_MISMATCH);
}

TEST_F(Cpp17Disk, PlanReadsIntoMemoryOfCaller) {
  const st::File file = open();
  const st::Tensor tensor = file.tensor("w").value();
  st::ReadPlan plan = st::ReadPlan::create().value();
  double column[2] = {};
  float whole[6] = {};
  ASSERT_TRUE(plan.add(tensor, st::AddOptions().into(whole, sizeof whole)));
  ASSERT_TRUE(plan.add(tensor, st::Slice::parse(":,1").value(),
                       st::AddOptions().into(column, sizeof column).cast_to(st::Dtype::F64)));
  ASSERT_TRUE(plan.add(tensor));
  EXPECT_EQ(plan.add(tensor, st::AddOptions().into(whole, 1)).error().code(), SAFETENSORS_ERROR_BUFFER_SIZE);
  EXPECT_EQ(plan.size(), 3u);
  EXPECT_EQ(plan.nbytes(), 24u + 16u + 24u);
  st::ReadOptions options;
  options.threads = 2;
  options.memory_limit = 1 << 20;
  std::uint64_t last = 0, calls = 0;
  const st::Result<st::ReadResult> result = plan.execute(options, [&](std::uint64_t completed, std::uint64_t total) {
    EXPECT_EQ(total, 64u);
    last = completed;
    return ++calls != 0;
  });
  ASSERT_TRUE(result);
  EXPECT_EQ(last, 64u);
  EXPECT_EQ(whole[5], 5);
  EXPECT_EQ(column[1], 4);
  EXPECT_EQ(result->size(), 3u);
  EXPECT_EQ(element<float>(result->array(2).value(), 3), 3);
  EXPECT_EQ(result->array(3).error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  EXPECT_EQ(result->report().value().bytes, 64u);
}

TEST_F(Cpp17Disk, ProgressCancelsOrReturnsNothing) {
  const st::File file = open();
  st::ReadPlan plan = st::ReadPlan::create().value();
  ASSERT_TRUE(plan.add(file.tensor("w").value()));
  const auto stop = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(plan.execute({}, stop).error().code(), SAFETENSORS_ERROR_CANCELLED);
  int calls = 0;
  EXPECT_TRUE(plan.execute({}, [&](std::uint64_t, std::uint64_t) { ++calls; }));
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(plan.execute());
}

TEST_F(Cpp17Disk, OpenOptionsReachLibrary) {
  st::OpenOptions options;
  options.max_header_bytes = 2;
  EXPECT_EQ(st::File::open(path.c_str(), options).error().code(), SAFETENSORS_ERROR_HEADER_TOO_LARGE);
  options = {};
  options.access = SAFETENSORS_ACCESS_READ;
  const st::File file = st::File::open(path.c_str(), options).value();
  EXPECT_EQ(file.tensor("w").value().view().value().memory(), SAFETENSORS_MEMORY_OWNED);
}

TEST_F(Cpp17Disk, CheckpointJoinsFiles) {
  const std::string other = path + ".other";
  const std::uint64_t shape[] = {1};
  const safetensors_tensor_data tensors[] = {st::tensor_data("other", st::Dtype::F32, shape, weight, 4)};
  ASSERT_TRUE(st::save(other.c_str(), tensors));
  const char* const paths[] = {path.c_str(), other.c_str()};
  const st::Checkpoint model = st::Checkpoint::open(paths).value();
  EXPECT_EQ(model.size(), 3u);
  EXPECT_EQ(model.file_count(), 2u);
  EXPECT_EQ(model.file(1).value().size(), 1u);
  EXPECT_EQ(model.file(2).error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  EXPECT_TRUE(model.contains("other"));
  EXPECT_FALSE(model.contains("none"));
  EXPECT_EQ(model.tensor("none").error().code(), SAFETENSORS_ERROR_NOT_FOUND);
  std::uint64_t bytes = 0;
  for (const st::TensorInfo& info : model.tensors()) bytes += info.nbytes();
  EXPECT_EQ(bytes, 36u);
  EXPECT_EQ(model.tensor("other").value().read().value().nbytes(), 4u);
  EXPECT_EQ(st::Checkpoint::open(path.c_str()).value().size(), 2u);
  EXPECT_EQ(st::Checkpoint::open("no such folder").error().code(), SAFETENSORS_ERROR_OPEN_FAILED);
  const char* const twice[] = {path.c_str(), path.c_str()};
  EXPECT_EQ(st::Checkpoint::open(twice).error().code(), SAFETENSORS_ERROR_DUPLICATE_NAME);
  std::remove(other.c_str());
}

TEST_F(Cpp17Disk, SaveReportsErrors) {
  const std::uint64_t shape[] = {2};
  EXPECT_EQ(st::save(path.c_str(), {st::tensor_data("w", st::Dtype::F32, shape, weight, 4)}).error().code(),
            SAFETENSORS_ERROR_DATA_LENGTH);
  st::LayoutOptions layout;
  layout.data_alignment = 3;
  EXPECT_EQ(st::save(path.c_str(), {}, {}, {}, layout).error().code(), SAFETENSORS_ERROR_INVALID_ALIGNMENT);
  EXPECT_EQ(open().size(), 2u);
}

// Every function of an object that was moved from returns an error, NULL, 0 or nothing.
TEST_F(Cpp17Disk, MovedFromObjectsFail) {
  st::File file = open();
  st::Checkpoint model = st::Checkpoint::open(path.c_str()).value();
  st::Tensor tensor = file.tensor("w").value();
  st::Array array = tensor.read().value();
  st::Slice slice = st::Slice::parse("0").value();
  st::ReadPlan plan = st::ReadPlan::create().value();
  st::ReadResult result = plan.execute().value();
  const auto kept = std::make_tuple(std::move(file), std::move(model), std::move(tensor), std::move(array),
                                    std::move(slice), std::move(plan), std::move(result));
  const auto refused = [](const st::Error& error) { return error.code() == SAFETENSORS_ERROR_INVALID_ARGUMENT; };
  float memory[6];
  // NOLINTBEGIN(bugprone-use-after-move)
  EXPECT_TRUE(file.c() == nullptr && file.size() == 0 && file.metadata().size() == 0 && file.tensors().size() == 0);
  EXPECT_TRUE(refused(file.find("w").error()) && refused(file.tensor("w").error()) && refused(file.view().error()));
  EXPECT_TRUE(refused(file.dtype_name("w").error()) && !file.metadata().find("format"));
  EXPECT_EQ(file.header_info().tensor_count, 0u);
  EXPECT_TRUE(model.size() == 0 && model.file_count() == 0 && !model.contains("w"));
  EXPECT_TRUE(refused(model.tensor("w").error()) && refused(model.file(0).error()));
  EXPECT_TRUE(tensor.info().name().empty() && tensor.info().shape().empty());
  EXPECT_TRUE(refused(tensor.view().error()) && refused(tensor.read().error()));
  EXPECT_TRUE(refused(tensor.read_into(memory, 24).error()) && refused(tensor.read_as(st::Dtype::F64).error()));
  EXPECT_TRUE(array.data() == nullptr && array.nbytes() == 0 && array.shape().empty());
  EXPECT_TRUE(refused(array.mutable_data().error()) && refused(array.prefault(0, 1).error()));
  EXPECT_TRUE(refused(array.as<float>().error()));
  const st::Tensor& good = std::get<2>(kept);
  EXPECT_TRUE(refused(good.read(slice).error()) && refused(good.read_into(memory, 24, slice).error()));
  EXPECT_TRUE(refused(good.nbytes_of(slice).error()) && refused(good.read_as(st::Dtype::F64, slice).error()));
  EXPECT_TRUE(refused(plan.add(good).error()) && refused(plan.execute().error()));
  EXPECT_TRUE(plan.size() == 0 && plan.nbytes() == 0);
  EXPECT_TRUE(result.size() == 0 && refused(result.array(0).error()) && refused(result.report().error()));
  array = good.read().value();  // and it can be used again
  EXPECT_EQ(array.as<float>().value()[1], 1);
  // NOLINTEND(bugprone-use-after-move)
}

}  // namespace
