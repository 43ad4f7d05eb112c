// Tensors copied from Sources that fail.
#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/writer.h>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

// An error of a Source is not a failure of the Writer, whatever its code is.
TEST(WriterCopy, MayBeRepeatedAfterAnySourceError) {
  const TemporaryDirectory directory;
  const std::string path = directory / "model.safetensors";
  const std::string bytes = one_tensor("U8", "[3000000]", 3'000'000);
  const File whole = File::from_memory(std::as_bytes(std::span(bytes)), nullptr).value();
  for (const Durability durability : {Durability::full, Durability::none}) {
    for (const Errc code : {Errc::read_failed, Errc::write_failed, Errc::cancelled, Errc::ok, Errc::out_of_memory,
                            Errc::writer_closed, Errc::sync_failed}) {
      const auto source = std::make_shared<ScriptedSource>(bytes);
      const File file = File::from_source(source).value();
      WriteOptions options{.durability = durability};
      if (code != Errc::read_failed) options.progress = [](std::uint64_t, std::uint64_t) { return true; };
      Writer writer = Writer::create(path, whole.header(), options).value();
      source->fail_code = code;
      source->fail_from = 2'000'000;
      const Error error = error_of(writer.copy("t", tensor(file, "t")));
      EXPECT_EQ(error.code, code == Errc::ok ? Errc::read_failed : code);
      EXPECT_EQ(error.message, "no answer from the server");
      EXPECT_EQ(error_of(writer.commit()).code, Errc::incomplete_write) << to_string(code);
      source->fail_from = ~std::uint64_t{0};
      ASSERT_TRUE(succeeds(writer.copy("t", tensor(file, "t")))) << to_string(code);
      ASSERT_TRUE(succeeds(writer.commit()));
      EXPECT_TRUE(contents(path) == bytes);
    }
  }
}

}  // namespace
}  // namespace safetensors::test
