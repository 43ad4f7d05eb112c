// A Stream in a forked child, which has none of the threads that a Stream waits for.
#include <gtest/gtest.h>
#include <safetensors/read_plan.h>

#include "support/file_support.h"

namespace safetensors {
namespace {

TEST(ForkedStream, IsDestroyedWithoutThreads) {
  const std::string bytes = test::one_tensor("U8", "[4,1048576]", std::size_t{4} << 20);
  Result<File> file = File::from_source(std::make_shared<test::ScriptedSource>(bytes));
  ASSERT_TRUE(test::succeeds(file));
  ReadPlan plan;
  for (std::int64_t row = 0; row < 4; ++row)
    ASSERT_TRUE(test::succeeds(plan.add(test::tensor(*file, "t"), Slice{DimSlice::at(row)})));
  // The threads wait for room: neither stream ends by itself.
  std::optional<Stream> stream(*plan.stream({.threads = 2, .memory_limit = 4096}));
  Stream other = *plan.stream({.threads = 2, .memory_limit = 4096});
  EXPECT_EQ(test::in_child([&] {
              stream.reset();
              other = Stream(std::move(other));
              return true;
            }),
            0);
  for (int i = 0; i < 4; ++i) {
    const Result<std::optional<StreamItem>> item = stream->next();
    ASSERT_TRUE(test::succeeds(item));
    EXPECT_TRUE(item->has_value());
  }
}

}  // namespace
}  // namespace safetensors
