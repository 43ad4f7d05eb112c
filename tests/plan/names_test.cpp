// Results of a plan by the names of their tensors.
#include <gtest/gtest.h>
#include <safetensors/read_plan.h>

#include "support/checkpoint_support.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

TEST(PlanNames, FindArraysOfManyFiles) {
  const TemporaryDirectory directory;
  put_model(directory, 20);
  ReadPlan plan;
  {
    const Checkpoint model = Checkpoint::open(directory.path()).value();
    for (std::size_t i = model.size(); i-- > 1;) ASSERT_TRUE(succeeds(plan.add(model.tensors()[i])));
    ASSERT_TRUE(succeeds(plan.add(model.tensors()[3], Slice("0:2"))));
  }
  ReadResult result = plan.execute().value();
  plan = ReadPlan();
  for (std::size_t i = 1; i < 20; ++i) {
    const Array* const array = result.find(numbered("t", i));
    ASSERT_NE(array, nullptr) << i;
    const std::string expected = model_bytes(i);
    EXPECT_EQ(elements<char>(*array), std::vector<char>(expected.begin(), expected.end())) << i;
  }
  EXPECT_EQ(result.find("t00000"), nullptr);
  EXPECT_EQ(result.find(""), nullptr);
  EXPECT_EQ(&result["t00003"], result.find("t00003"));
  EXPECT_EQ(result["t00003"].nbytes(), model_bytes(3).size()) << "the first item of a name counts";
  EXPECT_THROW((void)result["t00000"], Exception);
  result.arrays.clear();
  EXPECT_EQ(result.find("t00003"), nullptr);
  const ReadResult none;
  EXPECT_EQ(none.find("x"), nullptr);
}

// The result does not depend on the addresses of the files in memory.
TEST(PlanNames, FindFirstItemAmongFiles) {
  const std::string header = R"({"s":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})";
  std::vector<File> files;
  for (const char* const data : {"sA", "sB", "sC"}) {
    files.push_back(File::from_source(std::make_shared<ScriptedSource>(file_bytes(header, data))).value());
  }
  for (std::size_t first = 0; first < files.size(); ++first) {
    ReadPlan plan;
    for (std::size_t i = 0; i < files.size(); ++i)
      ASSERT_TRUE(succeeds(plan.add(tensor(files[(first + 1 + i) % files.size()], "s"))));
    for (std::size_t i = 0; i < files.size(); ++i)
      ASSERT_TRUE(succeeds(plan.add(tensor(files[(first + i) % files.size()], "t"))));
    for (const ReadResult& result : {plan.execute().value(), read_packed(plan).value()}) {
      EXPECT_EQ(result.find("t"), &result.arrays[files.size()]) << first;
      EXPECT_EQ(result.find("s"), &result.arrays[0]) << first;
    }
  }
}

}  // namespace
}  // namespace safetensors::test
