// Files of other kinds, given in place of a model: the error names the kind and keeps its phrase, code and offset.
#include "format/header/file_kind.h"

#include <gtest/gtest.h>
#include <safetensors/file.h>
#include <safetensors/header.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/little_endian.h"
#include "support/file_support.h"

namespace {

using namespace std::string_view_literals;
using safetensors::Errc;
using safetensors::Error;
using safetensors::File;
using safetensors::Header;
using safetensors::format::file_kind;
using safetensors::format::FileKind;
using safetensors::test::ScriptedSource;

Error error_of(std::string_view bytes) {
  const auto file = File::from_memory(std::as_bytes(std::span(bytes)), nullptr);
  return file.ok() ? Error{.message = "accepted"} : file.error();
}

// bytes, and zeros up to 600.
std::string padded(std::string_view bytes) {
  std::string out(bytes);
  out.resize(std::max<std::size_t>(out.size(), 600));
  return out;
}

std::string zip_entry(std::string_view name) {
  std::string out("PK\3\4\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"sv);
  out += static_cast<char>(name.size());
  out += std::string(3, '\0');
  return out.append(name).append("rest");
}

struct Example {
  std::string bytes;
  std::string_view kind;  // as in the message
};

const std::vector<Example>& examples() {
  constexpr std::string_view kText =
      "a text file, not a safetensors file (a server's error message? download the model again)";
  constexpr std::string_view kPage =
      "an HTML page, not a safetensors file (a login or error page? download the model again)";
  constexpr std::string_view kXml =
      "an XML document, not a safetensors file (a server's error message? download the model again)";
  constexpr std::string_view kJson =
      "a JSON document, not a safetensors file (a configuration? open the model's folder, its index or a .safetensors "
      "file)";
  constexpr std::string_view kIndex =
      "a JSON index of several files, not a safetensors file (open it as a checkpoint, or open the files that it "
      "names)";
  constexpr std::string_view kTorch =
      "a PyTorch checkpoint, not a safetensors file (load it with PyTorch if you trust it, and save it with "
      "safetensors.torch.save_file)";
  constexpr std::string_view kPickle =
      "a pickle, such as an old PyTorch checkpoint, not a safetensors file (load it with PyTorch if you trust it, and "
      "save it with safetensors.torch.save_file)";
  constexpr std::string_view kZip =
      "a zip archive, not a safetensors file (such as a PyTorch checkpoint, or a model that must be extracted first)";
  std::string tar("model/weights.bin");
  tar.resize(257);
  static const std::vector<Example> kExamples = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
       "a Git LFS pointer, not a safetensors file (run `git lfs pull` to get the model itself)"},
      {"<!DOCTYPE html>\n<html lang=\"en\"><head>", kPage},
      {"\xEF\xBB\xBF\r\n\n  <!doctype HTML><HEAD>", kPage},
      {"<HTML><BODY>Sign in</BODY></HTML>", kPage},
      {"<!-- cached --><?php ?><html>", kPage},
      {"<?xml version=\"1.0\"?><!DOCTYPE html PUBLIC>", kPage},
      {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code></Error>", kXml},
      {"\x1f\x8b\x08\x08 compressed", "a gzip file, not a safetensors file (decompress it first)"},
      {"BZh91AY&SY\x01\x02", "a bzip2 file, not a safetensors file (decompress it first)"},
      {padded("\xfd\x37\x7a\x58\x5a\x00\x00\x04"sv), "an xz file, not a safetensors file (decompress it first)"},
      {padded("\x28\xb5\x2f\xfd\x04\x88\x01\x02"), "a zstd file, not a safetensors file (decompress it first)"},
      {padded("7z\xbc\xaf\x27\x1c\x00\x04"sv), "a 7z archive, not a safetensors file (extract the model first)"},
      {tar + "ustar\00000rest", "a tar archive, not a safetensors file (extract the model first)"},
      {zip_entry("archive/data.pkl"), kTorch},
      {zip_entry("arr_0.npy"), "a NumPy archive (.npz), not a safetensors file (read it with numpy.load)"},
      {zip_entry("model/config.json"), kZip},
      {padded("PK\5\6"), kZip},
      {std::string("PK\3\4\x14\0\0\0\x08\0"sv), kZip},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.", kPickle},
      {"\x80\x02}q", kPickle},
      {std::string("\x80\x04\x95\x1a\0\0\0\0\0\0\0}\x94"sv), kPickle},
      {"\x80\x05N.", kPickle},
      {std::string("GGUF\3\0\0\0\x23\1\0\0\0\0\0\0"sv),
       "a GGUF model, not a safetensors file (a format of llama.cpp: ask for the model as safetensors)"},
      {padded("\x89HDF\r\n\x1a\n"), "an HDF5 file, not a safetensors file (such as a Keras model: read it with h5py)"},
      {"\x93NUMPY\x01 v {'descr': '<f4'}", "a NumPy array, not a safetensors file (read it with numpy.load)"},
      {"{\n  \"metadata\": {\n    \"total_size\": 14483464192\n  },\n", kIndex},
      {"{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\"}}", kIndex},
      {"{\"architectures\": [\"BertModel\"]}", kJson},
      {"{ }", kJson},
      {"%PDF-1.7\n%\xE2\xE3\xCF\xD3", "a PDF document, not a safetensors file"},
      {padded("\x89PNG\r\n\x1a\n"), "a PNG image, not a safetensors file"},
      {padded("\xff\xd8\xff\xe0"), "a JPEG image, not a safetensors file"},
      {padded("Rar!\x1a\x07\x01"), "a RAR archive, not a safetensors file (extract the model first)"},
      {padded("ARROW1\0\0\1"sv), "an Arrow file, not a safetensors file (read it with pyarrow)"},
      {padded("PAR1\x15\x04"), "a Parquet file, not a safetensors file (read it with pyarrow)"},
      {padded("\x7f"
              "ELF\2\1\1"),
       "an ELF program, not a safetensors file"},
      {padded("tjgg\3"),
       "an old GGML model, not a safetensors file (a format of llama.cpp: ask for the model as safetensors)"},
      {padded("\x81\xa6params\x81"),
       "a Flax model in MsgPack, not a safetensors file (read it with flax.serialization)"},
      {padded("\x1c\0\0\0TFL3"sv),
       "a TensorFlow Lite model, not a safetensors file (ask for the model as safetensors)"},
      {padded("\x08\x08\x12\x07pytorch\x1a\x05"),
       "an ONNX model, not a safetensors file (read it with onnx, or ask for the model as safetensors)"},
      {"(dp0\nVa\np1\nI1\ns.", kPickle},
      {"Entry not found", kText},
      {"Invalid username or password.", kText},
      {"404: Not Found\n", kText},
      {"[1, 2, 3]\n", kText},
      {"Zugriff verweigert: Gr\xC3\xB6\xC3\x9F"
       "e\n",
       kText},
      {std::string(511, 'x') + "\xC3\xBC", kText},  // the first 512 bytes end within a character
  };
  return kExamples;
}

TEST(FileKind, IsNamedInErrorMessages) {
  for (const Example& example : examples()) {
    const Error error = error_of(example.bytes);
    const std::size_t colon = error.message.rfind(": ");
    EXPECT_EQ(error.message.substr(0, colon), "the file is " + std::string(example.kind)) << example.bytes;
    const std::string phrase = error.message.substr(colon + 2);
    EXPECT_EQ(phrase, example.bytes.size() < 8 ? "header too small" : "header too large") << example.bytes;
    EXPECT_EQ(error.code, example.bytes.size() < 8 ? Errc::header_too_small : Errc::header_too_large);
    EXPECT_EQ(error.offset, 0u);
    const auto bytes = std::as_bytes(std::span(example.bytes));
    const auto length = Header::length(bytes.first(std::min<std::size_t>(bytes.size(), 512)), bytes.size());
    ASSERT_FALSE(length.ok());
    EXPECT_EQ(length.error().message, error.message);
  }
}

// A file may be a pipe or a page that is sent in parts: no read returns more than a few bytes.
TEST(FileKind, NeedsNoWholeReads) {
  auto source = std::make_shared<ScriptedSource>("version https://git-lfs.github.com/spec/v1\n");
  source->most = 3;
  EXPECT_EQ(
      safetensors::test::error_of(File::from_source(source)).message,
      "the file is a Git LFS pointer, not a safetensors file (run `git lfs pull` to get the model itself): header too "
      "large");
}

TEST(FileKind, IsLeftOutIfStartCannotBeReadAgain) {
  auto source = std::make_shared<ScriptedSource>("version https://git-lfs.github.com/spec/v1\n");
  source->fail_from = 9;
  EXPECT_EQ(safetensors::test::error_of(File::from_source(source)).message,
            "header too large: its length is given as 2336927755350992246 bytes, the limit is 100000000");
}

TEST(FileKind, IsNamedIfBytesMakePlausibleLength) {
  const std::string gzip = padded("\x1f\x8b\x08\0\0\0\0\0\x02\x03"sv);  // 559,903 bytes
  Error error = error_of(gzip);
  EXPECT_EQ(error.code, Errc::invalid_header_length);
  EXPECT_EQ(error.message,
            "the file is a gzip file, not a safetensors file (decompress it first): invalid header length");
  error = error_of(gzip + std::string(559'903, '\xFF'));
  EXPECT_EQ(error.code, Errc::invalid_utf8);
  EXPECT_EQ(error.offset, 600u);
  EXPECT_EQ(error.message,
            "the file is a gzip file, not a safetensors file (decompress it first): invalid UTF-8 in header");
  error = error_of(gzip + std::string(559'903, '\0'));
  EXPECT_EQ(error.code, Errc::json_syntax);
  EXPECT_EQ(error.offset, 8u);
  EXPECT_EQ(error.message,
            "the file is a gzip file, not a safetensors file (decompress it first): invalid JSON in header");
  error = error_of(gzip.substr(0, 8) + std::string(559'903, ' ') + "\xFF");
  EXPECT_EQ(error.code, Errc::json_leading_whitespace);
  std::string tar("a");  // a name of one character: 97 bytes
  tar.resize(257);
  error = error_of(tar + "ustar\00000rest");
  EXPECT_EQ(error.message,
            "the file is a tar archive, not a safetensors file (extract the model first): invalid JSON in header");
}

// The lengths of headers can equal the signatures of other kinds.
TEST(FileKind, IsNotNamedForDamagedModels) {
  const std::string length("\x1f\x8b\x08\0\0\0\0\0"sv);  // 559,903 bytes
  const std::string header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})");
  EXPECT_EQ(error_of(length + header).message,
            "invalid header length: the header ends at byte 559911, the file has 61 (truncated download?)");
  std::string broken = length + header;
  broken.resize(8 + 559'903, ' ');
  broken[30] = '\xFF';
  EXPECT_EQ(error_of(broken + "x").code, Errc::invalid_utf8);
  EXPECT_EQ(error_of(broken + "x").message.find("the file is"), std::string::npos);
  EXPECT_EQ(error_of(length + " \n " + header).message.find("the file is"), std::string::npos);
}

TEST(FileKind, NamesFileOfZeros) {
  EXPECT_EQ(error_of(std::string(64, '\0')).message,
            "the file is filled with zeros, not a safetensors file (an incomplete download? download the model again): "
            "invalid JSON in header");
  EXPECT_EQ(file_kind(std::string(63, '\0')).name, "");
}

TEST(FileKind, IsNotNamedForUnknownBytes) {
  for (const std::string_view bytes : {""sv, "abc"sv, "\x80\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF"sv, "\x80\x01}q\0rest"sv,
                                       "BZh-rest\1"sv, "\xFF\xFE\xFD\xFC\xFB\xFA\xF9\xF8"sv, "text\0text"sv,
                                       "\x7e"
                                       "ELF\2\1\1\0\0"sv}) {
    EXPECT_EQ(file_kind(bytes).name, "") << bytes;
    EXPECT_EQ(error_of(bytes).message.find("the file is"), std::string::npos) << bytes;
  }
}

TEST(FileKind, ReadsNoByteBehindEnd) {
  for (const Example& example : examples()) {
    for (std::size_t size = 0; size <= std::min<std::size_t>(example.bytes.size(), 512); ++size) {
      const auto copy = std::make_unique<char[]>(size);  // exactly as long, for the address sanitizer
      std::copy_n(example.bytes.begin(), size, copy.get());
      const FileKind kind = file_kind({copy.get(), size});
      EXPECT_TRUE(size >= 2 || kind.name.empty()) << size;
    }
  }
}

// A file of another kind keeps its code: no message may hide what a program asks for.
TEST(FileKind, LeavesErrorsOfLaterRulesAlone) {
  Error error{.code = Errc::invalid_offset, .message = "invalid offset for tensor `a`: a hole"};
  EXPECT_EQ(safetensors::format::with_file_kind(error, "\x1f\x8b\x08").message, error.message);
  error.code = Errc::read_failed;
  EXPECT_EQ(safetensors::format::with_file_kind(error, "\x1f\x8b\x08").message, error.message);
}

}  // namespace
