// make_index(), check_index() and write_index(): choices of files, each problem, and errors.
#include "write/checkpoint_index.h"

#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

class CheckpointIndexTest : public ::testing::Test {
 protected:
  void put_file(const std::string& name, const std::string& tensor) {
    put(directory_ / name, u8_file({{tensor, "abc"}}));
  }
  // The messages of the problems, those of errors behind "!".
  [[nodiscard]] std::vector<std::string> problems(const ParseOptions& parse = {}) const {
    std::vector<std::string> messages;
    for (const IndexProblem& problem : check_index(directory_.path(), {.parse = parse}).value().problems)
      messages.push_back((problem.is_error ? "!" : "") + problem.message);
    return messages;
  }
  void put_index(const std::vector<std::pair<std::string, std::string>>& entries) {
    put(directory_ / "m.safetensors.index.json", index_text(entries));
  }
  TemporaryDirectory directory_;
  const std::string first_ = "m-00001-of-00002.safetensors";
  const std::string second_ = "m-00002-of-00002.safetensors";
};

TEST_F(CheckpointIndexTest, TakesNumberedFilesOnly) {
  put_file(first_, "a");
  put_file(second_, "b");
  put_file("consolidated.safetensors", "a");
  const CheckpointIndex index = make_index(directory_.path()).value();
  EXPECT_EQ(index.name, "m.safetensors.index.json");
  EXPECT_EQ(index.files, (std::vector<std::string>{first_, second_}));
  EXPECT_EQ(index.tensors, 2U);
  EXPECT_EQ(index.total_size, 6U);
  ASSERT_TRUE(succeeds(write_index(directory_.path(), index)));
  EXPECT_EQ(Checkpoint::open(directory_.path()).value().size(), 2U);
  EXPECT_EQ(problems(), (std::vector<std::string>{"file `consolidated.safetensors` is not in the index"}));
}

TEST_F(CheckpointIndexTest, TakesNoFolderForAFile) {
  put_file("x.safetensors", "a");
  put_index({{"a", "x.safetensors"}});
  std::filesystem::create_directory(directory_ / "folder.safetensors");
  EXPECT_EQ(problems(), std::vector<std::string>{"total_size is 1, the tensors have 3 bytes"});
}

TEST_F(CheckpointIndexTest, TakesAllFilesWithoutNumbers) {
  put_file("x.safetensors", "a");
  put_file("y.safetensors", "b");
  put(directory_ / "model.safetensors.index.json",
      R"({"metadata":{"k":1,"total_size":3},"weight_map":{"a":"x.safetensors"},"more":1})");
  EXPECT_EQ(make_index(directory_.path()).value().files, std::vector<std::string>{"x.safetensors"});
  put(directory_ / "model.safetensors.index.json",
      R"({"metadata":{"k":1,"total_size":3},"weight_map":{"a":"old.safetensors"},"more":1})");
  const CheckpointIndex index = make_index(directory_.path()).value();
  EXPECT_EQ(index.name, "model.safetensors.index.json");
  EXPECT_EQ(index.text,
            "{\n  \"metadata\": {\n    \"total_size\": 6,\n    \"k\": 1\n  },\n  \"weight_map\": {\n"
            "    \"a\": \"x.safetensors\",\n    \"b\": \"y.safetensors\"\n  }\n}");
  EXPECT_EQ(make_index(directory_.path(), {.stem = "s"}).value().name, "s.safetensors.index.json");
}

TEST_F(CheckpointIndexTest, RefusesNamesThatNoIndexMayHold) {
  put_file("x.safetensors", "a");
  for (const std::string stem : {"../x", "", ".", "..", "a/b", "a\n", "a:b"})
    EXPECT_EQ(error_of(make_index(directory_.path(), {.stem = stem})).code, Errc::invalid_argument) << stem;
  EXPECT_EQ(error_of(make_index(directory_.path(), {.stem = "\xff"})).code, Errc::invalid_utf8);
  put_file("y:z.safetensors", "b");
  const Error error = error_of(make_index(directory_.path()));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "no index may name the file `y:z.safetensors`: it holds a colon; rename it");
  EXPECT_EQ(error.path, directory_.path());
}

TEST_F(CheckpointIndexTest, RefusesUnclearFolders) {
  Error error = error_of(make_index(directory_.path()));
  EXPECT_EQ(error.code, Errc::not_found);
  put_file(second_, "b");
  error = error_of(make_index(directory_.path()));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.message,
            "the folder has 1 of the 2 files `m-*-of-00002.safetensors`: `m-00001-of-00002.safetensors` is missing");
  put_file(first_, "b");
  error = error_of(make_index(directory_.path()));
  EXPECT_EQ(error.code, Errc::duplicate_name);
  EXPECT_EQ(error.message, "tensor `b` is in two files: `" + first_ + "` and `" + second_ + "`");
  put_file("n-00001-of-00001.safetensors", "c");
  EXPECT_EQ(error_of(make_index(directory_.path())).code, Errc::ambiguous_checkpoint);
  EXPECT_EQ(make_index(directory_.path(), {.stem = "n"}).value().files.size(), 1U);
  EXPECT_EQ(error_of(make_index(directory_ / "none")).code, Errc::open_failed);
}

TEST_F(CheckpointIndexTest, FindsProblemsThatANewIndexLacks) {
  put_file(first_, "a");
  put_file(second_, "b");
  put_index({{"b", first_}, {"gone", second_}});
  EXPECT_EQ(problems(), (std::vector<std::string>{
                            "!tensor `b` is not in `" + first_ + "`, but in `" + second_ + "`",
                            "tensor `a` of `" + first_ + "` is not in the index, loaders skip it",
                            "!tensor `gone` is not in `" + second_ + "`",
                            "total_size is 1, the tensors have 3 bytes",
                        }));
  const Error lost = error_of(make_index(directory_.path()));
  EXPECT_EQ(lost.code, Errc::not_found);
  EXPECT_EQ(lost.message, "tensor `gone` is in no file of the model, the index has it in `" + second_ + "`");
  EXPECT_EQ(lost.path, directory_ / "m.safetensors.index.json");
  put_index({{"b", first_}});
  ASSERT_TRUE(succeeds(write_index(directory_.path(), make_index(lost.path).value())));
  EXPECT_EQ(problems(), std::vector<std::string>{});
}

TEST_F(CheckpointIndexTest, FindsShardsThatTheIndexLacks) {
  const std::string third = "m-00003-of-00003.safetensors";
  put_file("m-00001-of-00003.safetensors", "a");
  put_file(third, "head");
  put_file("m-00001-of-00001.safetensors", "other");  // of another set
  put_index({{"a", "m-00001-of-00003.safetensors"}, {"head", "m-00001-of-00003.safetensors"}});
  EXPECT_EQ(problems(),
            (std::vector<std::string>{
                "file `m-00002-of-00003.safetensors` does not exist, but the names of the others tell of it",
                "!file `" + third + "` belongs to the model, but is not in the index",
                "file `m-00001-of-00001.safetensors` is not in the index",
                "!tensor `head` is not in `m-00001-of-00003.safetensors`, but in `" + third + "`",
                "total_size is 1, the tensors have 6 bytes",
            }));
  EXPECT_EQ(error_of(make_index(directory_.path())).message,
            "the folder has 2 of the 3 files `m-*-of-00003.safetensors`: `m-00002-of-00003.safetensors` is missing");
  put_file("m-00002-of-00003.safetensors", "b");
  const CheckpointIndex index = make_index(directory_.path()).value();
  EXPECT_EQ(index.files.size(), 3U);
  EXPECT_EQ(index.tensors, 3U);
}

TEST_F(CheckpointIndexTest, FindsTheShardZeroThatTheIndexLacks) {
  for (const std::string number : {"0", "1", "2"}) put_file("m-0000" + number + "-of-00002.safetensors", number);
  put_index({{"1", first_}, {"2", second_}});
  EXPECT_EQ(problems()[0], "!file `m-00000-of-00002.safetensors` belongs to the model, but is not in the index");
  EXPECT_EQ(make_index(directory_.path()).value().tensors, 3U);
}

TEST_F(CheckpointIndexTest, ReplacesAnIndexThatCannotBeParsed) {
  put_file(first_, "a");
  put_file(second_, "b");
  put(directory_ / "odd.safetensors.index.json", "{]");
  EXPECT_EQ(make_index(directory_.path()).value().name, "odd.safetensors.index.json");
}

TEST_F(CheckpointIndexTest, ChecksFilesWithoutAnIndex) {
  put_file(first_, "a");
  std::vector<std::string> visited;
  const auto visit = [&](const std::string& path, const Result<File>& file) {
    visited.push_back(path + (file ? " good" : " bad"));
  };
  const std::string pattern = directory_ / "m-*-of-00002.safetensors";
  IndexCheck check = check_index(pattern, {.visit = visit}).value();
  EXPECT_EQ(visited, std::vector<std::string>{directory_ / first_ + " good"});
  EXPECT_EQ(check.path, "");
  EXPECT_EQ(check.nbytes, 3U);
  ASSERT_EQ(check.problems.size(), 1U);
  EXPECT_EQ(check.problems[0].kind, IndexProblemKind::missing_file);
  EXPECT_EQ(check.problems[0].file, directory_ / second_);
  put_file(second_, "a");
  check = check_index(pattern).value();
  ASSERT_EQ(check.problems.size(), 1U);
  EXPECT_EQ(check.problems[0].message,
            "tensor `a` is in two files: `" + (directory_ / first_) + "` and `" + (directory_ / second_) + "`");
  EXPECT_TRUE(check.problems[0].is_error);
  EXPECT_EQ(check_index(directory_ / first_).value().problems.size(), 0U);  // chosen from the two
}

TEST_F(CheckpointIndexTest, FixesRenamedFiles) {
  put_file(first_, "a");
  put_file(second_, "b");
  put_index({{"a", "old-1.safetensors"}, {"b", "old-2.safetensors"}});
  EXPECT_EQ(problems().size(), 4U);  // two files are missing, and two are stray
  EXPECT_EQ(make_index(directory_.path()).value().files, (std::vector<std::string>{first_, second_}));
}

TEST_F(CheckpointIndexTest, FindsTensorsInTwoFilesAndCountsThemOnce) {
  put(directory_ / first_, u8_file({{"a", "abc"}, {"u", "xy"}}));
  put(directory_ / second_, u8_file({{"a", "abcdef"}, {"b", "d"}, {"u", "xy"}}));
  const std::string files = " is in two files: `" + first_ + "` and `" + second_ + "`";
  // The index has a in the first file, then in the second one.
  put_index({{"a", first_}, {"b", second_}});
  const std::vector<std::string> unindexed = {"tensor `u` of `" + first_ + "` is not in the index, loaders skip it",
                                              "tensor `u` of `" + second_ + "` is not in the index, loaders skip it"};
  EXPECT_EQ(problems(), (std::vector<std::string>{unindexed[0], "tensor `a`" + files, unindexed[1],
                                                  "tensor `u`" + files, "total_size is 1, the tensors have 4 bytes"}));
  EXPECT_EQ(error_of(make_index(directory_.path())).code, Errc::duplicate_name);  // of u
  put_index({{"u", first_}, {"a", second_}, {"b", second_}});
  EXPECT_EQ(problems(), (std::vector<std::string>{"tensor `a`" + files, "tensor `u`" + files,
                                                  "total_size is 1, the tensors have 9 bytes"}));
  const IndexProblem problem = check_index(directory_.path()).value().problems[0];
  EXPECT_EQ(problem.kind, IndexProblemKind::duplicate_tensor);
  EXPECT_EQ(problem.tensor, "a");
  EXPECT_EQ(problem.file, first_);
  // The old index decides, as for loaders.
  put(directory_ / "m.safetensors.index.json", make_index(directory_.path()).value().text);
  EXPECT_EQ(problems(), (std::vector<std::string>{"tensor `a`" + files, "tensor `u`" + files}));
}

TEST_F(CheckpointIndexTest, FindsShardsInFoldersBelow) {
  std::filesystem::create_directory(directory_ / "s");
  for (const std::string& name : {first_, second_}) put_file("s/" + name, name.substr(0, 7));
  put_index({{"m-00001", "s/" + first_}});
  EXPECT_EQ(problems()[0], "!file `s/" + second_ + "` belongs to the model, but is not in the index");
  EXPECT_EQ(make_index(directory_.path()).value().files.size(), 2U);
}

TEST_F(CheckpointIndexTest, FindsTensorsOfAMissingFileInOthers) {
  put(directory_ / second_, u8_file({{"a", "abc"}, {"b", "d"}}));
  put(directory_ / "z.safetensors", u8_file({{"b", "d"}}));
  put_index({{"a", first_}, {"gone", first_}, {"b", second_}, {"x", "z.safetensors"}});
  const auto expected = [&](const std::string& first) {
    return std::vector<std::string>{
        "!file `" + first_ + "`" + first,
        "!tensor `a` is in `" + second_ + "`, the index has it in `" + first_ + "`",
        "!tensor `x` is not in `z.safetensors`",
        "tensor `b` is in two files: `" + second_ + "` and `z.safetensors`",
        "total_size is 1, the tensors of the files that can be opened have 4 bytes",
    };
  };
  EXPECT_EQ(problems(), expected(" does not exist"));
  put(directory_ / first_, "");
  EXPECT_EQ(problems(), expected(": header too small: the file has 0 bytes, the length of the header alone takes 8"));
}

TEST_F(CheckpointIndexTest, ReadsHeadersWithTheOptionsOfTheCaller) {
  const std::string header = " {\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
  put(directory_ / "x.safetensors", file_bytes(header, "x"));
  put_index({{"a", "x.safetensors"}});
  EXPECT_EQ(problems().size(), 1U);  // an invalid file
  EXPECT_EQ(problems({.allow_leading_whitespace = true}), std::vector<std::string>{});
  EXPECT_EQ(problems({.max_header_bytes = 8, .allow_leading_whitespace = true})[0],
            "!file `x.safetensors`: header too large: its length is given as 54 bytes, the limit is 8");
  EXPECT_EQ(error_of(check_index(directory_.path(), {.parse = {.cancelled = [] { return true; }}})).code,
            Errc::cancelled);
}

TEST_F(CheckpointIndexTest, ReplacesNothingWithNewFile) {
  put_file("x.safetensors", "a");
  const CheckpointIndex index = make_index(directory_.path()).value();
  put(directory_ / index.name, "old");
  EXPECT_EQ(error_of(write_index(directory_.path(), index, {.new_file = true})).code, Errc::replace_failed);
  EXPECT_EQ(contents(directory_ / index.name), "old");
  EXPECT_EQ(error_of(check_index(directory_.path())).code, Errc::invalid_index);
}

}  // namespace
}  // namespace safetensors::test
