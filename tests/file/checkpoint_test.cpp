// Checkpoint: the files that a path selects, and the tensors of these files that are visible.
#include <safetensors/checkpoint.h>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

using Names = std::vector<std::string>;

class CheckpointTest : public testing::Test {
 protected:
  std::string at(std::string_view name) const { return directory_ / name; }
  void put_file(std::string_view name, std::string_view bytes) { put(directory_ / name, bytes); }
  // Writes x and y to one.safetensors, z to two.safetensors, and their index.
  void put_two() {
    put_file("one.safetensors", u8_file({{"x", "xx"}, {"y", "yyy"}}));
    put_file("two.safetensors", u8_file({{"z", "z"}}));
    put_file("model.safetensors.index.json",
             index_text({{"z", "two.safetensors"}, {"x", "one.safetensors"}, {"y", "one.safetensors"}}));
  }
  Names paths_of(const Checkpoint& model) {
    Names paths;
    for (const File& file : model.files()) paths.push_back(file.path().substr(directory_.path().size() + 1));
    return paths;
  }
  static void expect_error(const Result<Checkpoint>& model, Errc code, const std::string& path, std::uint64_t offset,
                           const std::string& message) {
    const Error error = error_of(model);
    EXPECT_EQ(error.code, code) << error.to_string();
    EXPECT_EQ(error.path, path);
    EXPECT_EQ(error.offset, offset);
    EXPECT_EQ(error.message, message);
  }
  TemporaryDirectory directory_;
};

TEST_F(CheckpointTest, OpensIndexOfFolder) {
  put_two();
  put_file("consolidated.safetensors", "not looked at");
  for (const std::string& path : {directory_.path(), directory_.path() + "/", at("model.safetensors.index.json")}) {
    const Result<Checkpoint> model = Checkpoint::open(path);
    ASSERT_TRUE(succeeds(model));
    EXPECT_EQ(model->size(), 3U);
    EXPECT_FALSE(model->empty());
    EXPECT_EQ(names_of(*model), (Names{"x", "y", "z"}));
    EXPECT_EQ(model->files().size(), 2U);
    EXPECT_EQ(read_text(model->tensor("y")), "yyy");
    EXPECT_EQ(read_text(model->tensor("z")), "z");
    EXPECT_TRUE(model->contains("x"));
    EXPECT_FALSE(model->contains("w"));
  }
  EXPECT_EQ(paths_of(Checkpoint::open(directory_.path()).value()), (Names{"one.safetensors", "two.safetensors"}));
}

TEST_F(CheckpointTest, TellsMetadataOfIndex) {
  put_two();
  const Checkpoint model = Checkpoint::open(directory_.path()).value();
  EXPECT_EQ(model.index_metadata(), R"({"total_size":1})");
  const Checkpoint file = Checkpoint::open(at("one.safetensors")).value();
  EXPECT_EQ(file.index_metadata(), "");
}

TEST_F(CheckpointTest, TakesNoShardWithoutIndex) {
  put_file("m-00001-of-00002.safetensors", u8_file({{"x", "x"}}));
  expect_error(Checkpoint::open(directory_.path()), Errc::not_found, directory_.path(), Error::kNoOffset,
               "a folder with 1 of the 2 files `m-*-of-00002.safetensors`: `m-00002-of-00002.safetensors` is missing "
               "(the pattern opens those that are there)");
  EXPECT_TRUE(succeeds(Checkpoint::open(at("m-00001-of-00002.safetensors"))));
  put_file("m.safetensors", u8_file({{"y", "y"}}));
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"y"});
  // Shards of another stem may be a model without its index.
  put_file("n-00002-of-00002.safetensors", u8_file({{"x", "x"}}));
  EXPECT_EQ(error_of(Checkpoint::open(directory_.path())).code, Errc::ambiguous_checkpoint);
  ASSERT_EQ(::unlink(at("n-00002-of-00002.safetensors").c_str()), 0);
  put_file("other.safetensors", u8_file({{"z", "z"}}));
  EXPECT_EQ(error_of(Checkpoint::open(directory_.path())).code, Errc::ambiguous_checkpoint);
}

TEST_F(CheckpointTest, TakesOnlyShardOfOne) {
  put_file("m-00001-of-00001.safetensors", u8_file({{"x", "x"}}));
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"x"});
}

TEST_F(CheckpointTest, FindsFilesThatCannotBeOpened) {
  put_two();
  const auto found = [&](const std::string& path) { return Checkpoint::find_files(path).value(); };
  EXPECT_EQ(found(directory_.path()), (Names{at("one.safetensors"), at("two.safetensors")}));
  put_file("one.safetensors", "not a safetensors file");
  ASSERT_EQ(::unlink(at("two.safetensors").c_str()), 0);
  EXPECT_EQ(found(directory_.path()), (Names{at("one.safetensors"), at("two.safetensors")}));
  EXPECT_EQ(found(at("*.safetensors")), Names{at("one.safetensors")});
  EXPECT_EQ(found(at("none.safetensors")), Names{at("none.safetensors")});
  put_file("model.safetensors.index.json", "{}");
  EXPECT_EQ(Checkpoint::find_files(directory_.path()).error().code, Errc::invalid_index);
  EXPECT_EQ(Checkpoint::find_files(at("none*")).error().code, Errc::not_found);
  EXPECT_EQ(Checkpoint::find_files(std::string("a\0b", 3)).error().code, Errc::invalid_argument);
}

TEST_F(CheckpointTest, KeepsTensorsAlive) {
  put_two();
  std::optional<Checkpoint> model = Checkpoint::open(directory_.path()).value();
  const Checkpoint copy = *model;
  const Tensor y = *model->tensor("y");
  const Tensor z = model->tensors()[2];
  const File file = model->files()[0];
  model.reset();
  EXPECT_EQ(copy.size(), 3U);
  EXPECT_EQ(read_text(y), "yyy");
  EXPECT_EQ(read_text(z), "z");
  EXPECT_EQ(file.header().size(), 2U);
  const File of_z = z.file();
  EXPECT_EQ(of_z.path(), at("two.safetensors"));
}

TEST_F(CheckpointTest, GivesRandomAccessToTensors) {
  put_two();
  const Result<Checkpoint> model = Checkpoint::open(directory_.path());
  std::string names;
  for (const Tensor& tensor : model->tensors()) names += tensor.name();
  EXPECT_EQ(names, "xyz");
  const Tensors tensors = model->tensors();
  EXPECT_EQ(tensors.size(), 3U);
  const Tensor y = tensors[1];
  EXPECT_EQ(y.name(), "y");
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.nbytes() == 1; });
  const Tensor z = *found;
  EXPECT_EQ(z.name(), "z");
  EXPECT_TRUE(Tensors().empty());
}

TEST_F(CheckpointTest, HidesTensorsThatIndexOmits) {
  put_file("one.safetensors", u8_file({{"a", "1"}, {"b", "1"}, {"c", "1"}}));
  put_file("two.safetensors", u8_file({{"a", "2"}, {"b", "2"}, {"d", "2"}}));
  put_file("x.safetensors.index.json", index_text({{"a", "two.safetensors"}, {"b", "one.safetensors"}}));
  const Checkpoint model = Checkpoint::open(directory_.path()).value();
  EXPECT_EQ(names_of(model), (Names{"b", "a"}));
  EXPECT_EQ(read_text(model.tensor("a")), "2");
  EXPECT_EQ(read_text(model.tensor("b")), "1");
  EXPECT_FALSE(model.contains("c"));
  EXPECT_FALSE(model.contains("d"));
  EXPECT_EQ(model.files()[0].header().size(), 3U);
}

TEST_F(CheckpointTest, IgnoresNumbersInFileNames) {
  put_file("model-00001-of-00009.safetensors", u8_file({{"a", "1"}}));
  put_file("model.safetensors.index.json", index_text({{"a", "model-00001-of-00009.safetensors"}}));
  const Checkpoint model = Checkpoint::open(directory_.path()).value();
  EXPECT_EQ(model.files().size(), 1U);
}

TEST_F(CheckpointTest, RefusesTensorMissingFromFile) {
  put_two();
  const std::string index = at("model.safetensors.index.json");
  put(index, index_text({{"x", "one.safetensors"}, {"z", "one.safetensors"}, {"y\\u001b", "one.safetensors"}}));
  expect_error(Checkpoint::open(directory_.path()), Errc::invalid_index, index, 77,
               "tensor `z` is not in `one.safetensors`, where the index has it");
  put(index, index_text({{"y\\u001b", "one.safetensors"}}));
  expect_error(Checkpoint::open(directory_.path()), Errc::invalid_index, index, 51,
               "tensor `y\\u{1b}` is not in `one.safetensors`, where the index has it");
}

TEST_F(CheckpointTest, RefusesMissingFile) {
  put_two();
  put_file("model.safetensors.index.json",
           index_text({{"x", "one.safetensors"}, {"b", "b.safetensors"}, {"c", "c.safetensors"}}));
  expect_error(
      Checkpoint::open(directory_.path()), Errc::open_failed, at("b.safetensors"), Error::kNoOffset,
      "cannot open: no such file or directory (a shard that `model.safetensors.index.json` names: download it, "
      "or name the files that you have)");
  put_file("b.safetensors", "short");
  expect_error(Checkpoint::open(directory_.path()), Errc::header_too_small, at("b.safetensors"), 0,
               error_of(File::open(at("b.safetensors"))).message);
}

TEST_F(CheckpointTest, OpensFilesInSubfolders) {
  ASSERT_EQ(::mkdir(at("sub").c_str(), 0700), 0);
  put_file("sub/one.safetensors", u8_file({{"a", "1"}}));
  put_file("my.json", index_text({{"a", "sub/one.safetensors"}}));
  EXPECT_EQ(read_text(Checkpoint::open(at("my.json")).value().tensor("a")), "1");
}

// The cache of the Hugging Face hub has this form: a folder of links to files in another folder.
TEST_F(CheckpointTest, OpensSnapshotOfLinks) {
  for (const char* folder : {"blobs", "snapshots", "snapshots/abc"}) ASSERT_EQ(::mkdir(at(folder).c_str(), 0700), 0);
  put_file("blobs/0001", u8_file({{"a", "1"}}));
  put_file("blobs/0002", u8_file({{"b", "2"}}));
  put_file("blobs/0003", index_text({{"a", "model-1.safetensors"}, {"b", "model-2.safetensors"}}));
  const auto link = [&](const char* blob, const char* name) {
    return ::symlink((std::string("../../blobs/") + blob).c_str(), at(std::string("snapshots/abc/") + name).c_str());
  };
  ASSERT_EQ(link("0001", "model-1.safetensors"), 0);
  ASSERT_EQ(link("0002", "model-2.safetensors"), 0);
  ASSERT_EQ(link("0003", "model.safetensors.index.json"), 0);
  ASSERT_EQ(::symlink("snapshots/abc", at("current").c_str()), 0);
  for (const char* path : {"snapshots/abc", "current", "current/model.safetensors.index.json"}) {
    const Result<Checkpoint> model = Checkpoint::open(at(path));
    ASSERT_TRUE(succeeds(model)) << path;
    EXPECT_EQ(read_text(model->tensor("a")), "1");
    EXPECT_EQ(read_text(model->tensor("b")), "2");
  }
}

// refs/main comes from strangers.
TEST_F(CheckpointTest, OpensMainSnapshotOfCache) {
  for (const char* folder : {"refs", "snapshots", "snapshots/a1", "snapshots/b2", "outside"})
    ASSERT_EQ(::mkdir(at(folder).c_str(), 0700), 0);
  for (const char* name : {"snapshots/a1", "snapshots/b2", "outside"})
    put_file(std::string(name) + "/model.safetensors", u8_file({{name, "1"}}));
  put_file("refs/main", "b2\n");
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"snapshots/b2"});
  EXPECT_EQ(Checkpoint::find_files(directory_.path()).value(), Names{at("snapshots/b2/model.safetensors")});
  const std::string message = "a folder of 2 snapshots without refs/main, name one of them: `" + at("snapshots/a1") +
                              "`, `" + at("snapshots/b2") + "`";
  for (const std::string& text :
       {std::string("../outside"), at("outside"), std::string(".."), std::string("c3"), std::string(300, 'a'),
        std::string(), std::string("a1\0", 3), std::string("."), std::string("/"), std::string("a1/")}) {
    put_file("refs/main", text);
    expect_error(Checkpoint::open(directory_.path()), Errc::ambiguous_checkpoint, directory_.path(), Error::kNoOffset,
                 message);
  }
  ASSERT_EQ(::unlink(at("snapshots/a1/model.safetensors").c_str()), 0);
  ASSERT_EQ(::rmdir(at("snapshots/a1").c_str()), 0);
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"snapshots/b2"});  // the only one
  put_file("own.safetensors", u8_file({{"own", "1"}}));
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"own"});
}

TEST_F(CheckpointTest, OpensOnlyFileOfFolder) {
  put_file(".hidden.safetensors", "not looked at");
  put_file(".x.safetensors.index.json", "not looked at");
  put_file("config.json", "{}");
  expect_error(Checkpoint::open(directory_.path()), Errc::not_found, directory_.path(), Error::kNoOffset,
               "a folder without a safetensors file or an index of them");
  put_file("pytorch_model.bin", "not looked at");
  expect_error(Checkpoint::open(directory_.path()), Errc::not_found, directory_.path(), Error::kNoOffset,
               "a folder without a safetensors file or an index of them (`pytorch_model.bin` has another format: "
               "convert it first)");
  put_file("adapter.safetensors", u8_file({{"a", "1"}}));
  EXPECT_EQ(names_of(Checkpoint::open(directory_.path()).value()), Names{"a"});
  put_file("b\n.safetensors", u8_file({{"b", "1"}}));
  expect_error(Checkpoint::open(directory_.path()), Errc::ambiguous_checkpoint, directory_.path(), Error::kNoOffset,
               "a folder of 2 safetensors files without an index, name one of them: `adapter.safetensors`, "
               "`b\\u{a}.safetensors`");
  for (int i = 0; i < 8; ++i) put_file("c" + std::to_string(i) + ".safetensors", "");
  expect_error(Checkpoint::open(directory_.path()), Errc::ambiguous_checkpoint, directory_.path(), Error::kNoOffset,
               "a folder of 10 safetensors files without an index, name one of them: `adapter.safetensors`, "
               "`b\\u{a}.safetensors`, `c0.safetensors`, `c1.safetensors`, `c2.safetensors`, `c3.safetensors`, "
               "`c4.safetensors`, `c5.safetensors` and 2 more");
}

TEST_F(CheckpointTest, RefusesAmbiguousIndexes) {
  put_two();
  put_file("a.safetensors.index.json", index_text({{"x", "one.safetensors"}}));
  EXPECT_EQ(Checkpoint::open(directory_.path()).value().size(), 3U);
  ASSERT_EQ(::rename(at("model.safetensors.index.json").c_str(), at("b.safetensors.index.json").c_str()), 0);
  expect_error(Checkpoint::open(directory_.path()), Errc::ambiguous_checkpoint, directory_.path(), Error::kNoOffset,
               "a folder of 2 indexes, name one of them: `a.safetensors.index.json`, `b.safetensors.index.json`");
  EXPECT_EQ(Checkpoint::open(at("a.safetensors.index.json")).value().size(), 1U);
}

TEST_F(CheckpointTest, OpensSingleFile) {
  put_two();
  EXPECT_EQ(names_of(Checkpoint::open(at("one.safetensors")).value()), (Names{"x", "y"}));
  expect_error(Checkpoint::open(at("none.safetensors")), Errc::open_failed, at("none.safetensors"), Error::kNoOffset,
               "cannot open: no such file or directory");
  expect_error(Checkpoint::open(""), Errc::open_failed, "", Error::kNoOffset, "cannot open: no such file or directory");
  const std::string zero("a\0b", 3);
  expect_error(Checkpoint::open(zero), Errc::invalid_argument, zero, Error::kNoOffset, "path contains a zero byte");
  expect_error(Checkpoint::open("/dev/null"), Errc::not_regular_file, "/dev/null", Error::kNoOffset,
               "not a regular file but a character device");
}

TEST_F(CheckpointTest, JoinsSeveralPaths) {
  put_two();
  put_file("three.safetensors", u8_file({{"w", "w"}}));
  const Names paths{at("three.safetensors"), directory_.path()};
  const Checkpoint model = Checkpoint::open(paths).value();
  EXPECT_EQ(names_of(model), (Names{"w", "x", "y", "z"}));
  EXPECT_EQ(paths_of(model), (Names{"three.safetensors", "one.safetensors", "two.safetensors"}));
  EXPECT_EQ(names_of(Checkpoint::open({at("two.safetensors"), at("one.safetensors")}).value()), (Names{"z", "x", "y"}));
  expect_error(Checkpoint::open(std::span<const std::string>()), Errc::invalid_argument, "", Error::kNoOffset,
               "no paths were given");
}

TEST_F(CheckpointTest, RefusesTensorInTwoFiles) {
  put_two();
  put_file("three.safetensors", u8_file({{"w", "w"}, {"z", "w"}}));
  expect_error(Checkpoint::open({at("one.safetensors"), at("two.safetensors"), at("three.safetensors")}),
               Errc::duplicate_name, "", Error::kNoOffset,
               "tensor `z` is in two files: `" + at("two.safetensors") + "` and `" + at("three.safetensors") + "`");
  // A tensor that the index does not name is invisible here too.
  put_file("three.json", index_text({{"w", "three.safetensors"}}));
  EXPECT_EQ(names_of(Checkpoint::open({directory_.path(), at("three.json")}).value()), (Names{"x", "y", "z", "w"}));
}

TEST_F(CheckpointTest, ExpandsPatterns) {
  put_file("b-1.safetensors", u8_file({{"b1", "1"}}));
  put_file("a-1.safetensors", u8_file({{"a1", "1"}}));
  put_file("a-10.safetensors", u8_file({{"a10", "1"}}));
  put_file(".a.safetensors", "not looked at");
  EXPECT_EQ(names_of(Checkpoint::open(at("*.safetensors")).value()), (Names{"a1", "a10", "b1"}));
  EXPECT_EQ(names_of(Checkpoint::open(at("[!a]-?.safetensors")).value()), Names{"b1"});
  EXPECT_EQ(names_of(Checkpoint::open({at("b*"), at("a-1.*")}).value()), (Names{"b1", "a1"}));
  expect_error(Checkpoint::open(at("c*")), Errc::not_found, at("c*"), Error::kNoOffset, "no file matches this pattern");
  // A file whose name equals the pattern is preferred.
  put_file("a-[1].safetensors", u8_file({{"literal", "1"}}));
  EXPECT_EQ(names_of(Checkpoint::open(at("a-[1].safetensors")).value()), Names{"literal"});
}

TEST_F(CheckpointTest, SuggestsSimilarName) {
  put_two();
  const Checkpoint model = Checkpoint::open(directory_.path()).value();
  Error error = error_of(model.tensor("model.z"));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.path, directory_.path());
  EXPECT_EQ(error.message, "no tensor `model.z` in 2 files of 3 tensors: is it `z`?");
  error = error_of(Checkpoint::open(at("two.safetensors")).value().tensor("weight"));
  EXPECT_EQ(error.message, "no tensor `weight` in 1 file of 1 tensor");
}

TEST_F(CheckpointTest, ReportsFirstErrorInFileOrder) {
  put_two();
  const std::string good = u8_file({{"g", "g"}});
  for (const unsigned threads : {1U, 2U, 0U, 1000U}) {
    Names paths;
    for (int i = 0; i < 40; ++i) {
      paths.push_back(at("f" + std::to_string(i)));
      put(paths.back(),
          i < 20 ? u8_file({{"t" + std::to_string(i), "g"}}) : std::string(static_cast<size_t>(i % 8), 'x'));
    }
    expect_error(Checkpoint::open(paths, {.threads = threads}), Errc::header_too_small, at("f20"), 0,
                 error_of(File::open(at("f20"))).message);
  }
}

TEST_F(CheckpointTest, AppliesOptionsToFiles) {
  put_two();
  const Checkpoint model = Checkpoint::open(directory_.path(), {.access = Access::read}).value();
  for (const File& file : model.files()) EXPECT_EQ(file.access(), Access::read);
  ParseOptions parse;
  parse.max_header_bytes = 10;
  EXPECT_EQ(error_of(Checkpoint::open(directory_.path(), {.parse = parse})).code, Errc::header_too_large);
}

TEST_F(CheckpointTest, NamesIndexInErrors) {
  const std::string path = at("model.safetensors.index.json");
  put(path, "{} ");
  expect_error(Checkpoint::open(directory_.path()), Errc::invalid_index, path, 0,
               "invalid index: it has no weight_map (a configuration? open the model's folder, its index or a "
               ".safetensors file)");
  ASSERT_EQ(::truncate(path.c_str(), (off_t{1} << 28) + 1), 0);
  expect_error(Checkpoint::open(path), Errc::invalid_index, path, Error::kNoOffset,
               "index too large: 268435457 bytes, at most 268435456 are read");
}

TEST_F(CheckpointTest, OpensEmptyIndex) {
  put_file("model.safetensors.index.json", R"({"weight_map":{}})");
  const Checkpoint model = Checkpoint::open(directory_.path()).value();
  EXPECT_TRUE(model.empty());
  EXPECT_TRUE(model.files().empty());
  EXPECT_FALSE(model.contains(""));
}

}  // namespace
}  // namespace safetensors::test
