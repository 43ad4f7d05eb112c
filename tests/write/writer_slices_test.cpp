// Writer::write_slice: every slice lands where reading finds it, and slices that do not fit are refused.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/writer.h>

#include <string>
#include <vector>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

class WriterSlices : public testing::Test {
 protected:
  Writer writer(Dtype dtype, const Shape& shape) {
    HeaderBuilder builder;
    EXPECT_TRUE(succeeds(builder.add("t", dtype, shape)));
    return Writer::create(path_, builder.build().value()).value();
  }
  static std::string message(const Status& status, Errc code) {
    EXPECT_EQ(error_of(status).code, code);
    return error_of(status).message;
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "out.safetensors";
};

TEST_F(WriterSlices, ReadBackWhatWasWritten) {
  const std::vector<std::vector<const char*>> cuts = {
      {""},
      {":2", "2:"},
      {":, :3", ":, 3:"},
      {"::2", "1::2"},
      {"::-1"},
      {":, ::-2", ":, 1::2", ":, 0:0"},
      {"0", "1", "2", "3"},
      {"..., :1", "..., 1:"},
      {":2, :3, :2", ":2, 3:, :2", "2:, :, :2", ":, :, 2:"},
      {"-1, -1, -1", ":3", "3, :4", "3, 4, :4"},
  };
  for (const auto& slices : cuts) {
    Writer made = writer(Dtype::U16, {4, 5, 5});
    std::vector<std::string> parts;
    for (const char* slice : slices) {
      const ResolvedSlice part = Slice(slice).resolve(Dtype::U16, Shape{4, 5, 5}).value();
      parts.push_back(noise(static_cast<std::size_t>(part.nbytes()), parts.size()));
      ASSERT_TRUE(succeeds(made.write_slice("t", slice, bytes_of(parts.back())))) << slice;
    }
    ASSERT_TRUE(succeeds(made.commit()));
    const Tensor read = tensor(File::open(path_).value(), "t");
    for (std::size_t i = 0; i < slices.size(); ++i)
      EXPECT_EQ(data_of(read.read(slices[i]).value()), parts[i]) << slices[i];
  }
}

TEST_F(WriterSlices, WriteScalarsAndPackedElements) {
  Writer scalar = writer(Dtype::F32, {});
  ASSERT_TRUE(succeeds(scalar.write_slice("t", Slice(), bytes_of("abcd"))));
  ASSERT_TRUE(succeeds(scalar.commit()));
  Writer packed = writer(Dtype::F4, {3, 4});
  ASSERT_TRUE(succeeds(packed.write_slice("t", ":, 2:", bytes_of("abc"))));
  EXPECT_EQ(error_of(packed.write_slice("t", ":, 1:2", bytes_of("abc"))).code, Errc::slice_bits);
  ASSERT_TRUE(succeeds(packed.write_slice("t", ":, :2", bytes_of("ABC"))));
  ASSERT_TRUE(succeeds(packed.commit()));
  EXPECT_EQ(data_of(tensor(File::open(path_).value(), "t").read().value()), "AaBbCc");
}

TEST_F(WriterSlices, RefuseWhatDoesNotFit) {
  Writer made = writer(Dtype::U8, {2, 3});
  EXPECT_EQ(message(made.write_slice("u", ":", bytes_of("abcdef")), Errc::not_found), "no tensor `u` in the header");
  EXPECT_EQ(message(made.write_slice("t", ":, 1:", bytes_of("abc")), Errc::data_length),
            "tensor `t`: the slice has shape [2, 2] and 4 bytes, the data 3");
  EXPECT_TRUE(message(made.write_slice("t", "2", bytes_of("abc")), Errc::slice_index).starts_with("tensor `t`: "));
  EXPECT_TRUE(message(made.write_slice("t", "0,0,0", bytes_of("a")), Errc::slice_rank).starts_with("tensor `t`: "));
  EXPECT_TRUE(message(made.write_slice("t", "::0", bytes_of("a")), Errc::slice_step).starts_with("tensor `t`: "));
  EXPECT_TRUE(message(made.write_slice("t", "a", bytes_of("a")), Errc::slice_syntax).starts_with("tensor `t`: "));
  // A slice whose second row overlaps claims nothing.
  ASSERT_TRUE(succeeds(made.write("t", 4, bytes_of("e"))));
  EXPECT_EQ(message(made.write_slice("t", ":, 1", bytes_of("xx")), Errc::overlapping_write),
            "tensor `t`: bytes 4 to 5 of 6 were already written");
  ASSERT_TRUE(succeeds(made.write_slice("t", "0", bytes_of("abc"))));
  ASSERT_TRUE(succeeds(made.write_slice("t", "1, ::2", bytes_of("df"))));
  ASSERT_TRUE(succeeds(made.commit()));
  EXPECT_EQ(data_of(tensor(File::open(path_).value(), "t").read().value()), "abcdef");
  EXPECT_EQ(message(made.write_slice("t", "0", bytes_of("abc")), Errc::writer_closed),
            "the writer was already committed or moved from");
}

}  // namespace
}  // namespace safetensors::test
