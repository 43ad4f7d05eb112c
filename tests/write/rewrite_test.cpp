// Rewrite: bytes, order, metadata, files and casts of the output, and the old files after every error.
#include "write/rewrite.h"

#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/save.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <string>
#include <vector>

#include "format/checkpoint/checkpoint_layout.h"
#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

class RewriteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(succeeds(
        save(path_, {{"b", {2, 3}, floats_}, {"a", {4}, bytes_}, {"h", {2}, longs_}}, {{"format", "pt"}, {"x", "y"}})));
  }
  static std::vector<RewriteTensor> all(const Checkpoint& model) {
    std::vector<RewriteTensor> tensors;
    for (const Tensor& tensor : model.tensors()) tensors.push_back({.tensor = tensor});
    return tensors;
  }
  static RewriteOptions options(const Checkpoint& model) {
    return {.metadata = merge_metadata(model.files()).value(), .index_metadata = std::string(model.index_metadata())};
  }
  [[nodiscard]] Checkpoint open(std::string_view name) const { return Checkpoint::open(directory_ / name).value(); }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "in.safetensors";
  const std::string out_ = directory_ / "out.safetensors";
  const std::vector<float> floats_{0, 1, 2, 3, 4, 5};
  const std::vector<std::uint8_t> bytes_{1, 2, 3, 4};
  const std::vector<std::int64_t> longs_{-1, 7};
};

TEST_F(RewriteTest, CopiesFileByteForByte) {
  const Checkpoint in = open("in.safetensors");
  ASSERT_TRUE(succeeds(Rewrite::plan(all(in), options(in)).value().write(out_)));
  EXPECT_EQ(contents(out_), contents(path_));
}

TEST_F(RewriteTest, MergeOfSplitIsSameFile) {
  const Checkpoint in = open("in.safetensors");
  for (const std::uint64_t size : {1U, 16U, 24U, 28U, 1000U}) {
    RewriteOptions split = options(in);
    split.folder = true;
    split.max_shard_size = size;
    const std::string folder = directory_ / ("model" + std::to_string(size));
    ASSERT_TRUE(succeeds(Rewrite::plan(all(in), split).value().write(folder)));
    const Checkpoint model = Checkpoint::open(folder).value();
    ASSERT_TRUE(succeeds(Rewrite::plan(all(model), options(model)).value().write(out_)));
    EXPECT_EQ(contents(out_), contents(path_)) << size;
  }
}

TEST_F(RewriteTest, FindsOldFilesThatTheInputDoesNotCover) {
  const std::string folder = directory_ / "model";
  {
    const Checkpoint in = open("in.safetensors");
    RewriteOptions split = options(in);
    split.folder = true;
    split.stem = "model";
    split.max_shard_size = 1;
    const Rewrite rewrite = Rewrite::plan(all(in), split).value();
    ASSERT_TRUE(succeeds(rewrite.write(folder)));
    EXPECT_TRUE(succeeds(rewrite.check_old_files(folder, in)));  // another model is replaced as asked
  }
  const auto check = [&](const std::string& path) {
    const Checkpoint in = Checkpoint::open(path).value();
    return Rewrite::plan(all(in), {.folder = true, .stem = "model"}).value().check_old_files(folder, in);
  };
  EXPECT_TRUE(succeeds(check(folder)));
  const Status part = check(folder + "/model-00002-of-00003.safetensors");
  ASSERT_FALSE(part.ok());
  EXPECT_EQ(part.error().code, Errc::invalid_argument);
  EXPECT_NE(part.error().message.find("`model-00001-of-00003.safetensors`, `model-00003-of-00003.safetensors`"),
            std::string::npos)
      << part.error().message;
}

// Nobody can move 40 files of which an error names 3.
TEST_F(RewriteTest, NamesManyOldFilesByTheirPattern) {
  const std::string folder = directory_ / "";
  for (int i = 1; i <= 5; ++i)
    put(folder + "m-0000" + std::to_string(i) + "-of-00005.safetensors",
        u8_file({{"t" + std::to_string(i), std::to_string(i)}}));
  put(folder + "m.safetensors", u8_file({{"other", "2"}}));
  const Checkpoint in = open("m-00003-of-00005.safetensors");
  const Rewrite rewrite = Rewrite::plan(all(in), {.folder = true, .stem = "m"}).value();
  const Error error = rewrite.check_old_files(folder, in).error();
  EXPECT_EQ(error.message.substr(0, error.message.find(", whose")),
            "the new model would remove or replace `m-*-of-00005.safetensors` (4 files), `m.safetensors`");
  for (const int count : {3, 6, 4, 2}) {
    for (int i = 1; i <= count; ++i)
      put(folder + "m-0000" + std::to_string(i) + "-of-0000" + std::to_string(count) + ".safetensors",
          u8_file({{"t" + std::to_string(i), "x"}}));
  }
  const std::string many = rewrite.check_old_files(folder, in).error().message;
  EXPECT_EQ(many.substr(0, many.find(", whose")),
            "the new model would remove or replace `m-*-of-00002.safetensors` (2 files), `m-*-of-00003.safetensors` (3 "
            "files), `m-*-of-00004.safetensors` (4 files) and 11 more");
}

TEST_F(RewriteTest, FindsOldTensorsThatTheIndexLacks) {
  const std::string folder = directory_ / "";
  put(folder + "model.safetensors", u8_file({{"a", "1"}}));
  put(folder + "model-00001-of-00001.safetensors", u8_file({{"a", "1"}, {"lost", "2"}}));
  put(folder + "model.safetensors.index.json", index_text({{"a", "model-00001-of-00001.safetensors"}}));
  const Checkpoint in = open("model.safetensors.index.json");
  const Rewrite rewrite = Rewrite::plan(all(in), {.folder = true, .stem = "model"}).value();
  const Error error = rewrite.check_old_files(folder, in).error();
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(
      error.message,
      "the new model would remove or replace `model-00001-of-00001.safetensors`, whose tensors are not all in the "
      "input: give the whole model as the input, write into another folder, or move these files away");
}

// The new files have the names of the old ones, of which the input is one.
TEST_F(RewriteTest, FindsOldFilesOfTheNewNames) {
  put(directory_ / "model-00001-of-00002.safetensors", u8_file({{"x", "1"}, {"y", "2"}}));
  put(directory_ / "model-00002-of-00002.safetensors", u8_file({{"a", "3"}}));
  const Checkpoint in = open("model-00001-of-00002.safetensors");
  const Rewrite rewrite = Rewrite::plan(all(in), {.folder = true, .max_shard_size = 1, .stem = "model"}).value();
  const Error error = rewrite.check_old_files(directory_.path(), in).error();
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message.substr(0, error.message.find(", whose")),
            "the new model would remove or replace `model-00002-of-00002.safetensors`");
}

TEST_F(RewriteTest, KeepsEmptyMetadata) {
  ASSERT_TRUE(succeeds(save(path_, std::span<const TensorData>(), MetadataPairs{})));
  const Checkpoint in = open("in.safetensors");
  ASSERT_TRUE(succeeds(Rewrite::plan(all(in), options(in)).value().write(out_)));
  EXPECT_EQ(contents(out_), contents(path_));
}

TEST_F(RewriteTest, KeepsForeignOrder) {
  put(path_, u8_file({{"z", "123"}, {"a", "4567"}, {"m", ""}}));
  const Checkpoint in = open("in.safetensors");
  const auto names = [&](std::optional<bool> keep_order) {
    std::string joined;
    const Rewrite rewrite = Rewrite::plan(all(in), {.keep_order = keep_order}).value();
    for (const TensorInfo& tensor : rewrite.layout().files()[0].header.tensors()) joined += tensor.name;
    return joined;
  };
  EXPECT_EQ(names(std::nullopt), "zam");
  EXPECT_EQ(names(false), "amz");
  ASSERT_TRUE(succeeds(Rewrite::plan(all(in)).value().write(out_)));
  EXPECT_EQ(read_text(open("out.safetensors").tensor("a")), "4567");
}

TEST_F(RewriteTest, RenamesAndSelects) {
  const Checkpoint in = open("in.safetensors");
  std::vector<RewriteTensor> tensors{{.tensor = in["a"], .name = "new"}, {.tensor = in["a"], .name = "copy"}};
  ASSERT_TRUE(succeeds(Rewrite::plan(tensors).value().write(out_)));
  const Checkpoint out = open("out.safetensors");
  EXPECT_EQ(out.size(), 2U);
  EXPECT_EQ(read_text(out.tensor("new")), read_text(in.tensor("a")));
  EXPECT_FALSE(out.metadata().present());
}

TEST_F(RewriteTest, NamesBothTensorsOfOneName) {
  const Checkpoint in = open("in.safetensors");
  const std::vector<RewriteTensor> tensors{{.tensor = in["a"], .name = "n"}, {.tensor = in["b"], .name = "n"}};
  const Error error = error_of(Rewrite::plan(tensors));
  EXPECT_EQ(error.code, Errc::duplicate_name);
  EXPECT_EQ(error.message, "two tensors get the name `n`: `a` of `" + path_ + "` and `b` of `" + path_ + "`");
}

TEST_F(RewriteTest, RefusesUnknownCast) {
  const Checkpoint in = open("in.safetensors");
  Error error = error_of(Rewrite::plan(std::vector<RewriteTensor>{{.tensor = in["a"], .dtype = Dtype::F32}}));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `a`: cannot cast U8 to F32: it can be cast to I8, I16, U16, I32, U32, I64, U64");
  error = error_of(Rewrite::plan(std::vector<RewriteTensor>{{.tensor = in["b"], .dtype = Dtype::I8}}));
  EXPECT_EQ(error.message,
            "tensor `b`: cannot cast F32 to I8: it can be cast to F8_E5M2, F8_E4M3, F8_E4M3FNUZ, F8_E5M2FNUZ, F16, "
            "BF16, F64");
}

// The element is in a later chunk, and the old file stays.
TEST_F(RewriteTest, RefusesIntegerThatDoesNotFit) {
  std::vector<std::uint16_t> values(1'000'000, 7);
  if (kBigEndian) GTEST_SKIP() << "the test writes integers of this machine";
  ASSERT_TRUE(succeeds(save(path_, {{"w", {1000, 1000}, values}})));
  std::vector<RewriteTensor> tensors{{.tensor = open("in.safetensors")["w"], .dtype = Dtype::I8}};
  ASSERT_TRUE(succeeds(Rewrite::plan(tensors).value().write(path_)));
  const Checkpoint small = open("in.safetensors");
  EXPECT_EQ(small["w"].read_as<std::int64_t>().value(), std::vector<std::int64_t>(1'000'000, 7));
  values[999'001] = 200;
  ASSERT_TRUE(succeeds(save(path_, {{"w", {1000, 1000}, values}})));
  tensors = {{.tensor = open("in.safetensors")["w"], .dtype = Dtype::I8}};
  const Error error = error_of(Rewrite::plan(tensors).value().write(path_));
  EXPECT_EQ(error.code, Errc::value_out_of_range);
  EXPECT_EQ(error.message,
            "tensor `w`: cannot cast U16 to I8: element [999, 1] is 200, the range of I8 is -128 to 127");
  EXPECT_EQ(open("in.safetensors")["w"].dtype(), Dtype::U16);
}

// More than one chunk: the losses of all chunks are added.
TEST_F(RewriteTest, CastsAndCountsLosses) {
  if (kBigEndian) GTEST_SKIP() << "the test writes floats of this machine";
  std::vector<float> values(1'000'000, 1.0F);
  values[0] = values[999'999] = 1e30F;
  values[1] = 1e-30F;
  values[500'000] = std::numeric_limits<float>::quiet_NaN();
  values[2] = std::numeric_limits<float>::infinity();
  values[3] = 0x1.002p0F;  // a tie: to even
  ASSERT_TRUE(succeeds(save(path_, {{"w", {1000, 1000}, values}, {"a", {4}, bytes_}})));
  const Checkpoint in = open("in.safetensors");
  const std::vector<RewriteTensor> tensors{{.tensor = in["w"], .dtype = Dtype::F16}, {.tensor = in["a"]}};
  const RewriteReport report = Rewrite::plan(tensors).value().write(out_).value();
  ASSERT_EQ(report.casts.size(), 1U);
  EXPECT_EQ(report.casts[0].name, "w");
  EXPECT_EQ(report.casts[0].numel, values.size());
  EXPECT_EQ(report.casts[0].losses.overflow, 2U);
  EXPECT_EQ(report.casts[0].losses.underflow, 1U);
  EXPECT_EQ(report.casts[0].losses.nan, 1U);
  const std::vector<float> half = open("out.safetensors")["w"].read_as<float>().value();
  EXPECT_TRUE(std::isinf(half[0]) && std::isinf(half[999'999]) && std::isinf(half[2]) && std::isnan(half[500'000]));
  EXPECT_EQ(half[1], 0.0F);
  EXPECT_EQ(half[3], 1.0F);
  EXPECT_EQ(half[777'777], 1.0F);
  EXPECT_EQ(read_text(open("out.safetensors").tensor("a")), read_text(in.tensor("a")));
}

TEST_F(RewriteTest, KeepsFilesOfModel) {
  put_model(directory_, 3);
  const Checkpoint in = Checkpoint::open(directory_ / "model.safetensors.index.json").value();
  std::vector<RewriteTensor> tensors = all(in);
  tensors.erase(tensors.begin() + 1);  // the only tensor of the second file
  RewriteOptions folder = options(in);
  folder.folder = true;
  folder.index_metadata = "{\"total_size\": 1, \"kept\": \"yes\"}";
  ASSERT_TRUE(succeeds(Rewrite::plan(tensors, folder).value().write(directory_ / "new")));
  const Checkpoint out = open("new");
  EXPECT_EQ(out.files().size(), 2U);
  EXPECT_EQ(out.files()[1].path(), directory_ / "new/model-00002-of-00002.safetensors");
  EXPECT_EQ(out.index_metadata(), "{\"total_size\":128,\"kept\":\"yes\"}");
}

TEST_F(RewriteTest, TakesStemOfInput) {
  const auto stem = [&](const std::string& name) {
    put(directory_ / name, u8_file({{"a", "1"}}));
    const Rewrite rewrite = Rewrite::plan(all(open(name)), {.folder = true}).value();
    return std::string(format::stem_of(rewrite.layout()));
  };
  EXPECT_EQ(stem("adapter_model.safetensors"), "adapter_model");
  EXPECT_EQ(stem("unet-00001-of-00002.safetensors"), "unet");
  EXPECT_EQ(stem("other.bin"), "model");
  EXPECT_EQ(stem(".hidden.safetensors"), "model");
}

TEST_F(RewriteTest, ReplacesItsInput) {
  const std::string before = contents(path_);
  const Checkpoint in = open("in.safetensors");
  const std::vector<RewriteTensor> tensors{{.tensor = in["b"], .dtype = Dtype::F64}, {.tensor = in["a"]}};
  ASSERT_TRUE(succeeds(Rewrite::plan(tensors).value().write(path_)));
  EXPECT_EQ(open("in.safetensors")["b"].dtype(), Dtype::F64);
  EXPECT_EQ(read_text(open("in.safetensors").tensor("a")), read_text(in.tensor("a")));
}

TEST_F(RewriteTest, ReplacesNothingWithNewFolder) {
  const Checkpoint in = open("in.safetensors");
  put(out_, "old");
  const Rewrite rewrite = Rewrite::plan(all(in)).value();
  Error error = error_of(rewrite.write(out_, {.new_folder = true}));
  EXPECT_EQ(error.code, Errc::replace_failed);
  EXPECT_EQ(error.os_error, EEXIST);
  EXPECT_EQ(contents(out_), "old");
  std::filesystem::create_symlink("nowhere", directory_ / "link");
  error = error_of(rewrite.write(directory_ / "link", {.new_folder = true}));
  EXPECT_EQ(error.os_error, EEXIST);
}

TEST_F(RewriteTest, KeepsOldFilesAfterCancel) {
  const std::vector<std::uint8_t> large(30'000'000, 3);
  ASSERT_TRUE(succeeds(save(path_, {{"a", {large.size()}, large}, {"b", {large.size()}, large}})));
  const Checkpoint in = open("in.safetensors");
  put(out_, "old");
  CheckpointWriteOptions cancel;
  cancel.write.progress = [](std::uint64_t done, std::uint64_t) { return done < 20'000'000; };
  EXPECT_EQ(error_of(Rewrite::plan(all(in)).value().write(out_, cancel)).code, Errc::cancelled);
  const Rewrite split = Rewrite::plan(all(in), {.folder = true, .max_shard_size = 1}).value();
  EXPECT_EQ(error_of(split.write(directory_ / "folder", cancel)).code, Errc::cancelled);
  EXPECT_EQ(contents(out_), "old");
  EXPECT_EQ(directory_.names(), (std::vector<std::string>{"in.safetensors", "out.safetensors"}));
}

TEST_F(RewriteTest, KeepsOldFilesWhenDiskIsFull) {
  const std::vector<std::uint8_t> large(8'000'000, 3);
  ASSERT_TRUE(succeeds(save(path_, {{"a", {large.size()}, large}})));
  put(out_, "old");
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{1'000'000, 1'000'000};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
              const Checkpoint in = open("in.safetensors");
              const Result<RewriteReport> full = Rewrite::plan(all(in)).value().write(out_);
              return !full && full.error().code == Errc::write_failed && full.error().os_error == EFBIG;
            }),
            0);
  EXPECT_EQ(contents(out_), "old");
  EXPECT_EQ(directory_.names(), (std::vector<std::string>{"in.safetensors", "out.safetensors"}));
}

TEST_F(RewriteTest, NamesInputThatBecameShorter) {
  const std::vector<std::uint8_t> large(2'000'000, 3);
  ASSERT_TRUE(succeeds(save(path_, {{"a", {large.size()}, large}})));
  const Checkpoint in = open("in.safetensors");
  const Rewrite rewrite = Rewrite::plan(all(in)).value();
  std::filesystem::resize_file(path_, 1'000'000);
  const Error error = error_of(rewrite.write(out_));
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.path, path_);
  EXPECT_EQ(directory_.names(), (std::vector<std::string>{"in.safetensors"}));
}

TEST_F(RewriteTest, AlignsData) {
  const Checkpoint in = open("in.safetensors");
  const Rewrite rewrite = Rewrite::plan(all(in), {.data_alignment = 4096}).value();
  EXPECT_EQ(rewrite.layout().files()[0].header.data_start() % 4096, 0U);
  ASSERT_TRUE(succeeds(rewrite.write(out_)));
  for (const Tensor& tensor : in.tensors())
    EXPECT_EQ(read_text(open("out.safetensors").tensor(tensor.name())), read_text(tensor));
  EXPECT_EQ(error_of(Rewrite::plan(all(in), {.data_alignment = 3})).code, Errc::invalid_alignment);
}

TEST_F(RewriteTest, WritesNoTensors) {
  ASSERT_TRUE(succeeds(Rewrite::plan({}).value().write(out_)));
  EXPECT_EQ(open("out.safetensors").size(), 0U);
  EXPECT_EQ(error_of(Rewrite::plan({}).value().write(out_, {.shared = true})).code, Errc::unsupported);
}

class MergeMetadata : public ::testing::Test {
 protected:
  File file(const std::string& name, const std::optional<MetadataPairs>& metadata) {
    EXPECT_TRUE(succeeds(save(directory_ / name, {}, metadata)));
    return File::open(directory_ / name).value();
  }
  TemporaryDirectory directory_;
};

TEST_F(MergeMetadata, JoinsPairs) {
  const std::vector<File> files{file("1", {{{"b", "2"}, {"a", "1"}}}), file("2", {{{"c", "3"}, {"a", "1"}}})};
  EXPECT_EQ(merge_metadata(files).value(), (MetadataPairs{{"a", "1"}, {"b", "2"}, {"c", "3"}}));
}

TEST_F(MergeMetadata, TellsAbsentFromEmpty) {
  EXPECT_EQ(merge_metadata({}).value(), std::nullopt);
  const std::vector<File> absent{file("1", std::nullopt)};
  EXPECT_EQ(merge_metadata(absent).value(), std::nullopt);
  const std::vector<File> empty{file("1", std::nullopt), file("2", MetadataPairs{})};
  EXPECT_EQ(merge_metadata(empty).value(), MetadataPairs{});
}

TEST_F(MergeMetadata, DecidesConflicts) {
  const std::vector<File> files{file("1", {{{"a", "one"}}}), file("2", {{{"a", std::string(100, 'x')}}})};
  const Error error = error_of(merge_metadata(files));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "metadata key `a` is `one` in `" + (directory_ / "1") + "` and `" + std::string(60, 'x') +
                               "...` in `" + (directory_ / "2") + "`");
  EXPECT_EQ(merge_metadata(files, MetadataConflict::first).value(), (MetadataPairs{{"a", "one"}}));
  EXPECT_EQ(merge_metadata(files, MetadataConflict::last).value(), (MetadataPairs{{"a", std::string(100, 'x')}}));
}

}  // namespace
}  // namespace safetensors::test
