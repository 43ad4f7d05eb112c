// Manifests: text and back, hostile texts, damaged files, and Sources that check what they read.
#include <safetensors/hash.h>
#include <safetensors/read_plan.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/file_support.h"

namespace safetensors::test {
namespace {

constexpr std::uint64_t kManifestChunk = 65536;

// Tensors a of 100,000 bytes, empty of 0, b of 200,000.
std::string three_tensors() {
  return file_bytes(R"({"a":{"dtype":"U8","shape":[100000],"data_offsets":[0,100000]},)"
                    R"("empty":{"dtype":"U8","shape":[0],"data_offsets":[100000,100000]},)"
                    R"("b":{"dtype":"U8","shape":[200000],"data_offsets":[100000,300000]}})",
                    pattern(300000));
}

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "manifest_test/";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "sub");
    write("x.safetensors", three_tensors());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + name, std::ios::binary) << bytes;
  }
  void flip(const std::string& name, std::size_t offset) const {
    std::string bytes = three_tensors();
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    write(name, bytes);
  }
  [[nodiscard]] File open(const std::string& name = "x.safetensors") const {
    return File::open(folder_ + name).value();
  }
  [[nodiscard]] Manifest make() const {
    const File files[] = {open()};
    return Manifest::make(files, {.chunk_bytes = kManifestChunk}).value();
  }
  [[nodiscard]] std::uint64_t start() const {
    const File file = open();
    return file.header().data_start();
  }

  std::string folder_;
};

std::string parse_error(const std::string& text) {
  const Result<Manifest> manifest = Manifest::parse(text);
  return manifest ? "" : manifest.error().to_string();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

TEST_F(ManifestTest, TextRoundTrips) {
  const Manifest manifest = make();
  const std::string text = manifest.text().value();
  const Manifest again = Manifest::parse(text).value();
  EXPECT_EQ(again.text().value(), text);
  ASSERT_EQ(again.files.size(), 1U);
  EXPECT_EQ(again.files[0].name, "x.safetensors");
  EXPECT_EQ(again.files[0].chunks.size(), 5U);
  EXPECT_EQ(again.files[0].tensors.size(), 3U);
  EXPECT_NE(again.find("x.safetensors"), nullptr);
  EXPECT_EQ(again.find("y.safetensors"), nullptr);
}

TEST_F(ManifestTest, NamesAreRelative) {
  write("sub/y.safetensors", two_tensors());
  const File files[] = {open(), open("sub/y.safetensors")};
  const Manifest manifest = Manifest::make(files).value();
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.files[0].name, "sub/y.safetensors");
  EXPECT_EQ(manifest.files[1].name, "x.safetensors");
}

TEST_F(ManifestTest, RefusesHostileTexts) {
  const std::string text = make().text().value();
  const auto change = [&](const std::string& from, const std::string& to) {
    return parse_error(replaced(text, from, to));
  };
  EXPECT_EQ(parse_error(""), "not a manifest: the text ends too early (byte 0)");
  EXPECT_EQ(change("manifest/1", "manifest/2"), "not a manifest: the schema is not `safetensors.manifest/1` (byte 11)");
  EXPECT_EQ(change("sha256", "md5"), "not a manifest: unknown algorithm, expected sha256 or blake3 (byte 50)");
  EXPECT_EQ(change("65536", "65537"), "chunk_bytes is 65537, expected a power of two from 65536 to 16777216");
  EXPECT_EQ(change("65536", "0"), "chunk_bytes is 0, expected a power of two from 65536 to 16777216");
  EXPECT_EQ(change("65536", "131072"), "file `x.safetensors`: 5 chunks, expected 3 for 300204 bytes");
  EXPECT_EQ(change("\"bytes\": 300204", "\"bytes\": 18446744073709551615"),
            "file `x.safetensors`: 5 chunks, expected 281474976710656 for 18446744073709551615 bytes");
  EXPECT_EQ(change("x.safetensors", "../x.safetensors"),
            "the file name `../x.safetensors` is not allowed: it leads out of a folder");
  EXPECT_EQ(change("\"name\": \"b\"", "\"name\": \"a\""), "file `x.safetensors`: tensor `a` occurs twice");
  EXPECT_EQ(change("\"end\": 300204", "\"end\": 300205"),
            "file `x.safetensors`: the range of tensor `b` is not after the one before, in the file");
  EXPECT_EQ(change("\"data_start\": 204", "\"data_start\": 7"),
            "file `x.safetensors`: data_start is not inside of the file");
  EXPECT_EQ(change("\"algorithm\": \"sha256\", ", "").substr(0, 36), "not a manifest: a member is missing ");
  EXPECT_EQ(change("\"algorithm\"", "\"more\"").substr(0, 31), "not a manifest: unknown member ");
  EXPECT_EQ(change("\"algorithm\": ", "\"schema\": \"safetensors.manifest/1\", \"algorithm\": ").substr(0, 43),
            "not a manifest: second member of this name ");
  EXPECT_EQ(parse_error(text.substr(0, text.size() / 2)).substr(0, 16), "not a manifest: ");
  EXPECT_EQ(parse_error(text + "x").substr(0, 16), "not a manifest: ");
  EXPECT_EQ(
      parse_error(R"({"schema": "safetensors.manifest/1", "algorithm": "sha256", "chunk_bytes": 65536, "files": []})"),
      "the manifest has no files");
}

// A byte of a name has six characters when it is escaped. Uncut, the message alone would break the limit of memory.
TEST_F(ManifestTest, ErrorsCutLongNames) {
  const std::string text = make().text().value();
  const std::string name(100'000, '\x7f');
  std::string shown;
  for (int i = 0; i < 200; ++i) shown += "\\u{7f}";
  EXPECT_EQ(parse_error(replaced(text, "x.safetensors", name)),
            "the file name `" + shown + "...` is not allowed: it holds a control or invisible character");
  EXPECT_EQ(parse_error(replaced(replaced(text, "\"name\": \"b\"", "\"name\": \"" + name + "\""), "\"end\": 300204",
                                 "\"end\": 300205")),
            "file `x.safetensors`: the range of tensor `" + shown + "...` is not after the one before, in the file");
  Manifest manifest = make();
  manifest.files[0].tensors[0].name = name;
  EXPECT_EQ(verify_file(open(), manifest.files[0], manifest).error().message,
            "tensor `" + shown + "...` of the manifest is not in the file");
}

TEST_F(ManifestTest, MakeRefusesNamesThatParseRefuses) {
  for (const std::string name : {"a:b", "a\x1b", "a\xff", "\xe2\x80\xae"}) {
    write(name, three_tensors());
    const File files[] = {open(name)};
    const Result<Manifest> manifest = Manifest::make(files);
    ASSERT_FALSE(manifest) << name;
    EXPECT_EQ(manifest.error().code, Errc::invalid_argument);
    EXPECT_NE(manifest.error().message.find(printable(name)), std::string::npos) << manifest.error().message;
  }
}

TEST_F(ManifestTest, ReadsARegularFileOnly) {
  write("m.json", make().text().value());
  EXPECT_EQ(Manifest::read(folder_ + "m.json").value().text().value(), make().text().value());
  EXPECT_EQ(Manifest::read(folder_ + "sub").error().code, Errc::not_regular_file);
  EXPECT_EQ(Manifest::read(folder_ + "none").error().code, Errc::open_failed);
  write("m.json", "{");
  const Error bad = Manifest::read(folder_ + "m.json").error();
  EXPECT_EQ(bad.code, Errc::invalid_argument);
  EXPECT_EQ(bad.path, folder_ + "m.json");
  std::filesystem::resize_file(folder_ + "m.json", kMaxManifestBytes + 1);
  EXPECT_EQ(Manifest::read(folder_ + "m.json").error().message,
            "not a manifest: 268435457 bytes, at most 268435456 are read");
}

TEST_F(ManifestTest, AnotherSchemaOrAlgorithmIsNoManifest) {
  const std::string text = make().text().value();
  for (const auto& [from, to] : {std::pair("manifest/1", "manifest/2"), std::pair("sha256", "md5")})
    EXPECT_EQ(Manifest::parse(replaced(text, from, to)).error().code, Errc::invalid_argument);
}

// The result of verify_file() as text, such as "[0, 204) header".
std::string damage(const File& file, const Manifest& manifest) {
  const auto ranges = verify_file(file, manifest.files[0], manifest);
  if (!ranges) return ranges.error().to_string();
  std::string text;
  for (const DamagedRange& range : *ranges) {
    text += (text.empty() ? "[" : "; [") + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
    if (range.header) text += " header";
    if (range.data) text += " data";
    if (range.file) text += " file";
    for (const std::string& name : range.tensors) text += " " + name;
  }
  return text;
}

// Every digest of a manifest must be right, even if the others are enough to know that the file is.
TEST_F(ManifestTest, EachWrongDigestIsDamage) {
  for (const HashAlgorithm algorithm : {HashAlgorithm::sha256, HashAlgorithm::blake3}) {
    if (hash_library(algorithm).empty()) continue;  // this build does not have it
    const File files[] = {open()};
    const Manifest right = Manifest::make(files, {.algorithm = algorithm, .chunk_bytes = kManifestChunk}).value();
    EXPECT_EQ(damage(open(), right), "");
    const auto wrong = [&](const auto& digest_of) {
      Manifest manifest = right;
      digest_of(manifest.files[0]).bytes[31] ^= 1;
      return damage(open(), manifest);
    };
    EXPECT_EQ(wrong([](ManifestFile& file) -> Digest& { return file.digest; }), "[0, 300204) file");
    EXPECT_EQ(wrong([](ManifestFile& file) -> Digest& { return file.header; }), "[0, 204) header");
    EXPECT_EQ(wrong([](ManifestFile& file) -> Digest& { return file.data; }), "[204, 300204) data");
    const std::string tensors[] = {"[204, 100204) a", "[100204, 100204) empty", "[100204, 300204) b"};
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(wrong([i](ManifestFile& file) -> Digest& { return file.tensors[i].digest; }), tensors[i]);
    const std::string chunks[] = {"[0, 65536)", "[65536, 131072)", "[131072, 196608)", "[196608, 262144)",
                                  "[262144, 300204)"};
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(wrong([i](ManifestFile& file) -> Digest& { return file.chunks[i]; }), chunks[i]);
  }
}

TEST_F(ManifestTest, TwoWrongDigestsAreTwoRanges) {
  Manifest manifest = make();
  manifest.files[0].digest = {};
  manifest.files[0].data = {};
  EXPECT_EQ(damage(open(), manifest), "[0, 300204) file; [204, 300204) data");
  manifest.files[0].chunks[1] = {};
  manifest.files[0].tensors[2].digest = {};
  EXPECT_EQ(damage(open(), manifest), "[65536, 131072) b");
  manifest.files[0].tensors[0].digest = {};
  manifest.files[0].chunks[1] = make().files[0].chunks[1];
  manifest.files[0].chunks[4] = {};
  EXPECT_EQ(damage(open(), manifest), "[204, 100204) a; [262144, 300204) b");
}

// The header in use is the one that was parsed, so its bytes must have the digest, not those that the file has now.
TEST_F(ManifestTest, ComparesHeaderInUse) {
  const Manifest manifest = make();
  for (const std::string other : {R"("a":{"dtype":"I8")", R"("c":{"dtype":"U8")"}) {
    write("x.safetensors", replaced(three_tensors(), R"("a":{"dtype":"U8")", other));
    const File file = open();
    write("x.safetensors", three_tensors());
    EXPECT_EQ(damage(file, manifest), folder_ + "x.safetensors: the header was changed after the file was opened");
  }
  EXPECT_EQ(damage(open(), manifest), "");
}

TEST_F(ManifestTest, IntactFileHasNoDamage) {
  const Manifest manifest = make();
  for (const unsigned threads : {1U, 3U}) {
    const auto ranges = verify_file(open(), manifest.files[0], manifest, {.threads = threads});
    ASSERT_TRUE(succeeds(ranges));
    EXPECT_TRUE(ranges->empty());
  }
}

TEST_F(ManifestTest, FlippedByteNamesItsTensor) {
  const Manifest manifest = make();
  const std::uint64_t data = start();
  const std::pair<std::uint64_t, std::string> cases[] = {
      {data, "a"}, {data + 99999, "a"}, {data + 100000, "b"}, {data + 299999, "b"}};
  for (const auto& [offset, name] : cases) {
    flip("x.safetensors", offset);
    const auto ranges = verify_file(open(), manifest.files[0], manifest);
    ASSERT_TRUE(succeeds(ranges));
    ASSERT_EQ(ranges->size(), 1U);
    EXPECT_EQ((*ranges)[0].begin, offset / kManifestChunk * kManifestChunk);
    EXPECT_EQ((*ranges)[0].tensors, std::vector{name});
    EXPECT_FALSE((*ranges)[0].header);
  }
}

// A damaged header that is valid all the same: a tensor gets another name.
TEST_F(ManifestTest, ChangedHeaderIsDamage) {
  const Manifest manifest = make();
  write("x.safetensors", replaced(three_tensors(), "\"a\"", "\"c\""));
  const auto ranges = verify_file(open(), manifest.files[0], manifest);
  ASSERT_TRUE(succeeds(ranges));
  ASSERT_EQ(ranges->size(), 1U);
  EXPECT_TRUE((*ranges)[0].header);
  EXPECT_TRUE((*ranges)[0].tensors.empty());
}

TEST_F(ManifestTest, OtherSizeAndTensorsAreErrors) {
  Manifest manifest = make();
  manifest.files[0].tensors[2].name = "c";
  EXPECT_EQ(verify_file(open(), manifest.files[0], manifest).error().message,
            "tensor `c` of the manifest is not in the file");
  manifest.files[0].tensors.pop_back();
  EXPECT_EQ(verify_file(open(), manifest.files[0], manifest).error().message, "tensor `b` is not in the manifest");
  manifest.files[0].chunks.pop_back();
  EXPECT_EQ(verify_file(open(), manifest.files[0], manifest).error().message,
            "the chunks of the manifest do not match the size of its file");
  write("x.safetensors", two_tensors());
  const Manifest whole = Manifest::parse(Manifest(make()).text().value()).value();
  write("x.safetensors", three_tensors());
  const Status status = verify_file(open(), whole.files[0], whole).error();
  EXPECT_EQ(status.error().code, Errc::data_length);
}

TEST_F(ManifestTest, VerifiedSourceReadsTheSameBytes) {
  const Manifest manifest = make();
  const auto source = verified_source(open(), manifest.files[0], manifest).value();
  const File file = File::from_source(source).value();
  EXPECT_EQ(tensor(file, "b").read_as<std::uint8_t>().value().size(), 200000U);
  const std::string bytes = three_tensors();
  for (const std::size_t offset : {0U, 1U, 65535U, 65536U, 200000U}) {
    for (const std::size_t size : {1U, 65536U, 100000U}) {
      std::string out(size, '\0');
      ASSERT_EQ(source->read_at(offset, std::as_writable_bytes(std::span(out))).value(), size);
      EXPECT_EQ(out, bytes.substr(offset, size));
    }
  }
}

TEST_F(ManifestTest, VerifiedSourceRefusesFlippedByte) {
  const Manifest manifest = make();
  flip("x.safetensors", start() + 150000);
  const File file = File::from_source(verified_source(open(), manifest.files[0], manifest).value()).value();
  EXPECT_TRUE(succeeds(tensor(file, "a").read()));
  ReadPlan plan;
  ASSERT_TRUE(succeeds(plan.add(tensor(file, "b"))));
  const auto read = plan.execute();
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Errc::read_failed);
  EXPECT_NE(read.error().message.find("tensor `b`"), std::string::npos) << read.error().message;
  EXPECT_NE(read.error().message.find("the bytes [131072, 196608) of the file are not those of the manifest"),
            std::string::npos)
      << read.error().message;
}

}  // namespace
}  // namespace safetensors::test
