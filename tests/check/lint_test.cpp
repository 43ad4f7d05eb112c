// lint(): each code is found where it is, and nowhere else.
#include <safetensors/lint.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "format/header/signature.h"
#include "support/checkpoint_support.h"
#include "support/file_support.h"

namespace safetensors::test {
namespace {

struct Entry {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string bytes;
};

// The bytes of a file with these tensors in this order. The header is padded to a multiple of 8.
std::string bytes_of(const std::vector<Entry>& entries, const std::string& metadata = "", std::size_t spaces = 0) {
  std::string header = metadata.empty() ? "{" : "{\"__metadata__\":" + metadata;
  std::string data;
  for (const Entry& entry : entries) {
    if (header.size() > 1) header += ',';
    header += "\"" + entry.name + "\":{\"dtype\":\"" + entry.dtype + "\",\"shape\":" + entry.shape +
              ",\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += entry.bytes;
    header += std::to_string(data.size()) + "]}";
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8 + spaces, ' ');
  return file_bytes(header, data);
}

File open_bytes(std::string text, const ParseOptions& parse = {}) {
  const auto bytes = std::make_shared<const std::string>(std::move(text));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes, parse).value();
}

std::vector<LintFinding> found_in(const std::string& bytes, const LintOptions& options = {}) {
  return lint(open_bytes(bytes), options).value();
}

std::vector<LintCode> codes(const std::vector<LintFinding>& findings) {
  std::vector<LintCode> codes;
  for (const LintFinding& finding : findings) codes.push_back(finding.code);
  return codes;
}

using Codes = std::vector<LintCode>;

TEST(Lint, CleanFileHasNoFindings) {
  const std::string bytes = bytes_of({{"b", "F32", "[2]", pattern(8)}, {"a", "F16", "[2]", pattern(4)}},
                                     R"({"format":"pt","license":"mit"})");
  EXPECT_EQ(codes(found_in(bytes, {.duplicates = true})), Codes{});
  EXPECT_EQ(codes(found_in(bytes_of({}))), Codes{});
}

TEST(Lint, LooksOnlyAtSelectedTensors) {
  const std::string large(4096, 'x');
  const std::string bytes = bytes_of({{"a", "F64", "[1]", std::string(8, 'a')},
                                      {"b", "U8", "[4096]", large},
                                      {"c", "U8", "[4096]", large},
                                      {"d", "U8", "[24]",
                                       "\x7f"
                                       "ELF" +
                                           std::string(20, 'd')},
                                      {"", "U8", "[0]", ""}});
  const auto only = [&](std::string_view name) {
    return codes(found_in(
        bytes, {.duplicates = true, .select = [name](const TensorInfo& tensor) { return tensor.name == name; }}));
  };
  EXPECT_EQ(codes(found_in(bytes, {.duplicates = true})),
            (Codes{LintCode::embedded_file, LintCode::empty_name, LintCode::empty_tensor, LintCode::wide_dtype,
                   LintCode::duplicate_data}));
  EXPECT_EQ(only("a"), Codes{LintCode::wide_dtype});
  EXPECT_EQ(only("b"), Codes{});
  EXPECT_EQ(only("d"), Codes{LintCode::embedded_file});
  EXPECT_EQ(only(""), (Codes{LintCode::empty_name, LintCode::empty_tensor}));
}

TEST(Lint, CountsBytesOfMisalignedTensors) {
  const auto findings = found_in(bytes_of({{"b", "U8", "[1]", "x"},
                                           {"f", "F32", "[2]", pattern(8)},
                                           {"e", "F32", "[0]", ""},
                                           {"h", "F16", "[1]", "ab"},
                                           {"u", "U8", "[1]", "x"}}));
  ASSERT_EQ(codes(findings), (Codes{LintCode::misaligned, LintCode::order, LintCode::empty_tensor}));
  EXPECT_EQ(findings[0].count, 2U);
  EXPECT_EQ(findings[0].bytes, 10U);
  EXPECT_EQ(findings[0].tensor, "f");
  EXPECT_EQ(findings[0].message, "2 tensors not at a multiple of the element's size: loaders copy 10 bytes");
  EXPECT_EQ(findings[1].tensor, "f");
  EXPECT_EQ(findings[2].tensor, "e");
}

TEST(Lint, ComplexNumbersAlignAsF32) {
  const auto findings = found_in(bytes_of({{"a", "F32", "[1]", "abcd"}, {"c", "C64", "[1]", pattern(8)}}));
  EXPECT_EQ(codes(findings), (Codes{LintCode::order, LintCode::wide_dtype}));
}

TEST(Lint, FindsDataThatIsNotAligned) {
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "U8", "[1]", "x"}}, "", 1))), Codes{LintCode::data_alignment});
  EXPECT_EQ(codes(found_in(bytes_of({}, "", 1))), Codes{});
}

TEST(Lint, FindsNames) {
  EXPECT_EQ(codes(found_in(bytes_of({{"a\\u202eb", "U8", "[1]", "x"}}))), Codes{LintCode::invisible_name});
  EXPECT_EQ(codes(found_in(bytes_of({{"a\\nb", "U8", "[1]", "x"}}))), Codes{LintCode::invisible_name});
  EXPECT_EQ(codes(found_in(bytes_of({{"", "U8", "[1]", "x"}}))), Codes{LintCode::empty_name});
  EXPECT_EQ(codes(found_in(bytes_of({{std::string(257, 'n'), "U8", "[1]", "x"}}))), Codes{LintCode::long_name});
  EXPECT_EQ(codes(found_in(bytes_of({{std::string(256, 'n'), "U8", "[1]", "x"}}))), Codes{});
  for (const char* const name : {"../x", "/x", "a/../b", "a/..", "C:x", "..", "\\\\\\\\x", "a\\\\..\\\\b"})
    EXPECT_EQ(codes(found_in(bytes_of({{name, "U8", "[1]", "x"}}))), Codes{LintCode::path_name}) << name;
  for (const char* const name : {"a/b", "a..b", "...", "a.0.b"})
    EXPECT_EQ(codes(found_in(bytes_of({{name, "U8", "[1]", "x"}}))), Codes{}) << name;
}

TEST(Lint, FindsShapesAndDtypes) {
  std::string shape = "[1";
  for (int i = 0; i < 32; ++i) shape += ",1";
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "U8", shape + "]", "x"}}))), Codes{LintCode::high_rank});
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "F64", "[1]", pattern(8)}}))), Codes{LintCode::wide_dtype});
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "F64", "[0]", ""}}))),
            (Codes{LintCode::empty_tensor, LintCode::wide_dtype}));
}

TEST(Lint, FindsMetadata) {
  const std::vector<Entry> one = {{"a", "U8", "[1]", "x"}};
  EXPECT_EQ(codes(found_in(bytes_of(one, R"({"a":"b"})"))), Codes{LintCode::metadata_format});
  EXPECT_EQ(codes(found_in(bytes_of(one, R"({"format":"x"})"))), Codes{LintCode::metadata_format});
  EXPECT_EQ(codes(found_in(bytes_of(one, R"({"format":"mlx","a\u200b":"b"})"))), Codes{LintCode::invisible_metadata});
  const std::string large = R"({"format":"pt","a":")" + std::string(1 << 20, 'x') + "\"}";
  EXPECT_EQ(codes(found_in(bytes_of(one, large))), Codes{LintCode::large_metadata});
}

TEST(Lint, FindsWhiteSpace) {
  const std::string bytes = file_bytes("  {}    ", "");
  const File file = open_bytes(bytes, {.allow_leading_whitespace = true});
  const auto findings = lint(file).value();
  EXPECT_EQ(codes(findings), Codes{LintCode::leading_whitespace});
  EXPECT_EQ(severity(findings[0].code), LintSeverity::error);
}

TEST(Lint, CountsPadding) {
  const auto findings = found_in(bytes_of({{"a", "U8", "[1]", "x"}}, "", 800));
  ASSERT_EQ(codes(findings), Codes{LintCode::padding});
  EXPECT_GE(findings[0].count, 800U);
  EXPECT_LT(findings[0].count, 808U);
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "U8", "[1]", "x"}}, "", 56))), Codes{});
}

TEST(Lint, FindsZipArchiveAtEnd) {
  const std::string end = "PK\5\6" + std::string(16, '\0') + std::string("\3\0", 2) + "abc";
  const std::string data = pattern(1000) + end;
  const std::string shape = "[" + std::to_string(data.size()) + "]";
  const auto findings = found_in(bytes_of({{"a", "U8", shape, data}}));
  ASSERT_EQ(codes(findings), Codes{LintCode::foreign_signature});
  EXPECT_EQ(severity(findings[0].code), LintSeverity::warning);
  const std::string cut = data.substr(0, data.size() - 1);
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "U8", "[" + std::to_string(cut.size()) + "]", cut}}))), Codes{});
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "U8", shape, data}}), {.peek = false})), Codes{});
}

TEST(Lint, FindsSignaturesAtStart) {
  const std::vector<Entry> one = {{"a", "U8", "[1]", "x"}};
  EXPECT_EQ(codes(found_in(bytes_of(one, R"({"format":"pt","a":"%PDF-1.7"})"))), Codes{LintCode::foreign_signature});
  std::string far = R"({"format":"pt","a":")" + std::string(1100, 'x') + "%PDF-1.7\"}";
  EXPECT_EQ(codes(found_in(bytes_of(one, far))), Codes{});
  // The length of the header is "\x1f\x8b\x08\0\0\0\0\0", which also begins a gzip file.
  const std::string header = "{}" + std::string(0x088B1F - 2, ' ');
  EXPECT_EQ(codes(found_in(file_bytes(header, ""))), (Codes{LintCode::foreign_signature, LintCode::padding}));
}

TEST(Lint, FindsFilesInTensors) {
  const std::pair<std::string, bool> cases[] = {
      {"\x7f"
       "ELF" +
           std::string(60, '\0'),
       true},
      {"PK\3\4" + std::string(60, '\0'), true},
      {std::string("\x80\2}q\0", 5) + std::string(60, '\0'), true},
      {std::string("\x80\2ctorch._utils\n") + std::string(60, '\0'), true},
      {std::string("\x80\4\x95\x10\0\0\0\0\0\0\0\x8c", 12) + std::string(60, '\0'), true},
      {std::string("\x1f\x8b\x08\0", 4) + std::string(60, '\0'), true},
      {std::string("\x1f\x8b\x08\xff", 4) + std::string(60, '\0'), false},
      {std::string("\x80\2\1\1", 4) + std::string(60, '\0'), false},
      {"MZ" + std::string(60, '\0'), false},
      {std::string(64, '\0'), false},
      {R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16"})", false},
  };
  for (const auto& [data, bad] : cases) {
    const auto findings = found_in(bytes_of({{"a", "U8", "[" + std::to_string(data.size()) + "]", data}}));
    EXPECT_EQ(codes(findings), bad ? Codes{LintCode::embedded_file} : Codes{}) << printable(data.substr(0, 8));
  }
  EXPECT_EQ(codes(found_in(bytes_of({{"a", "F32", "[1]",
                                      "\x7f"
                                      "ELF"}}))),
            Codes{});
}

TEST(Lint, FindsEqualTensorsOnRequest) {
  const std::string large = pattern(5000);
  std::string other = large;
  other[4999] ^= 1;
  const std::string bytes = bytes_of({{"a", "U8", "[5000]", large},
                                      {"b", "U8", "[5000]", other},
                                      {"c", "U8", "[5000]", large},
                                      {"d", "U8", "[50,100]", large},
                                      {"e", "U8", "[5000]", large},
                                      {"s", "U8", "[1]", "x"},
                                      {"t", "U8", "[1]", "x"}});
  EXPECT_EQ(codes(found_in(bytes)), Codes{});
  std::uint64_t completed = 0;
  LintOptions options{.duplicates = true};
  options.progress = [&](std::uint64_t done, std::uint64_t) { return completed = done, true; };
  const auto findings = found_in(bytes, options);
  ASSERT_EQ(codes(findings), Codes{LintCode::duplicate_data});
  EXPECT_EQ(findings[0].tensor, "a");
  EXPECT_EQ(findings[0].count, 3U);
  EXPECT_EQ(findings[0].bytes, 10000U);
  EXPECT_EQ(completed, 20000U);
  options.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(lint(open_bytes(bytes), options).error().code, Errc::cancelled);
}

TEST(Lint, StopsBeforeEachReadOfPeek) {
  const std::string bytes = u8_file({{"a", "1234"}, {"b", "1234"}});
  LintOptions options;
  int left = 0;
  options.cancelled = [&] { return left-- == 0; };
  for (int reads = 0; reads < 5; ++reads) {  // start, end, header, a, b
    left = reads;
    EXPECT_EQ(lint(open_bytes(bytes), options).error().code, Errc::cancelled) << reads;
  }
  left = 5;
  EXPECT_TRUE(succeeds(lint(open_bytes(bytes), options)));
  options.peek = false;
  left = 0;
  EXPECT_TRUE(succeeds(lint(open_bytes(bytes), options)));
}

TEST(Lint, FindsProblemsOfIndex) {
  const TemporaryDirectory directory;
  put(directory / "a.safetensors", u8_file({{"x", "ab"}, {"y", "ab"}}));
  put(directory / "b.safetensors", u8_file({{"z", "ab"}}));
  put(directory / "c.safetensors", u8_file({{"w", "ab"}}));
  put(directory / "model.safetensors.index.json", index_text({{"x", "a.safetensors"}, {"z", "b.safetensors"}}));
  const Checkpoint model = Checkpoint::open(directory.path()).value();
  const auto findings = lint(model).value();
  std::vector<LintFinding> of_set;
  std::ranges::copy_if(findings, std::back_inserter(of_set), [](const LintFinding& f) { return !f.file; });
  ASSERT_EQ(codes(of_set), (Codes{LintCode::unindexed_tensor, LintCode::stray_file, LintCode::total_size}));
  EXPECT_EQ(of_set[0].tensor, "y");
  EXPECT_EQ(of_set[1].message, "files that are not in the index, such as `c.safetensors`");
  EXPECT_EQ(of_set[2].message, "total_size of the index is 1, the tensors have 4 bytes");
}

TEST(Lint, ReportsReadErrors) {
  const auto source = std::make_shared<ScriptedSource>(bytes_of({{"a", "U8", "[1]", "x"}}));
  const File file = File::from_source(source).value();
  source->fail_from = 0;
  EXPECT_EQ(lint(file).error().code, Errc::read_failed);
  EXPECT_TRUE(succeeds(lint(file, {.peek = false})));
}

TEST(Lint, CodesHaveNames) {
  std::set<std::string_view> names;
  for (const LintCode code : all_lint_codes()) {
    EXPECT_TRUE(names.insert(to_string(code)).second);
    EXPECT_FALSE(advice(code).empty());
  }
  EXPECT_EQ(to_string(LintSeverity::error), "error");
  EXPECT_EQ(to_string(static_cast<LintCode>(200)), "?");
  EXPECT_EQ(severity(static_cast<LintCode>(200)), LintSeverity::note);
}

TEST(Signature, SearchesZipEndFromTheEnd) {
  const std::string record = "PK\5\6" + std::string(18, '\0');
  EXPECT_EQ(format::signature_at_end(record).offset, 0U);
  EXPECT_EQ(format::signature_at_end("xx" + record).kind, "a zip archive");
  EXPECT_EQ(format::signature_at_end(record + "x").kind, "");
  EXPECT_EQ(format::signature_at_end("").kind, "");
  EXPECT_EQ(format::signature_at_end("PK\5\6PK\5\6").kind, "");
}

}  // namespace
}  // namespace safetensors::test
