// Writer::write_rows: the ranges of bytes that rows are, and the calls that it refuses.
#include <gtest/gtest.h>
#include <safetensors/writer.h>

#include <limits>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

class WriterRows : public testing::Test {
 protected:
  static Header layout_of(Dtype dtype, const std::vector<std::uint64_t>& shape) {
    HeaderBuilder builder;
    EXPECT_TRUE(succeeds(builder.add("w", dtype, shape)));
    return builder.build().value();
  }
  Writer writer_of(Dtype dtype, const std::vector<std::uint64_t>& shape) const {
    return Writer::create(path, layout_of(dtype, shape), {.durability = Durability::none}).value();
  }
  // Returns the bytes of the tensor that the writer has written, which are the last ones of the file.
  std::string committed(Writer& writer) const {
    EXPECT_TRUE(succeeds(writer.commit()));
    const std::string file = contents(path);
    return file.substr(file.size() - static_cast<std::size_t>(writer.header().data_bytes()));
  }

  const TemporaryDirectory directory;
  const std::string path = directory / "model";
};

TEST_F(WriterRows, RowsInAnyOrderAreRangesOfTensor) {
  Writer writer = writer_of(Dtype::U16, {4, 3});
  ASSERT_TRUE(succeeds(writer.write_rows("w", 3, bytes_of("stuvwx"))));
  ASSERT_TRUE(succeeds(writer.write_rows("w", 0, bytes_of("abcdef"))));
  EXPECT_EQ(error_of(writer.commit()).message, "tensor `w`: bytes 6 to 18 of 24 were never written");
  ASSERT_TRUE(succeeds(writer.write_rows("w", 1, bytes_of("ghijklmnopqr"))));
  EXPECT_EQ(committed(writer), "abcdefghijklmnopqrstuvwx");
}

TEST_F(WriterRows, RowsAndByteOffsetsMayBeMixed) {
  Writer writer = writer_of(Dtype::U8, {2, 4});
  ASSERT_TRUE(succeeds(writer.write("w", 4, bytes_of("ef"))));
  const Error error = error_of(writer.write_rows("w", 1, bytes_of("efgh")));
  EXPECT_EQ(error.code, Errc::overlapping_write);
  EXPECT_EQ(error.message, "tensor `w`: bytes 4 to 6 of 8 were already written");
  ASSERT_TRUE(succeeds(writer.write_rows("w", 0, bytes_of("abcd"))));
  ASSERT_TRUE(succeeds(writer.write("w", 6, bytes_of("gh"))));
  EXPECT_EQ(committed(writer), "abcdefgh");
}

TEST_F(WriterRows, RowOfPackedElementsEndsWithByte) {
  Writer writer = writer_of(Dtype::F6_E3M2, {2, 4});
  ASSERT_TRUE(succeeds(writer.write_rows("w", 1, bytes_of("def"))));
  ASSERT_TRUE(succeeds(writer.write_rows("w", 0, bytes_of("abc"))));
  EXPECT_EQ(committed(writer), "abcdef");
}

TEST_F(WriterRows, RefusesRowsThatDoNotEndWithByte) {
  Writer writer = writer_of(Dtype::F4, {2, 3});
  const Error error = error_of(writer.write_rows("w", 0, bytes_of("a")));
  EXPECT_EQ(error.code, Errc::slice_bits);
  EXPECT_EQ(error.message, "tensor `w` has rows that do not end with a byte: write it whole");
  EXPECT_EQ(error.path, path);
  ASSERT_TRUE(succeeds(writer.write("w", 0, bytes_of("abc"))));
  EXPECT_EQ(committed(writer), "abc");
}

TEST_F(WriterRows, RefusesScalar) {
  Writer writer = writer_of(Dtype::U8, {});
  for (const std::string_view bytes : {"a", ""}) {
    const Error error = error_of(writer.write_rows("w", 0, bytes_of(bytes)));
    EXPECT_EQ(error.code, Errc::slice_rank);
    EXPECT_EQ(error.message, "tensor `w` is a scalar and has no rows");
  }
}

TEST_F(WriterRows, RefusedCallsWriteNothing) {
  Writer writer = writer_of(Dtype::U16, {2, 2});
  Error error = error_of(writer.write_rows("x", 0, bytes_of("abcd")));
  EXPECT_EQ(error.code, Errc::not_found);
  EXPECT_EQ(error.message, "no tensor `x` in the header");
  error = error_of(writer.write_rows("w", 3, {}));
  EXPECT_EQ(error.code, Errc::slice_index);
  EXPECT_EQ(error.message, "tensor `w` has 2 rows, the first row is 3");
  error = error_of(writer.write_rows("w", std::numeric_limits<std::uint64_t>::max(), bytes_of("abcd")));
  EXPECT_EQ(error.code, Errc::slice_index);
  EXPECT_EQ(error.message, "tensor `w` has 2 rows, the first row is 18446744073709551615");
  error = error_of(writer.write_rows("w", 0, bytes_of("abcde")));
  EXPECT_EQ(error.code, Errc::data_length);
  EXPECT_EQ(error.message, "tensor `w` has rows of 4 bytes, the data 5");
  error = error_of(writer.write_rows("w", 1, bytes_of("abcdefgh")));
  EXPECT_EQ(error.code, Errc::buffer_size);
  EXPECT_EQ(error.message, "tensor `w`: 8 bytes at byte 4 do not fit, it has 8");
  ASSERT_TRUE(succeeds(writer.write_rows("w", 0, bytes_of("abcdefgh"))));
  EXPECT_EQ(committed(writer), "abcdefgh");
  EXPECT_EQ(error_of(writer.write_rows("w", 0, bytes_of("abcdefgh"))).code, Errc::writer_closed);
}

TEST_F(WriterRows, EmptyRowsTakeNoBytes) {
  for (const std::vector<std::uint64_t>& shape : {std::vector<std::uint64_t>{0, 7}, {3, 0}, {0}}) {
    Writer writer = writer_of(Dtype::F32, shape);
    ASSERT_TRUE(succeeds(writer.write_rows("w", shape[0], {})));
    const Error error = error_of(writer.write_rows("w", 0, bytes_of("abcd")));
    EXPECT_EQ(error.code, Errc::data_length);
    EXPECT_EQ(error.message, "tensor `w` has rows of 0 bytes, the data 4");
    EXPECT_EQ(committed(writer), "");
  }
}

TEST_F(WriterRows, ClosedWriterRefusesRows) {
  Writer writer = writer_of(Dtype::U8, {1});
  const Writer other = std::move(writer);
  EXPECT_EQ(error_of(writer.write_rows("w", 0, bytes_of("a"))).code, Errc::writer_closed);  // NOLINT
}

}  // namespace
}  // namespace safetensors::test
