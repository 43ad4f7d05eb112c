// A TensorInfo that is kept longer than its File: the address sanitizer reports the access, for small headers and for
// those whose memory is otherwise pages of the system.
#include <gtest/gtest.h>
#include <safetensors/file.h>

#include <cstdint>
#include <string>

#include "support/file_support.h"
#include "support/sanitizers.h"

namespace safetensors::test {
namespace {

class HeaderLifetime : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (!kAddressSanitizer) GTEST_SKIP() << "not built with the address sanitizer";
  }
  // A name of GetParam() bytes, so the header is larger.
  static Result<File> open() {
    const std::string name(GetParam(), 'n');
    return File::from_source(std::make_shared<ScriptedSource>(
        file_bytes("{\"" + name + R"(":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "abc")));
  }
  // Another File takes the place of the first one in memory.
  static TensorInfo stale() {
    Result<File> file = open();
    const TensorInfo info = file->header().tensors()[0];
    file = Error{.code = Errc::not_found};
    file = open();
    return info;
  }
};

TEST_P(HeaderLifetime, NameThatIsKeptTooLongIsReported) {
  EXPECT_DEATH(EXPECT_EQ(stale().name[1], 'n'), "heap-use-after-free");
}

TEST_P(HeaderLifetime, ShapeThatIsKeptTooLongIsReported) {
  EXPECT_DEATH(EXPECT_EQ(stale().shape[0], 3U), "heap-use-after-free");
}

INSTANTIATE_TEST_SUITE_P(Bytes, HeaderLifetime, testing::Values(std::size_t{1}, std::size_t{5} << 20));

}  // namespace
}  // namespace safetensors::test
