// stats(), diff(), lint() and recognize() of files whose faults the reader accepted.
#include <gtest/gtest.h>
#include <safetensors/diff.h>
#include <safetensors/lint.h>
#include <safetensors/recognize.h>
#include <safetensors/stats.h>

#include <memory>
#include <string>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

// A tensor of unknown dtype, whose shape has far more elements than its bytes, a hole, a tensor of U8, an unused byte.
File open_faults(const std::string& data = "abc--d=") {
  const std::string header =
      R"({"x":{"dtype":"X9","shape":[1099511627776],"data_offsets":[0,3]},"y":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})";
  const auto bytes = std::make_shared<const std::string>(file_bytes(header, data));
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
  const File other = open_faults("abd--d=");
  const Error error = error_of(diff(one.tensors(), other.tensors()));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `x`: cannot compare the values of a tensor of unknown dtype");
  EXPECT_TRUE(succeeds(diff(one.tensors(), other.tensors(), {.values = false})));
}

TEST(CheckAcceptedFaults, LintReadsOnlyBytesOfTensors) {
  EXPECT_TRUE(succeeds(lint(open_faults(), {})));
}

TEST(CheckAcceptedFaults, RecognizeCountsNoUnknownWeights) {
  const File file = open_faults();
  const Recognition found = recognize(file.tensors(), file.metadata()).value();
  EXPECT_EQ(found.weights, 1u);
  EXPECT_EQ(found.unknown, 1u);
}

}  // namespace
}  // namespace safetensors::test
