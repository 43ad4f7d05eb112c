// Digests of bytes, files, data, tensors and chunks, by known vectors and by a plain loop.
#include <safetensors/hash.h>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/error.h"
#include "hash/unordered_scan.h"
#include "support/file_support.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

constexpr std::uint64_t kChunk = 65536;

std::string hex(std::string_view text, HashAlgorithm algorithm = HashAlgorithm::sha256) {
  const Result<Digest> digest = hash_bytes(std::as_bytes(std::span(text)), algorithm);
  return digest ? to_hex(*digest) : digest.error().to_string();
}

File memory_file(std::string bytes) {
  const auto shared = std::make_shared<const std::string>(std::move(bytes));
  return File::from_memory(std::as_bytes(std::span(*shared)), shared).value();
}

// Tensors of many sizes: empty ones at the start, in between and at the end, a large one over several blocks.
std::string many_tensors() {
  const std::size_t sizes[] = {0, 1, 65535, 0, 3 << 20, 7, 65536, 100, 0};
  std::string header = "{\"__metadata__\":{\"ss_a\":\"b\",\"other\":\"c\"}";
  std::size_t offset = 0;
  for (std::size_t i = 0; i < std::size(sizes); ++i) {
    header += ",\"t" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(sizes[i]) +
              "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + sizes[i]) + "]}";
    offset += sizes[i];
  }
  return file_bytes(header + "}", pattern(offset));
}

class HashOf : public testing::TestWithParam<HashAlgorithm> {
 protected:
  void SetUp() override {
    if (hash_library(GetParam()).empty()) GTEST_SKIP() << "this build has no " << to_string(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Hash, HashOf, testing::Values(HashAlgorithm::sha256, HashAlgorithm::blake3),
                         [](const auto& given) { return std::string(to_string(given.param)); });

// FIPS 180-4 and the examples of NIST.
TEST(Hash, Sha256HasKnownVectors) {
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// The test vectors of the paper: bytes 0, 1, ..., 250, 0, 1, ...
TEST(Hash, Blake3HasKnownVectors) {
  if (hash_library(HashAlgorithm::blake3).empty()) GTEST_SKIP() << "this build has no BLAKE3";
  const auto input = [](std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i % 251);
    return bytes;
  };
  const auto blake3 = [&](std::size_t size) { return hex(input(size), HashAlgorithm::blake3); };
  EXPECT_EQ(blake3(0), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  EXPECT_EQ(blake3(1), "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213");
  EXPECT_EQ(blake3(1024), "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7");
  EXPECT_EQ(blake3(1025), "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444");
}

// The tree of blocks that threads hash has the root that one hasher finds.
TEST(Hash, Blake3OfAnySize) {
  if (hash_library(HashAlgorithm::blake3).empty()) GTEST_SKIP() << "this build has no BLAKE3";
  const std::size_t block = std::size_t{256} << 10;
  for (const std::size_t blocks : {1U, 2U, 3U, 4U, 7U, 8U, 13U}) {
    for (const std::size_t more : {0U, 1U, 1024U, 100000U}) {
      const std::size_t head = one_tensor("U8", "[1000000]", 0).size();  // about that of the file below
      const std::size_t size = blocks * block + more - head;
      const std::string bytes = one_tensor("U8", "[" + std::to_string(size) + "]", size);
      const Result<FileHashes> hashes =
          hash_file(memory_file(bytes), {.algorithm = HashAlgorithm::blake3, .threads = 3});
      ASSERT_TRUE(succeeds(hashes));
      EXPECT_EQ(to_hex(*hashes->file), hex(bytes, HashAlgorithm::blake3)) << bytes.size();
    }
  }
}

// A file on a disk is mapped if the system allows it. It refuses a lease while the file is open for writing.
// Access::read never maps.
TEST_P(HashOf, MappedAndReadBytesHaveOneDigest) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const std::string bytes = one_tensor("U8", "[20000013]", 20000013);
  put(path, bytes);
  const HashOptions options{
      .algorithm = GetParam(), .file = GetParam() == HashAlgorithm::blake3, .chunk_bytes = kChunk};
  const FileHashes want = hash_file(memory_file(bytes), options).value();
  for (const bool writing : {false, true}) {
    const std::ofstream writer = writing ? std::ofstream(path, std::ios::app) : std::ofstream();
    for (const Access access : {Access::automatic, Access::read}) {
      for (const unsigned threads : {1U, 3U}) {
        HashOptions how = options;
        how.threads = threads;
        const Result<FileHashes> hashes = hash_file(File::open(path, {.access = access}).value(), how);
        ASSERT_TRUE(succeeds(hashes));
        EXPECT_EQ(hashes->file, want.file);
        EXPECT_EQ(hashes->chunks, want.chunks);
      }
    }
  }
}

// The function of the caller may take long. Other programs can write to the file meanwhile.
TEST_P(HashOf, ProgressRunsWithoutALease) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  put(path, one_tensor("U8", "[30000013]", 30000013));
  int calls = 0;
  const auto progress = [&](auto, auto) {
    ++calls;
    const int writer = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(writer, 0) << std::strerror(errno);
    if (writer >= 0) ::close(writer);
    return true;
  };
  const Result<FileHashes> hashes = hash_file(File::open(path).value(), {.algorithm = GetParam(),
                                                                         .file = GetParam() == HashAlgorithm::blake3,
                                                                         .chunk_bytes = kChunk,
                                                                         .threads = 1,
                                                                         .progress = progress});
  ASSERT_TRUE(succeeds(hashes));
  EXPECT_GE(calls, 3);
}

// The file is so large that a product of its size would not fit into 64 bits. It has no blocks on the disk.
TEST(Hash, NoThreadGoesOnAfterAnError) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  const std::string head =
      file_bytes("{\"a\":{\"dtype\":\"U8\",\"shape\":[1099511627776],\"data_offsets\":[0,1099511627776]}}", "");
  put(path, head);
  std::error_code failed;
  std::filesystem::resize_file(path, head.size() + (std::uint64_t{1} << 40), failed);
  if (failed) GTEST_SKIP() << "the file system has no files of 1 TiB";
  const File file = File::open(path).value();
  io::ProgressMeter meter(nullptr, file.header().file_bytes(), 0, path);
  int calls = 0;
  hash::UnorderedScan scan(file, std::size_t{16} << 20, meter, [&](std::uint64_t, auto) -> Status {
    ++calls;
    return base::make_error(Errc::read_failed, "the consumer fails");
  });
  EXPECT_FALSE(scan.run_all(1));
  EXPECT_TRUE(succeeds(scan.run(1)));
  EXPECT_EQ(calls, 1);
}

// Access to a map of a shorter file would end the process.
TEST_P(HashOf, TruncatedFileIsAnError) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.safetensors";
  put(path, one_tensor("U8", "[20000013]", 20000013));
  const File file = File::open(path).value();
  std::filesystem::resize_file(path, 10000000);
  const Result<FileHashes> hashes =
      hash_file(file, {.algorithm = GetParam(), .file = GetParam() == HashAlgorithm::blake3, .chunk_bytes = kChunk});
  ASSERT_FALSE(hashes);
  EXPECT_EQ(hashes.error().code, Errc::file_truncated);
}

TEST(Hash, HexRoundTrips) {
  const std::string text = hex("abc");
  ASSERT_TRUE(digest_from_hex(text));
  EXPECT_EQ(to_hex(*digest_from_hex(text)), text);
  EXPECT_FALSE(digest_from_hex(text.substr(1)));
  EXPECT_FALSE(digest_from_hex(text.substr(1) + "g"));
  for (const std::string pair : {"-1", "+1", " 1", "1 ", "0x", "g0"})
    EXPECT_FALSE(digest_from_hex(pair + text.substr(2)));
  EXPECT_EQ(to_hex(*digest_from_hex("Ab" + text.substr(2))), "ab" + text.substr(2));
}

TEST_P(HashOf, FileDataTensorsAndChunks) {
  const std::string bytes = many_tensors();
  const File file = memory_file(bytes);
  const std::string_view all = bytes;
  const auto start = static_cast<std::size_t>(file.header().data_start());
  for (const unsigned threads : {1U, 2U, 5U}) {
    const Result<FileHashes> hashes = hash_file(
        file, {.algorithm = GetParam(), .data = true, .tensors = true, .chunk_bytes = kChunk, .threads = threads});
    ASSERT_TRUE(succeeds(hashes));
    EXPECT_EQ(to_hex(hashes->header), hex(all.substr(0, start), GetParam()));
    EXPECT_EQ(to_hex(*hashes->file), hex(all, GetParam()));
    EXPECT_EQ(to_hex(*hashes->data), hex(all.substr(start), GetParam()));
    const TensorList tensors = file.header().tensors();
    ASSERT_EQ(hashes->tensors.size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      EXPECT_EQ(to_hex(hashes->tensors[i]), hex(all.substr(tensors[i].file_offset, tensors[i].nbytes()), GetParam()));
    ASSERT_EQ(hashes->chunks.size(), (all.size() + kChunk - 1) / kChunk);
    for (std::size_t i = 0; i < hashes->chunks.size(); ++i)
      EXPECT_EQ(to_hex(hashes->chunks[i]), hex(all.substr(i * kChunk, kChunk), GetParam()));
    const Result<FileHashes> alone =
        hash_file(file, {.algorithm = GetParam(), .file = false, .tensors = true, .threads = threads});
    ASSERT_TRUE(succeeds(alone));
    EXPECT_EQ(alone->tensors, hashes->tensors);
    EXPECT_FALSE(alone->file);
  }
}

TEST(Hash, SelectsTensors) {
  const std::string bytes = many_tensors();
  const File file = memory_file(bytes);
  const TensorInfo& wanted = file.header().tensors()[1];
  std::uint64_t total = 0;
  HashOptions options{.file = false, .tensors = true, .threads = 2, .progress = [&](std::uint64_t, std::uint64_t all) {
                        total = all;
                        return true;
                      }};
  options.select = [&](const TensorInfo& tensor) { return tensor.name == wanted.name; };
  const Result<FileHashes> hashes = hash_file(file, options);
  ASSERT_TRUE(succeeds(hashes));
  ASSERT_EQ(hashes->tensors.size(), 1U);
  EXPECT_EQ(to_hex(hashes->tensors[0]), hex(std::string_view(bytes).substr(static_cast<std::size_t>(wanted.file_offset),
                                                                           static_cast<std::size_t>(wanted.nbytes()))));
  EXPECT_EQ(total, wanted.nbytes());
  options.select = [](const TensorInfo&) { return false; };
  const Result<FileHashes> none = hash_file(file, options);
  ASSERT_TRUE(succeeds(none));
  EXPECT_TRUE(none->tensors.empty());
}

TEST(Hash, RefusesSelectionForOtherDigests) {
  const File file = memory_file(many_tensors());
  const auto all = [](const TensorInfo&) { return true; };
  for (const HashOptions& options :
       {HashOptions{.tensors = true, .select = all},
        HashOptions{.file = false, .data = true, .tensors = true, .select = all},
        HashOptions{.file = false, .tensors = true, .chunk_bytes = kChunk, .select = all}}) {
    const Result<FileHashes> hashes = hash_file(file, options);
    ASSERT_FALSE(hashes);
    EXPECT_EQ(hashes.error().code, Errc::invalid_argument);
    EXPECT_EQ(hashes.error().message,
              "a selection is for the digests of tensors only: found another digest, expected none");
  }
}

TEST(Hash, FileWithoutTensors) {
  const std::string bytes = file_bytes("{}", "");
  const Result<FileHashes> hashes =
      hash_file(memory_file(bytes), {.data = true, .tensors = true, .chunk_bytes = kChunk});
  ASSERT_TRUE(succeeds(hashes));
  EXPECT_EQ(to_hex(*hashes->file), hex(bytes));
  EXPECT_EQ(to_hex(*hashes->data), hex(""));
  EXPECT_EQ(hashes->chunks.size(), 1U);
}

TEST(Hash, RefusesUnsuitableChunks) {
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{3 * 65536}, std::uint64_t{32} << 20}) {
    const Result<FileHashes> hashes = hash_file(memory_file(two_tensors()), {.chunk_bytes = size});
    ASSERT_FALSE(hashes);
    EXPECT_EQ(hashes.error().code, Errc::invalid_argument);
    EXPECT_EQ(hashes.error().message,
              "chunks of " + std::to_string(size) + " bytes: expected a power of two from 65536 to 16777216");
  }
}

TEST(Hash, ProgressCancels) {
  const File file = memory_file(many_tensors());
  for (const bool whole : {true, false}) {
    const Result<FileHashes> hashes =
        hash_file(file, {.file = whole, .tensors = !whole, .threads = 1, .progress = [](auto, auto) { return false; }});
    ASSERT_FALSE(hashes);
    EXPECT_EQ(hashes.error().code, Errc::cancelled);
  }
}

// The definition in a plain form: the file again, with the keys that begin with "ss_".
TEST(Hash, ModelHashesIgnoreOtherMetadata) {
  const std::string bytes = many_tensors();
  const File file = memory_file(bytes);
  const auto start = static_cast<std::size_t>(file.header().data_start());
  std::string text = bytes.substr(8, start - 8);
  const std::string other = ",\"other\":\"c\"";
  text.erase(text.find(other), other.size());
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::string reduced = file_bytes(text, bytes.substr(start));
  const Result<ModelHashes> hashes = model_hashes(file);
  ASSERT_TRUE(succeeds(hashes));
  EXPECT_EQ(hashes->model, hex(std::string_view(bytes).substr(start)));
  EXPECT_EQ(hashes->legacy, hex(std::string_view(reduced).substr(0x100000, 0x10000)).substr(0, 8));
}

// A file shorter than 1 MiB has no bytes there.
TEST(Hash, LegacyHashOfSmallFile) {
  const Result<ModelHashes> hashes = model_hashes(memory_file(two_tensors()));
  ASSERT_TRUE(succeeds(hashes));
  EXPECT_EQ(hashes->legacy, "e3b0c442");
}

}  // namespace
}  // namespace safetensors::test
