// merge_metadata(): unions, conflicts and absent metadata.
#include "write/rewrite.h"

#include <gtest/gtest.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>

#include <string>
#include <vector>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

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
