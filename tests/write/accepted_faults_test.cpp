// A file whose faults the reader accepted: what writes it again refuses it, or leaves the faults out.
#include <gtest/gtest.h>
#include <safetensors/checkpoint.h>
#include <safetensors/save.h>
#include <safetensors/writer.h>
#include "write/rewrite.h"

#include <string>
#include <vector>

#include "support/checkpoint_support.h"

namespace safetensors::test {
namespace {

class AcceptedFaults : public ::testing::Test {
 protected:
  Checkpoint open(const std::string& text, const std::string& data) {
    std::string head(8, '\0');
    head[0] = static_cast<char>(text.size());
    bytes_ = head + text + data;
    put(path_, bytes_);
    return Checkpoint::open(path_, {.parse = {.accept = Accept::all()}}).value();
  }
  Checkpoint open_unused() {
    return open(
        R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
        "aabb==");
  }
  Checkpoint open_unknown() { return open(R"({"a":{"dtype":"X8","shape":[2],"data_offsets":[0,3]}})", "aaa"); }
  static std::vector<RewriteTensor> all(const Checkpoint& model) {
    std::vector<RewriteTensor> tensors;
    for (const Tensor& tensor : model.tensors()) tensors.push_back({.tensor = tensor});
    return tensors;
  }
  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "in.safetensors";
  const std::string out_ = directory_ / "out.safetensors";
  std::string bytes_;
};

TEST_F(AcceptedFaults, RewriteLeavesUnusedBytesOut) {
  const Checkpoint model = open_unused();
  ASSERT_TRUE(succeeds(Rewrite::plan(all(model), {}).value().write(out_)));
  const File file = File::open(out_).value();  // strict
  EXPECT_EQ(file.header().data_bytes(), 4u);
  EXPECT_EQ(file.tensor("b").value().read_as<std::uint8_t>().value(), (std::vector<std::uint8_t>{'b', 'b'}));
}

TEST_F(AcceptedFaults, RewriteRefusesUnknownDtype) {
  const Checkpoint model = open_unknown();
  const Error error = error_of(Rewrite::plan(all(model), {}));
  EXPECT_EQ(error.code, Errc::dtype_mismatch);
  EXPECT_EQ(error.message, "tensor `a`: has an unknown dtype, expected one of the format's");
  std::vector<RewriteTensor> cast = all(model);
  cast[0].dtype = Dtype::U8;
  EXPECT_EQ(error_of(Rewrite::plan(cast, {})).code, Errc::dtype_mismatch);
}

TEST_F(AcceptedFaults, EditOfMetadataRefusesFaults) {
  for (const bool in_place : {false, true}) {
    for (const bool unused : {false, true}) {
      const Checkpoint model = unused ? open_unused() : open_unknown();
      const std::string found = to_string(model.files()[0].header().tolerated());
      const Error error =
          error_of(edit_metadata(path_, {{"k", "v"}}, {.in_place = in_place, .parse = {.accept = Accept::all()}}));
      EXPECT_EQ(error.code, Errc::unsupported);
      EXPECT_EQ(error.message, "cannot write this header: its file has " + found + ", which the format does not allow");
      EXPECT_EQ(contents(path_), bytes_);
    }
  }
}

TEST_F(AcceptedFaults, WriterRefusesHeader) {
  const Checkpoint unused = open_unused();
  EXPECT_EQ(error_of(Writer::create(out_, unused.files()[0].header())).code, Errc::unsupported);
  const Checkpoint unknown = open_unknown();
  EXPECT_EQ(error_of(Writer::create(out_, unknown.files()[0].header())).code, Errc::unsupported);
}

TEST_F(AcceptedFaults, WriterRefusesCopyOfUnknownDtype) {
  const Checkpoint unknown = open_unknown();
  HeaderBuilder builder;
  ASSERT_TRUE(succeeds(builder.add("a", Dtype::U8, {2})));
  Writer writer = Writer::create(out_, builder.build().value()).value();
  EXPECT_EQ(error_of(writer.copy("a", unknown.tensor("a").value())).code, Errc::dtype_mismatch);
}

}  // namespace
}  // namespace safetensors::test
