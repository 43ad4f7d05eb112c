#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iostream>
#include <thread>

#include "support/emulation.h"
#include "support/file_support.h"

namespace safetensors {
namespace {

using test::contents;
using test::data_of;
using test::elements;
using test::error_of;
using test::file_bytes;
using test::in_child;
using test::one_tensor;
using test::pattern;
using test::put;
using test::set_element;
using test::succeeds;
using test::swapped_if_big_endian;
using test::TemporaryDirectory;
using test::tensor;
using test::two_tensors;

class FileTest : public ::testing::Test {
 protected:
  std::string put_file(const std::string& bytes, std::string_view name = "a.safetensors") {
    const std::string path = directory_ / name;
    put(path, bytes);
    return path;
  }
  File open(const std::string& path, Access access = Access::automatic) {
    Result<File> file = File::open(path, {.access = access});
    EXPECT_TRUE(succeeds(file));
    return file.value();
  }
  TemporaryDirectory directory_;
};

// Returns whether this process has a map of the file at path.
bool mapped(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  return std::string(std::istreambuf_iterator<char>(maps), {}).find(path) != std::string::npos;
}

TEST_F(FileTest, ListsWithoutMapping) {
  const std::string path = put_file(two_tensors());
  const File file = open(path);
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.access(), Access::map);
  ASSERT_EQ(file.header().size(), 2U);
  const Tensor a = file.tensor("a").value();
  EXPECT_EQ(a.name(), "a");
  EXPECT_EQ(a.dtype(), Dtype::F32);
  EXPECT_EQ(Shape(a.shape()), (Shape{2, 3}));
  EXPECT_EQ(a.nbytes(), 24U);
  EXPECT_EQ(a.info().file_offset, file.header().data_start());
  EXPECT_EQ(file.source().size().value(), two_tensors().size());
  EXPECT_EQ(elements<float>(a.read())[4], 4.0F);
  EXPECT_FALSE(mapped(path));
  (void)a.view().value();
  EXPECT_TRUE(mapped(path));
}

TEST_F(FileTest, NeverMapsUnderReadAccess) {
  const std::string path = put_file(two_tensors());
  const File file = open(path, Access::read);
  EXPECT_EQ(file.access(), Access::read);
  for (const Map map : {Map::shared, Map::copy_on_write}) {
    const Array array = tensor(file, "a").view({}, map).value();
    EXPECT_EQ(array.memory(), MemoryKind::owned);
    EXPECT_EQ(elements<float>(array)[5], 5.0F);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.bytes().data()) % 64, 0U);
  }
  EXPECT_FALSE(mapped(path));
}

TEST_F(FileTest, SharesOneMapAmongViews) {
  const File file = open(put_file(two_tensors()));
  const Array a = tensor(file, "a").view().value();
  const Array b = tensor(file, "b").view().value();
  EXPECT_EQ(a.memory(), MemoryKind::shared_map);
  EXPECT_FALSE(a.writable());
  EXPECT_EQ(a.bytes().data() + 24, b.bytes().data());
  EXPECT_EQ(a.owner(), b.owner());
}

TEST_F(FileTest, KeepsArrayAliveWithoutFile) {
  const std::string path = put_file(two_tensors());
  const auto view = [&](Map map) { return File::open(path).value().tensor("a").value().view({}, map).value(); };
  const Array shared = view(Map::shared);
  const Array own = view(Map::copy_on_write);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(elements<float>(shared)[5], 5.0F);
  EXPECT_EQ(elements<float>(own)[5], 5.0F);
}

TEST_F(FileTest, StaysOpenThroughTensor) {
  const std::string path = put_file(two_tensors());
  const Tensor b = File::open(path).value().tensor("b").value();
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ(elements<std::uint16_t>(b.read())[1], 2);
  const File again = b.file();
  EXPECT_EQ(again.path(), path);
}

TEST_F(FileTest, KeepsWritesToPrivateViewPrivate) {
  const std::string path = put_file(two_tensors());
  const File file = open(path);
  Array first = tensor(file, "a").view({}, Map::copy_on_write).value();
  const Array second = tensor(file, "a").view({}, Map::copy_on_write).value();
  const Array shared = tensor(file, "a").view().value();
  EXPECT_EQ(first.memory(), MemoryKind::copy_on_write_map);
  set_element<float>(first, 0, 42);
  EXPECT_EQ(elements<float>(first)[0], 42.0F);
  EXPECT_EQ(elements<float>(second)[0], 0.0F);
  EXPECT_EQ(elements<float>(shared)[0], 0.0F);
  EXPECT_EQ(contents(path), two_tensors());
}

TEST_F(FileTest, ServesTensorsWithoutBytes) {
  const std::string path =
      put_file(file_bytes(R"({"none":{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[0,0]}})", ""));
  for (const Access access : {Access::map, Access::read}) {
    const Tensor none = open(path, access).tensor("none").value();
    for (const Map map : {Map::shared, Map::copy_on_write}) {
      const Array array = none.view({}, map).value();
      EXPECT_EQ(array.nbytes(), 0U);
      EXPECT_TRUE(array.as<float>().value().empty());
      EXPECT_EQ(array.shape(), (Shape{0, ~std::uint64_t{0}}));
    }
    EXPECT_TRUE(succeeds(none.read_into({})));
    EXPECT_TRUE(succeeds(none.read({DimSlice::ellipsis(), DimSlice::at(-1)})));
  }
}

TEST_F(FileTest, ReadsIntoMemoryOfCaller) {
  const Tensor a = open(put_file(two_tensors())).tensor("a").value();
  float values[7] = {9, 9, 9, 9, 9, 9, 9};
  const auto bytes = std::as_writable_bytes(std::span(values));
  EXPECT_TRUE(succeeds(a.read_into(bytes.first(24))));
  const auto value = [&](std::size_t i) { return swapped_if_big_endian<float>({values[i]})[0]; };
  EXPECT_EQ(value(5), 5.0F);
  EXPECT_EQ(values[6], 9.0F);
  const Slice backwards{DimSlice::at(1), DimSlice::range(std::nullopt, std::nullopt, -1)};
  EXPECT_TRUE(succeeds(a.read_into(bytes.first(12), backwards)));
  EXPECT_EQ(value(0), 5.0F);
  EXPECT_EQ(value(2), 3.0F);
  EXPECT_EQ(value(3), 3.0F);
  const Error whole = error_of(a.read_into(bytes.first(23)));
  EXPECT_EQ(whole.code, Errc::buffer_size);
  EXPECT_EQ(whole.message, "tensor `a`: the result has 24 bytes, the destination 23");
  EXPECT_EQ(error_of(a.read_into(bytes.first(16), backwards)).message,
            "tensor `a`: the result has 12 bytes, the destination 16");
}

TEST_F(FileTest, NamesTensorAndPathOfWrongSlice) {
  const std::string path = put_file(two_tensors());
  const Tensor a = open(path).tensor("a").value();
  const Error error = error_of(a.read({DimSlice::all(), DimSlice::at(7)}));
  EXPECT_EQ(error.code, Errc::slice_index);
  EXPECT_EQ(error.message, "tensor `a`: index 7 is out of range for dimension 1 of size 3");
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error_of(a.read_into({}, {DimSlice::range(0, 1, 0)})).code, Errc::slice_step);
}

TEST_F(FileTest, SuggestsSimilarName) {
  const std::string entry = R"(:{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const File file =
      open(put_file(file_bytes("{\"a\"" + entry + ",\"lm_head.weight\"" + entry + ",\"b\"" + entry + "}", "")));
  const auto message = [&](std::string_view name) {
    const Error error = error_of(file.tensor(name));
    EXPECT_EQ(error.code, Errc::not_found);
    EXPECT_EQ(error.path, file.path());
    return error.message;
  };
  EXPECT_EQ(message("lm_haed.weight"), "no tensor `lm_haed.weight` in a file of 3 tensors: is it `lm_head.weight`?");
  EXPECT_EQ(message("something else"), "no tensor `something else` in a file of 3 tensors");
  EXPECT_EQ(message("\x1b[1m"), "no tensor `\\u{1b}[1m` in a file of 3 tensors");
  EXPECT_EQ(message(std::string(5000, 'b')), "no tensor `" + std::string(5000, 'b') + "` in a file of 3 tensors");
}

TEST_F(FileTest, ReportsFormatErrorsWithPath) {
  const std::string path = put_file("\1\0\0");
  const Error error = error_of(File::open(path));
  EXPECT_EQ(error.code, Errc::header_too_small);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error_of(File::open(put_file(two_tensors() + "x"))).code, Errc::incomplete_data);
  const std::string spaced = put_file(file_bytes("  {}", ""));
  EXPECT_EQ(error_of(File::open(spaced)).code, Errc::json_leading_whitespace);
  OpenOptions lenient;
  lenient.parse.allow_leading_whitespace = true;
  const File accepted = File::open(spaced, lenient).value();
  EXPECT_TRUE(accepted.header().tolerated().leading_whitespace);
}

TEST_F(FileTest, ViewsMemoryInPlace) {
  auto owner = std::make_shared<std::string>(two_tensors());
  const std::string* const bytes = owner.get();
  const std::weak_ptr<std::string> watch = owner;
  Array view;
  {
    const File file = File::from_memory(test::bytes_of(*bytes), std::move(owner)).value();
    EXPECT_EQ(file.access(), Access::map);
    EXPECT_EQ(file.path(), "");
    view = tensor(file, "b").view().value();
    EXPECT_EQ(view.memory(), MemoryKind::borrowed);
    EXPECT_FALSE(view.writable());
    Array own = tensor(file, "b").view({}, Map::copy_on_write).value();
    EXPECT_EQ(own.memory(), MemoryKind::owned);
    set_element<std::uint16_t>(own, 0, 77);
    EXPECT_EQ(elements<std::uint16_t>(tensor(file, "b").read({DimSlice::at(-1)}))[0], 2);
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(reinterpret_cast<const char*>(view.bytes().data()), bytes->data() + bytes->size() - 4);
  EXPECT_EQ(view.bytes()[0], std::byte{1});
  view = Array();
  EXPECT_TRUE(watch.expired());
}

TEST_F(FileTest, DetectsShorterFileUnderRead) {
  const std::string path = put_file(two_tensors());
  const File file = open(path, Access::read);
  const std::uint64_t data = file.header().data_start();
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(data + 9)), 0);
  const Error error = error_of(tensor(file, "a").view());
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error.offset, data + 9);
  EXPECT_EQ(error.message, "tensor `a`: file became shorter: 24 bytes at byte " + std::to_string(data) +
                               " were asked for, it now ends at byte " + std::to_string(data + 9));
  EXPECT_EQ(error_of(tensor(file, "b").read()).code, Errc::file_truncated);
  EXPECT_EQ(error_of(tensor(file, "a").read({DimSlice::all(), DimSlice::at(2)})).code, Errc::file_truncated);
  EXPECT_TRUE(succeeds(tensor(file, "a").read({DimSlice::at(0), DimSlice::range(0, 2)})));
}

TEST_F(FileTest, DetectsShorterFileUnderMap) {
  const std::string path = put_file(two_tensors());
  const File file = open(path, Access::map);
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(file.header().data_start() + 24)), 0);
  const Array a = tensor(file, "a").view().value();
  EXPECT_EQ(a.memory(), MemoryKind::owned);
  EXPECT_EQ(elements<float>(a)[5], 5.0F);
  EXPECT_EQ(error_of(tensor(file, "b").view()).code, Errc::file_truncated);
  EXPECT_EQ(error_of(tensor(file, "b").view({}, Map::copy_on_write)).code, Errc::file_truncated);
}

// A file of a tensor of that many bytes, all of them a hole.
std::string put_sparse(const TemporaryDirectory& directory, std::uint64_t size) {
  const std::string header = test::one_header(size);
  const std::string path = directory / "sparse";
  put(path, file_bytes(header, ""));
  if (::truncate(path.c_str(), static_cast<off_t>(8 + header.size() + size)) != 0) return {};
  return path;
}

TEST_F(FileTest, ReadsPartsOf4TiBFile) {
  constexpr std::uint64_t kSize = std::uint64_t{4} << 40;
  const std::string path = put_sparse(directory_, kSize);
  if (path.empty()) GTEST_SKIP() << "the file system holds no file of 4 TiB";
  const Tensor t = open(path).tensor("t").value();
  EXPECT_EQ(t.nbytes(), kSize);
  const Error error = error_of(t.read());
  EXPECT_EQ(error.code, Errc::out_of_memory);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error.message, "tensor `t`: cannot allocate 4398046511104 bytes");
  EXPECT_EQ(data_of(t.read({DimSlice::range(-3, std::nullopt)}).value()), std::string(3, '\0'));
  EXPECT_EQ(t.read({DimSlice::range(std::nullopt, std::nullopt, std::int64_t{1} << 38)}).value().nbytes(), 16U);
}

TEST_F(FileTest, ServesTensorPast4GiB) {
  const std::string header =
      R"({"pad":{"dtype":"U8","shape":[4294967300],"data_offsets":[0,4294967300]},"t":{"dtype":"U8","shape":[4],"data_offsets":[4294967300,4294967304]}})";
  const std::string path = put_file(file_bytes(header, std::string(8, 'x')));
  std::fstream out(path, std::ios::in | std::ios::out);
  if (!out.seekp(static_cast<std::streamoff>(8 + header.size() + 4294967300)) || !(out << "abcd").flush())
    GTEST_SKIP() << "the file system holds no file of 4 GiB";
  for (const Access access : {Access::map, Access::read}) {
    if (access == Access::map && test::drops_large_offsets()) {
      std::cout << "maps are not tested: " << test::kDropsLargeOffsets << '\n';
      continue;
    }
    const File file = open(path, access);
    const Tensor t = tensor(file, "t");
    EXPECT_EQ(data_of(t.read().value()), "abcd");
    EXPECT_EQ(data_of(t.view().value()), "abcd");
    EXPECT_EQ(data_of(t.view({}, Map::copy_on_write).value()), "abcd");
    EXPECT_EQ(data_of(t.read({DimSlice::range(1, 3)}).value()), "bc");
    EXPECT_EQ(data_of(tensor(file, "pad").read({DimSlice::range(-1, std::nullopt)}).value()), std::string(1, '\0'));
    if (sizeof(std::size_t) > 4) continue;
    EXPECT_EQ(error_of(tensor(file, "pad").read()).code, Errc::out_of_memory);
    EXPECT_EQ(error_of(tensor(file, "pad").view()).code, Errc::out_of_memory);
    EXPECT_EQ(error_of(tensor(file, "pad").view({}, Map::copy_on_write)).code, Errc::out_of_memory);
  }
}

// The address space this process takes now.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(FileTest, ReadsIfMapIsRefused) {
  const std::string header =
      R"({"small":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"big":{"dtype":"U8","shape":[1099511627776],"data_offsets":[4,1099511627780]}})";
  const std::string path = put_file(file_bytes(header, "abcd"));
  if (::truncate(path.c_str(), static_cast<off_t>(8 + header.size() + 1099511627780)) != 0)
    GTEST_SKIP() << "the file system holds no file of 1 TiB";
  if (test::ignores_memory_limits()) GTEST_SKIP() << test::kIgnoresMemoryLimits;
  EXPECT_EQ(in_child([&] {
              const std::uint64_t limit = address_space() + (256U << 20);
              const rlimit wanted{limit, limit};
              if (::setrlimit(RLIMIT_AS, &wanted) != 0) return false;
              const File file = File::open(path, {.access = Access::map}).value();
              const Array small = tensor(file, "small").view().value();
              const Result<Array> big = tensor(file, "big").view({}, Map::copy_on_write);
              return small.memory() == MemoryKind::owned && data_of(small) == "abcd" && !big &&
                     big.error().code == Errc::out_of_memory;
            }),
            0);
}

TEST_F(FileTest, ServesManyThreadsAtOnce) {
  const std::string path = put_file(one_tensor("U16", "[256,1024]", 524288));
  const std::string data = pattern(524288);
  const File file = open(path);
  std::string column;
  for (std::size_t row = 0; row < 256; ++row) column += data.substr(row * 2048 + 6, 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const Tensor t = file.tensor("t").value();
      for (int round = 0; round < 5; ++round) {
        if (data_of(t.view().value()) != data) ++wrong;
        std::string bytes(512, '\0');
        const auto destination = std::as_writable_bytes(std::span(bytes.data(), bytes.size()));
        if (!t.read_into(destination, {DimSlice::all(), DimSlice::at(3)}) || bytes != column) ++wrong;
        if (t.view({}, Map::copy_on_write).value().nbytes() != data.size()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(FileTest, ServesForkedChild) {
  const File file = open(put_file(two_tensors()));
  const Array before = tensor(file, "b").view().value();
  EXPECT_EQ(in_child([&] {
              return elements<std::uint16_t>(before)[1] == 2 && elements<float>(tensor(file, "a").read())[5] == 5.0F &&
                     elements<float>(tensor(file, "a").view())[5] == 5.0F;
            }),
            0);
}

}  // namespace
}  // namespace safetensors
