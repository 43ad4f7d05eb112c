// Result and Status in builds without NDEBUG: reading the wrong state ends the program and names the mistake.
#undef NDEBUG
#include <gtest/gtest.h>
#include <safetensors/error.h>

#include <string>
#include <utility>

namespace {

using safetensors::Errc;
using safetensors::Error;
using safetensors::Result;
using safetensors::Status;

Error not_found() {
  return Error{.code = Errc::not_found, .message = "no tensor \"a\""};
}

TEST(ErrorDeathTest, AssertsOnValueOfFailedResult) {
  Result<std::string> failed = not_found();
  const Result<std::string>& constant = failed;
  EXPECT_DEATH((void)*failed, "value of a Result that holds an error");
  EXPECT_DEATH((void)*constant, "value of a Result that holds an error");
  EXPECT_DEATH((void)*std::move(failed), "value of a Result that holds an error");
  EXPECT_DEATH((void)failed->size(), "value of a Result that holds an error");
  EXPECT_DEATH((void)constant->size(), "value of a Result that holds an error");
}

TEST(ErrorDeathTest, AssertsOnErrorOfGoodResult) {
  Result<int> good = 1;
  EXPECT_DEATH((void)good.error(), "error of a success");
  EXPECT_DEATH((void)std::move(good).error(), "error of a success");
}

TEST(ErrorDeathTest, AssertsOnErrorOfGoodStatus) {
  Status good;
  EXPECT_DEATH((void)good.error(), "error of a success");
  EXPECT_DEATH((void)std::move(good).error(), "error of a success");
}

}  // namespace
