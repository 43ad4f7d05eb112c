// stats() and diff() of files whose faults the reader accepted.
#include <gtest/gtest.h>
#include <safetensors/diff.h>
#include <safetensors/stats.h>

#include <memory>
#include <string>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

// A tensor of unknown dtype, whose shape has far more elements than its bytes, a tensor of U8, an unused byte.
File open_faults(const std::string& data = "abcd=") {
  const std::string header =
      R"({"x":{"dtype":"X9","shape":[1099511627776],"data_offsets":[0,3]},"y":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})";
  const auto bytes = std::make_shared<const std::string>(file_bytes(header, data));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes, {.accept = Accept::all()}).value();
}

// One tensor `a` of shape [2] with this dtype and size.
File open_unknown(const std::string& dtype, std::size_t size) {
  const std::string header =
      R"({"a":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,)" + std::to_string(size) + "]}}";
  const auto bytes = std::make_shared<const std::string>(file_bytes(header, std::string(size, '1')));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes, {.accept = Accept::all()}).value();
}

TEST(CheckAcceptedFaults, StatsRefuseUnknownDtype) {
  const File file = open_faults();
  const Error error = error_of(stats(file.tensors()));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `x`: a tensor of unknown dtype has no numbers");
  const StatsOptions known{.select = [](const Tensor& tensor) { return tensor.dtype() != Dtype::UNKNOWN; }};
  EXPECT_EQ(stats(file.tensors(), known).value().size(), 1u);
}

TEST(CheckAcceptedFaults, DiffRefusesValuesOfUnknownDtype) {
  const File one = open_faults();
  const File other = open_faults("abdd=");
  const Error error = error_of(diff(one.tensors(), other.tensors()));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `x`: cannot compare the values of a tensor of unknown dtype");
  EXPECT_TRUE(succeeds(diff(one.tensors(), other.tensors(), {.values = false})));
}

// Without values, the text of the dtype and the size decide.
TEST(CheckAcceptedFaults, DiffComparesTextsOfUnknownDtypes) {
  const auto differences = [](const char* first, const char* second) {
    const File one = open_unknown(first, 2);
    const File other = open_unknown(second, 2);
    return diff(one.tensors(), other.tensors(), {.values = false}).value();
  };
  EXPECT_TRUE(differences("F8_E3M4", "F8_E3M4").equal());
  const DiffResult result = differences("F8_E3M4", "X9");
  ASSERT_EQ(result.tensors.size(), 1u);
  EXPECT_EQ(result.tensors[0].kind, DiffKind::dtype);
  const File one = open_unknown("X9", 2);
  const File longer = open_unknown("X9", 6);
  EXPECT_FALSE(diff(one.tensors(), longer.tensors(), {.values = false}).value().equal());
}

}  // namespace
}  // namespace safetensors::test
