// Checkpoint::headers() and open_with_headers(): the same checkpoint without a read of any header.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/read_plan.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "format/header/packed_headers.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

using format::pack_headers;
using format::PackedFile;
using Names = std::vector<std::string>;

class CheckpointHeaders : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0); }
  std::string folder() const { return directory_ / "model"; }
  std::string at(const std::string& name) const { return folder() + "/" + name; }
  // Two files and their index. The index does not name `hidden` of two.safetensors.
  void put_two() const {
    put(at("one.safetensors"), u8_file({{"x", "xx"}, {"y", "yyy"}}));
    put(at("two.safetensors"), u8_file({{"z", "z"}, {"hidden", "hh"}}));
    put(at("model.safetensors.index.json"),
        index_text({{"z", "two.safetensors"}, {"x", "one.safetensors"}, {"y", "one.safetensors"}}));
  }
  static std::string headers_of(const std::string& path) {
    const Result<std::string> headers = Checkpoint::open(path).value().headers();
    return succeeds(headers) ? *headers : std::string();
  }
  std::size_t open() const { return open_below(directory_.path()); }
  TemporaryDirectory directory_;
};

void expect_error(const Result<Checkpoint>& opened, Errc code, const std::string& message, const std::string& path = {},
                  std::uint64_t offset = Error::kNoOffset) {
  const Error error = error_of(opened);
  EXPECT_EQ(error.code, code) << error.to_string();
  EXPECT_EQ(error.message, message);
  EXPECT_EQ(error.path, path);
  EXPECT_EQ(error.offset, offset);
}

void expect_same(const Checkpoint& a, const Checkpoint& b) {
  ASSERT_EQ(names_of(a), names_of(b));
  ASSERT_EQ(a.files().size(), b.files().size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor one = a.tensors()[i];
    const Tensor other = b.tensors()[i];
    const TensorInfo& left = one.info();
    const TensorInfo& right = other.info();
    EXPECT_EQ(left.dtype, right.dtype);
    EXPECT_EQ(Shape(left.shape), Shape(right.shape));
    EXPECT_EQ(left.file_offset, right.file_offset);
    EXPECT_EQ(left.end, right.end);
  }
  for (std::size_t i = 0; i < a.files().size(); ++i) {
    const Header& left = a.files()[i].header();
    const Header& right = b.files()[i].header();
    EXPECT_EQ(left.file_bytes(), right.file_bytes());
    EXPECT_EQ(left.text().value(), right.text().value());
    EXPECT_EQ(left.leading_whitespace(), right.leading_whitespace());
  }
  EXPECT_EQ(a.index_metadata(), b.index_metadata());
  EXPECT_EQ(a.index_total_size(), b.index_total_size());
  EXPECT_EQ(a.unindexed_tensors().size(), b.unindexed_tensors().size());
}

TEST_F(CheckpointHeaders, OpenSameCheckpoint) {
  put_two();
  const Checkpoint opened = Checkpoint::open(folder()).value();
  const std::string headers = opened.headers().value();
  EXPECT_EQ(opened.headers().value(), headers);
  for (const std::string& path : {folder(), folder() + "/", at("model.safetensors.index.json"), at("*.safetensors")}) {
    const Result<Checkpoint> imported = Checkpoint::open_with_headers(path, headers);
    ASSERT_TRUE(succeeds(imported));
    expect_same(opened, *imported);
    EXPECT_EQ(imported->headers().value(), headers);
    EXPECT_EQ(imported->files()[0].path(), folder() + "/one.safetensors");
    EXPECT_EQ(imported->unindexed_tensors()[0].name(), "hidden");
    EXPECT_EQ(imported->stray_files().value(), Names{});
    EXPECT_EQ(read_text(imported->tensor("y")), "yyy");
    EXPECT_EQ(read_text(imported->tensor("z")), "z");
    EXPECT_FALSE(imported->contains("hidden"));
  }
}

TEST_F(CheckpointHeaders, NeedNoShards) {
  put_two();
  const Checkpoint opened = Checkpoint::open(folder()).value();
  const std::string headers = opened.headers().value();
  std::filesystem::remove(at("one.safetensors"));
  std::filesystem::remove(at("two.safetensors"));
  std::filesystem::remove(at("model.safetensors.index.json"));
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), headers).value();
  expect_same(opened, imported);
  const Error error = error_of(imported.tensor("z").value().read());
  EXPECT_EQ(error.code, Errc::open_failed);
  EXPECT_EQ(error.os_error, ENOENT);
  EXPECT_EQ(error.path, at("two.safetensors"));
  EXPECT_EQ(error.message, "tensor `z`: cannot open: no such file or directory");
  EXPECT_EQ(error_of(imported.tensor("z").value().view()).code, Errc::open_failed);
  // The file may also come later.
  put_two();
  EXPECT_EQ(read_text(imported.tensor("z")), "z");
}

TEST_F(CheckpointHeaders, OpenShardsOnFirstRead) {
  const TemporaryDirectory shards;
  put_model(shards, 12);
  const std::string headers = headers_of(shards.path());
  const Checkpoint imported = Checkpoint::open_with_headers(shards.path(), headers).value();
  EXPECT_EQ(open_below(shards.path()), 0U);
  EXPECT_EQ(read_text(imported.tensor("t00003")), model_bytes(3));
  EXPECT_EQ(open_below(shards.path()), 1U);
  EXPECT_EQ(read_text(imported.tensor("t00003")), model_bytes(3));
  EXPECT_EQ(open_below(shards.path()), 1U);
  EXPECT_EQ(data_of(imported.tensor("t00004").value().view().value()), model_bytes(4));
  EXPECT_EQ(open_below(shards.path()), 2U);
}

TEST_F(CheckpointHeaders, ServePlansStreamsAndSlices) {
  const TemporaryDirectory shards;
  put_model(shards, 20);
  const std::string headers = headers_of(shards.path());
  for (const Access access : {Access::automatic, Access::map, Access::read}) {
    const Checkpoint imported =
        Checkpoint::open_with_headers(shards.path(), headers, {.open = {.access = access, .parse = {}}}).value();
    ReadPlan plan;
    for (const Tensor& tensor : imported.tensors()) ASSERT_TRUE(succeeds(plan.add(tensor)));
    ASSERT_TRUE(succeeds(plan.add(imported["t00007"], "2:9:3")));
    const ReadResult result = plan.execute({.threads = 4}).value();
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(data_of(result.arrays[i]), model_bytes(i));
    const std::string whole = model_bytes(7);
    EXPECT_EQ(data_of(result.arrays[20]), (std::string{whole[2], whole[5], whole[8]}));
    EXPECT_EQ(data_of(imported["t00009"].view("1:4").value()), model_bytes(9).substr(1, 3));
  }
  const Checkpoint imported = Checkpoint::open_with_headers(shards.path(), headers).value();
  ReadPlan plan;
  for (const Tensor& tensor : imported.tensors()) ASSERT_TRUE(succeeds(plan.add(tensor)));
  Stream stream = plan.stream().value();
  std::size_t count = 0;
  for (auto item = stream.next().value(); item; item = stream.next().value(), ++count)
    EXPECT_EQ(data_of(item->array), model_bytes(item->index));
  EXPECT_EQ(count, 20U);
}

TEST_F(CheckpointHeaders, KeepAccessOfOpen) {
  put_two();
  const Checkpoint opened = Checkpoint::open(folder()).value();
  const std::string headers = opened.headers().value();
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), headers).value();
  const Array array = imported["x"].view().value();
  EXPECT_EQ(array.memory(), opened["x"].view().value().memory());
  EXPECT_EQ(imported.files()[1].access(), opened.files()[1].access());
  for (const Access access : {Access::map, Access::read}) {
    const Checkpoint chosen =
        Checkpoint::open_with_headers(folder(), headers, {.open = {.access = access, .parse = {}}}).value();
    EXPECT_EQ(chosen.files()[0].access(), access);
    EXPECT_EQ(chosen["x"].view().value().memory(), access == Access::map ? MemoryKind::shared_map : MemoryKind::owned);
  }
}

TEST_F(CheckpointHeaders, NoticeChangedSize) {
  put_two();
  const std::string headers = headers_of(folder());
  put(at("one.safetensors"), u8_file({{"x", "xx"}, {"y", "yyyy"}}));
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), headers).value();
  const auto size = std::filesystem::file_size(at("one.safetensors"));
  const Error error = error_of(imported["y"].read());
  EXPECT_EQ(error.code, Errc::file_changed);
  EXPECT_EQ(error.path, at("one.safetensors"));
  EXPECT_EQ(error.message, "tensor `y`: file has another size than its header says: it has " + std::to_string(size) +
                               " bytes, expected " + std::to_string(size - 1));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(imported["x"])));
  EXPECT_EQ(error_of(plan.execute()).message.substr(0, 40),
            std::string(error.message).replace(8, 1, "x").substr(0, 40));
  EXPECT_EQ(error_of(imported["x"].view()).code, Errc::file_changed);
  EXPECT_EQ(read_text(imported.tensor("z")), "z");
}

TEST_F(CheckpointHeaders, NoticeIrregularFile) {
  put_two();
  const std::string headers = headers_of(folder());
  std::filesystem::remove(at("one.safetensors"));
  std::filesystem::remove(at("two.safetensors"));
  ASSERT_EQ(::mkfifo(at("one.safetensors").c_str(), 0600), 0);
  ASSERT_EQ(::mkdir(at("two.safetensors").c_str(), 0700), 0);
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), headers).value();
  const Error error = error_of(imported["x"].read());
  EXPECT_EQ(error.code, Errc::not_regular_file);
  EXPECT_EQ(error.path, at("one.safetensors"));
  EXPECT_EQ(error_of(imported["z"].read()).code, Errc::not_regular_file);
}

TEST_F(CheckpointHeaders, NoticeChangeAfterFirstRead) {
  const TemporaryDirectory shards;
  put_model(shards, 3);
  const std::string headers = headers_of(shards.path());
  const Checkpoint imported = Checkpoint::open_with_headers(shards.path(), headers).value();
  EXPECT_EQ(read_text(imported.tensor("t00001")), model_bytes(1));
  // A child has the same identity of the file, and opens it again.
  EXPECT_EQ(in_child([&] { return read_text(imported.tensor("t00001")) == model_bytes(1); }), 0);
  EXPECT_EQ(in_child([&] { return read_text(imported.tensor("t00002")) == model_bytes(2); }), 0);
}

TEST_F(CheckpointHeaders, ServeManyThreads) {
  const TemporaryDirectory shards;
  put_model(shards, 8);
  const std::string headers = headers_of(shards.path());
  for (int round = 0; round < 20; ++round) {
    const Checkpoint imported = Checkpoint::open_with_headers(shards.path(), headers).value();
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = 0; i < 8; ++i) {
          if (imported.files()[i].access() == Access::automatic) ++wrong;
          if (read_text(imported.tensor(numbered("t", i))) != model_bytes(i)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(open_below(shards.path()), 8U);
  }
}

TEST_F(CheckpointHeaders, FollowMovedFolder) {
  put_two();
  const std::string headers = headers_of(at("model.safetensors.index.json"));
  EXPECT_EQ(headers.find(directory_.path()), std::string::npos);
  std::filesystem::rename(folder(), directory_ / "elsewhere");
  const Checkpoint imported = Checkpoint::open_with_headers(directory_ / "elsewhere", headers).value();
  EXPECT_EQ(read_text(imported.tensor("x")), "xx");
  expect_error(Checkpoint::open_with_headers(folder(), headers), Errc::open_failed,
               "cannot open: no such file or directory", folder());
  const std::string shard = directory_ / "elsewhere/one.safetensors";
  expect_error(Checkpoint::open_with_headers(shard, headers), Errc::open_failed, "cannot open: not a directory", shard);
  expect_error(Checkpoint::open_with_headers(std::string("a\0b", 3), headers), Errc::invalid_argument,
               "path contains a zero byte", std::string("a\0b", 3));
}

TEST_F(CheckpointHeaders, KeepRelativePath) {
  put_two();
  const std::string headers = headers_of(folder());
  EXPECT_EQ(in_child([&] {
              if (::chdir(directory_.path().c_str()) != 0) return false;
              const Checkpoint imported = Checkpoint::open_with_headers("model", headers).value();
              return ::chdir("/") == 0 && read_text(imported.tensor("x")) == "xx" &&
                     imported.files()[0].path() == "model/one.safetensors";
            }),
            0);
}

TEST_F(CheckpointHeaders, OpenOneFile) {
  put(at("one.safetensors"), u8_file({{"x", "xx"}}));
  const std::string headers = headers_of(at("one.safetensors"));
  EXPECT_EQ(read_text(Checkpoint::open_with_headers(folder(), headers).value().tensor("x")), "xx");
  std::filesystem::rename(at("one.safetensors"), at("blob"));
  EXPECT_EQ(read_text(Checkpoint::open_with_headers(at("blob"), headers).value().tensor("x")), "xx");
  // A name that no index may have.
  std::filesystem::rename(at("blob"), at("a:b"));
  const std::string unnamed = headers_of(at("a:b"));
  EXPECT_EQ(read_text(Checkpoint::open_with_headers(at("a:b"), unnamed).value().tensor("x")), "xx");
  expect_error(Checkpoint::open_with_headers(folder(), unnamed), Errc::invalid_argument,
               "invalid headers of a checkpoint: they have no name of the file (give the path of the file, not of its "
               "folder)");
}

TEST_F(CheckpointHeaders, OpenFilesWithoutIndex) {
  ASSERT_EQ(::mkdir(at("a").c_str(), 0700), 0);
  put(at("a/one"), u8_file({{"x", "xx"}}));
  put(at("two"), u8_file({{"y", "y"}}));
  const Checkpoint opened = Checkpoint::open({at("a/one"), at("two")}).value();
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), opened.headers().value()).value();
  expect_same(opened, imported);
  EXPECT_EQ(read_text(imported.tensor("x")), "xx");
  EXPECT_EQ(read_text(imported.tensor("y")), "y");
  put(at("c:d"), u8_file({{"z", "z"}}));
  const Error error = error_of(Checkpoint::open({at("two"), at("c:d")}).value().headers());
  EXPECT_EQ(error.code, Errc::unsupported);
  EXPECT_EQ(error.path, at("c:d"));
  EXPECT_EQ(error.message,
            "cannot export headers: this file has no name below the folder of all files: it holds a colon");
}

TEST_F(CheckpointHeaders, KeepTextOfEveryForm) {
  const std::string text =
      R"( {"b\u0041":{ "shape" :[0], "dtype":"F32","data_offsets":[0,0],"ignored":[1,{}]},)"
      R"("__metadata__":{"k":"\n\u0001é"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}   )";
  put(at("one.safetensors"), file_bytes(text, "12"));
  const CheckpointOptions options{
      .open = {.access = Access::automatic, .parse = {.allow_leading_whitespace = true, .cancelled = {}}}};
  const Checkpoint opened = Checkpoint::open(folder(), options).value();
  const std::string headers = opened.headers().value();
  const Checkpoint imported = Checkpoint::open_with_headers(folder(), headers, options).value();
  expect_same(opened, imported);
  EXPECT_EQ(imported.metadata().find("k"), "\n\1é");
  EXPECT_EQ(read_text(imported.tensor("a")), "12");
  expect_error(Checkpoint::open_with_headers(folder(), headers), Errc::json_leading_whitespace,
               "invalid JSON in header: white space before the { that a header begins with",
               folder() + "/one.safetensors", 8);
}

// One file with one tensor, in parts that a test can change.
struct Parts {
  std::string text = R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  std::string name = "one.safetensors";
  std::string metadata;
  std::string visible;
  std::uint64_t file_size = 8 + text.size() + 2;
  bool has_index = true;
  [[nodiscard]] Result<Checkpoint> open(const std::string& folder, const CheckpointOptions& options = {}) const {
    return Checkpoint::open_with_headers(
        folder, pack_headers({has_index, metadata, {{name, text, file_size, visible}}}), options);
  }
};

TEST_F(CheckpointHeaders, AreCheckedByAllRules) {
  const std::string path = folder() + "/one.safetensors";
  EXPECT_TRUE(succeeds(Parts{}.open(folder())));
  Parts parts;
  parts.file_size = 7;
  EXPECT_EQ(error_of(parts.open(folder())).code, Errc::header_too_small);
  parts.file_size = parts.text.size();
  EXPECT_EQ(error_of(parts.open(folder())).code, Errc::invalid_header_length);
  parts.file_size = 8 + parts.text.size() + 3;
  EXPECT_EQ(error_of(parts.open(folder())).code, Errc::incomplete_data);
  EXPECT_EQ(error_of(parts.open(folder())).path, path);
  EXPECT_EQ(error_of(Parts{}.open(folder(), {.open = {.access = Access::read, .parse = {.max_header_bytes = 9}}})).code,
            Errc::header_too_large);
  parts = {};
  parts.text[parts.text.find("[2]") + 1] = '9';
  EXPECT_EQ(error_of(parts.open(folder())).code, Errc::size_mismatch) << parts.text;
  parts = {};
  parts.text[0] = '[';
  EXPECT_EQ(error_of(parts.open(folder())).path, path);
}

TEST_F(CheckpointHeaders, RefuseForbiddenNames) {
  for (const std::string name :
       {"", "/etc/a.safetensors", "../a.safetensors", "a/../../b.safetensors", "a", "a\nb.safetensors"}) {
    Parts parts;
    parts.name = name;
    EXPECT_EQ(error_of(parts.open(folder())).code, Errc::invalid_argument) << name;
  }
  Parts parts;
  parts.has_index = false;
  parts.name = "../one";
  expect_error(parts.open(folder()), Errc::invalid_argument,
               "invalid headers of a checkpoint: no file may be called `../one`: it leads out of a folder");
}

TEST_F(CheckpointHeaders, RefuseInvalidMetadataOfIndex) {
  for (const std::string metadata : {"{}", R"({"total_size":7,"a":[1,null]})"}) {
    Parts parts;
    parts.metadata = metadata;
    const Checkpoint opened = parts.open(folder()).value();
    EXPECT_EQ(opened.index_metadata(), metadata);
  }
  for (const std::string metadata :
       {"{", "[]", " {}", "{},\"weight_map\":{}", "{},\"metadata\":{}", "7", "{\"a\": 1}"}) {
    Parts parts;
    parts.metadata = metadata;
    expect_error(parts.open(folder()), Errc::invalid_argument,
                 "invalid headers of a checkpoint: the metadata of the index are not an object");
  }
}

TEST_F(CheckpointHeaders, RefuseInvalidFlags) {
  Parts parts;
  parts.visible = std::string(1, '\1');
  EXPECT_EQ(parts.open(folder()).value().size(), 1U);
  parts.visible = std::string(1, '\0');
  EXPECT_EQ(parts.open(folder()).value().size(), 0U);
  for (const std::string& visible : {std::string(1, '\3'), std::string(2, '\1'), std::string(1, '\x80')}) {
    parts.visible = visible;
    expect_error(parts.open(folder()), Errc::invalid_argument,
                 "invalid headers of a checkpoint: the flags of visible tensors do not fit the number of tensors");
  }
}

TEST_F(CheckpointHeaders, RefuseOtherBytes) {
  const Parts parts;
  const std::string good = pack_headers({true, {}, {{parts.name, parts.text, parts.file_size, {}}}});
  const std::string invalid = "invalid headers of a checkpoint: ";
  expect_error(Checkpoint::open_with_headers(folder(), ""), Errc::invalid_argument,
               invalid + "they do not begin with `STheader` (use the bytes that headers() returned)", "", 0);
  expect_error(Checkpoint::open_with_headers(folder(), good + "ab"), Errc::invalid_argument,
               invalid + "2 bytes after the last file", "", good.size());
  for (std::size_t size = 8; size < good.size(); ++size)
    EXPECT_EQ(error_of(Checkpoint::open_with_headers(folder(), good.substr(0, size))).message,
              invalid + "they end too early");
  std::string other = good;
  other[8] = 2;
  expect_error(Checkpoint::open_with_headers(folder(), other), Errc::unsupported,
               "headers of a checkpoint have version 2, expected 1 (use one version of safetensors in all processes)");
  other = good;
  other[24] = 2;
  expect_error(Checkpoint::open_with_headers(folder(), other), Errc::invalid_argument,
               invalid + "metadata of an index without an index", "", 24);
  // A count of files that no memory could hold.
  other = good;
  std::memset(other.data() + 16, 0xFF, 8);
  EXPECT_EQ(error_of(Checkpoint::open_with_headers(folder(), other)).code, Errc::invalid_argument);
}

TEST_F(CheckpointHeaders, RefuseTensorInTwoFiles) {
  const Parts parts;
  const PackedFile file{parts.name, parts.text, parts.file_size, {}};
  PackedFile other = file;
  other.name = "two.safetensors";
  const std::string f = folder();
  expect_error(Checkpoint::open_with_headers(f, pack_headers({true, {}, {file, other}})), Errc::duplicate_name,
               "tensor `x` is in two files: `" + f + "/one.safetensors` and `" + f + "/two.safetensors`");
}

// Random damage gives an error or a checkpoint that can be used. Runs under the sanitizers, too.
TEST_F(CheckpointHeaders, SurviveRandomDamage) {
  put_two();
  const std::string good = headers_of(folder());
  std::mt19937 random(7);
  std::size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (std::size_t changes = random() % 3 + 1; changes > 0; --changes) {
      const std::size_t offset = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[offset] = static_cast<char>(random());
          break;
        case 1:
          bytes[offset] = static_cast<char>(static_cast<unsigned char>(bytes[offset]) ^ 1U << random() % 8);
          break;
        case 2:
          bytes.erase(offset, random() % 9);
          break;
        default:
          bytes.insert(offset, bytes.substr(random() % bytes.size(), random() % 9));
      }
      if (bytes.empty()) bytes = "x";
    }
    const Result<Checkpoint> opened = Checkpoint::open_with_headers(folder(), bytes);
    if (!opened) {
      EXPECT_NE(opened.error().code, Errc::ok);
      EXPECT_FALSE(opened.error().message.empty());
      continue;
    }
    ++accepted;
    EXPECT_TRUE(succeeds(opened->headers()));
    for (const Tensor& tensor : opened->tensors()) (void)tensor.read();
    for (const File& file : opened->files()) EXPECT_TRUE(file.path().starts_with(folder() + "/")) << file.path();
  }
  EXPECT_GT(accepted, 100U);
  EXPECT_LT(accepted, 20000U);
}

}  // namespace
}  // namespace safetensors::test
