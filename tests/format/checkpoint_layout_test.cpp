// Splits of models into files: the rule for each border, and the text of the index, byte for byte.
// tests/python/test_save_checkpoint.py compares random models with huggingface_hub.
#include <safetensors/checkpoint_layout.h>

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/checkpoint/checkpoint_layout.h"
#include "support/io_support.h"

namespace safetensors::test {
namespace {

using Files = std::vector<std::string>;
constexpr std::uint64_t kMax = ~std::uint64_t{0};

CheckpointTensor bytes(std::string_view name, const Shape& shape) {
  return {name, Dtype::U8, shape};
}

// Each file as "name: tensors in the order of the index".
Files files_of(const CheckpointLayout& layout, const std::vector<std::string>& names) {
  Files files;
  for (const CheckpointFile& file : layout.files()) files.push_back(file.name + ":");
  for (const std::string& name : names) files[layout.file_of(name).value()] += " " + name;
  return files;
}

Files split(const std::vector<std::pair<std::string, std::uint64_t>>& sizes, std::uint64_t max) {
  std::vector<Shape> shapes;
  for (const auto& [name, size] : sizes) shapes.push_back({size});
  std::vector<CheckpointTensor> tensors;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    tensors.push_back(bytes(sizes[i].first, shapes[i]));
    names.push_back(sizes[i].first);
  }
  return files_of(CheckpointLayout::make(tensors, {.max_shard_size = max}).value(), names);
}

TEST(CheckpointLayout, KeepsOrderOfTensorsUpToLimit) {
  EXPECT_EQ(split({{"a", 6}, {"b", 4}}, 10), (Files{"model.safetensors: a b"}));
  EXPECT_EQ(split({{"a", 6}, {"b", 5}}, 10),
            (Files{"model-00001-of-00002.safetensors: a", "model-00002-of-00002.safetensors: b"}));
  EXPECT_EQ(split({{"a", 6}, {"b", 6}, {"c", 2}, {"d", 6}, {"e", 2}, {"f", 2}}, 10),
            (Files{"model-00001-of-00003.safetensors: a", "model-00002-of-00003.safetensors: b c",
                   "model-00003-of-00003.safetensors: d e f"}));
  // A larger tensor gets a file of its own.
  EXPECT_EQ(split({{"a", 2}, {"big", 11}, {"b", 3}}, 10),
            (Files{"model-00001-of-00002.safetensors: big", "model-00002-of-00002.safetensors: a b"}));
  EXPECT_EQ(split({{"big", 11}}, 10), (Files{"model.safetensors: big"}));
  EXPECT_EQ(split({{"a", 1}, {"b", 0}, {"c", 1}}, 0),
            (Files{"model-00001-of-00003.safetensors: a", "model-00002-of-00003.safetensors: c",
                   "model-00003-of-00003.safetensors: b"}));
}

TEST(CheckpointLayout, MakesOneFileWithoutTensors) {
  const CheckpointLayout layout = CheckpointLayout::make({}).value();
  ASSERT_EQ(layout.files().size(), 1U);
  EXPECT_EQ(layout.files()[0].name, "model.safetensors");
  EXPECT_TRUE(layout.files()[0].header.empty());
  EXPECT_EQ(layout.total_size(), 0U);
  EXPECT_EQ(layout.index_text(), "");
  EXPECT_EQ(layout.index_name(), "model.safetensors.index.json");
  EXPECT_FALSE(layout.file_of("a"));
}

TEST(CheckpointLayout, AddsLargestNumbers) {
  EXPECT_EQ(split({{"a", kMax / 16}, {"b", 1}}, kMax), (Files{"model.safetensors: a b"}));
  const Shape half{std::uint64_t{1} << 60};
  std::vector<std::string> names;
  for (int i = 0; i < 17; ++i) names.push_back(std::to_string(i));
  std::vector<CheckpointTensor> tensors;
  for (const std::string& name : names) tensors.push_back(bytes(name, half));
  EXPECT_EQ(error_of(CheckpointLayout::make(tensors)).code, Errc::size_overflow);
  tensors.resize(15);
  EXPECT_EQ(CheckpointLayout::make(tensors).value().total_size(), std::uint64_t{15} << 60);
}

TEST(CheckpointLayout, PutsSharedTensorsTogether) {
  const Shape six{6};
  std::vector<CheckpointTensor> tensors = {bytes("a", six), bytes("b", six), bytes("tied", six), bytes("c", six)};
  tensors[0].storage = 7;
  tensors[2].storage = 7;
  const CheckpointLayout layout = CheckpointLayout::make(tensors, {.max_shard_size = 12}).value();
  EXPECT_EQ(files_of(layout, {"a", "b", "tied", "c"}),
            (Files{"model-00001-of-00002.safetensors: a b tied", "model-00002-of-00002.safetensors: c"}));
  EXPECT_EQ(layout.total_size(), 18U);
  EXPECT_EQ(layout.files()[0].header.data_bytes(), 18U);  // each tensor is written whole
  // In the index, it comes last in its file.
  tensors = {bytes("a", six), bytes("tied", six), bytes("b", six), bytes("c", six)};
  tensors[0].storage = tensors[1].storage = 1;
  const CheckpointLayout other = CheckpointLayout::make(tensors, {.max_shard_size = 12}).value();
  EXPECT_LT(other.index_text().find("\"b\""), other.index_text().find("\"tied\""));
}

TEST(CheckpointLayout, PutsTensorsWithoutBytesTogether) {
  EXPECT_EQ(split({{"e", 0}, {"x", 10}, {"f", 0}, {"y", 10}, {"g", 0}}, 10),
            (Files{"model-00001-of-00002.safetensors: e x f g", "model-00002-of-00002.safetensors: y"}));
  EXPECT_EQ(split({{"big", 11}, {"e", 0}, {"next", 12}, {"f", 0}}, 10),
            (Files{"model-00001-of-00003.safetensors: big", "model-00002-of-00003.safetensors: next",
                   "model-00003-of-00003.safetensors: e f"}));
  const Shape ten{10};
  const Shape none{3, 0};
  std::vector<CheckpointTensor> tensors = {
      bytes("e", none), bytes("x", ten), bytes("y", ten), {"f", Dtype::F32, none}, bytes("g", none)};
  const std::vector<std::string> names = {"e", "x", "y", "f", "g"};
  const CheckpointLayout layout = CheckpointLayout::make(tensors, {.max_shard_size = 10}).value();
  EXPECT_EQ(files_of(layout, names),
            (Files{"model-00001-of-00002.safetensors: e x f g", "model-00002-of-00002.safetensors: y"}));
  EXPECT_EQ(layout.total_size(), 20U);
  EXPECT_LT(layout.index_text().find("\"x\""), layout.index_text().find("\"f\""));
  tensors[3].storage = 5;        // a storage of its own
  tensors[4].storage_bytes = 0;  // it shares nothing
  EXPECT_EQ(files_of(CheckpointLayout::make(tensors, {.max_shard_size = 10}).value(), names),
            (Files{"model-00001-of-00002.safetensors: e x", "model-00002-of-00002.safetensors: y f g"}));
}

TEST(CheckpointLayout, ChosenFileOfTensorWithoutBytesStays) {
  const Shape none{0};
  std::vector<CheckpointTensor> tensors = {bytes("e", none), bytes("f", none)};
  tensors[0].file = 0;
  tensors[1].file = 1;
  EXPECT_EQ(files_of(CheckpointLayout::make(tensors).value(), {"e", "f"}),
            (Files{"model-00001-of-00002.safetensors: e", "model-00002-of-00002.safetensors: f"}));
}

TEST(CheckpointLayout, CountsSizeOfStorage) {
  const Shape six{6};
  std::vector<CheckpointTensor> tensors = {bytes("a", six), bytes("b", six)};
  tensors[0].storage_bytes = 100;
  const CheckpointLayout layout = CheckpointLayout::make(tensors, {.max_shard_size = 50}).value();
  EXPECT_EQ(layout.files().size(), 2U);
  EXPECT_EQ(layout.total_size(), 106U);
}

TEST(CheckpointLayout, WritesIndex) {
  const Shape two{2};
  const CheckpointLayout layout =
      CheckpointLayout::make({bytes("w", two), bytes("gr\u00f6\u00dfe \"\U0001F600", two)},
                             {.max_shard_size = 2,
                              .stem = "diffusion",
                              .metadata = {{"format", "pt"}},
                              .index_metadata = R"({"total_size":1,"x":[1.50,{}],"\u00e9":{"k":null}})"})
          .value();
  EXPECT_EQ(format::stem_of(layout), "diffusion");
  EXPECT_EQ(layout.index_name(), "diffusion.safetensors.index.json");
  EXPECT_EQ(layout.files()[1].header.metadata().find("format"), "pt");
  EXPECT_EQ(layout.index_text(), R"({
  "metadata": {
    "total_size": 4,
    "x": [
      1.50,
      {}
    ],
    "\u00e9": {
      "k": null
    }
  },
  "weight_map": {
    "w": "diffusion-00001-of-00002.safetensors",
    "gr\u00f6\u00dfe \"\ud83d\ude00": "diffusion-00002-of-00002.safetensors"
  }
})");
}

TEST(CheckpointLayout, PutsTensorsIntoChosenFiles) {
  const Shape shape{3};
  std::vector<CheckpointTensor> tensors{bytes("a", shape), bytes("b", shape), bytes("c", shape)};
  tensors[0].file = 7;
  tensors[1].file = 2;
  tensors[2].file = 7;
  EXPECT_EQ(files_of(CheckpointLayout::make(tensors, {.max_shard_size = 1}).value(), {"a", "b", "c"}),
            (Files{"model-00001-of-00002.safetensors: b", "model-00002-of-00002.safetensors: a c"}));
  tensors[1].file.reset();
  const Error error = error_of(CheckpointLayout::make(tensors));
  EXPECT_EQ(error.code, Errc::invalid_argument);
  EXPECT_EQ(error.message, "some tensors have a file and others have none");
}

// The headers of several files keep only names and metadata of their texts. They still say all that a parser finds.
TEST(CheckpointLayout, MakesCompleteHeaders) {
  const Shape two{2};
  const Shape one_by_three{1, 3};
  const std::vector<CheckpointTensor> tensors = {bytes("quote\"", two), bytes("", two),
                                                 bytes("\xC3\xA9", one_by_three)};
  const MetadataPairs metadata = {{"line\n", "1"}, {"", "empty"}, {"b", ""}};
  for (const std::uint64_t max : {1U, 4U, 100U}) {
    const CheckpointLayout layout =
        CheckpointLayout::make(tensors, {.max_shard_size = max, .metadata = metadata}).value();
    for (const CheckpointFile& file : layout.files()) {
      const Header& header = file.header;
      const std::string text = header.text().value();
      EXPECT_EQ(text.size(), header.header_bytes());
      const Header parsed = Header::parse(text, header.data_bytes()).value();
      ASSERT_EQ(header.size(), parsed.size());
      for (std::size_t i = 0; i < header.size(); ++i) {
        EXPECT_EQ(header.tensors()[i].name, parsed.tensors()[i].name);
        EXPECT_EQ(header.tensors()[i].file_offset, parsed.tensors()[i].file_offset);
        EXPECT_EQ(header.find(parsed.tensors()[i].name), &header.tensors()[i]);
      }
      EXPECT_EQ(header.metadata().size(), metadata.size());
      for (const auto& [key, value] : metadata) EXPECT_EQ(header.metadata().find(key), value);
      EXPECT_EQ(header.metadata()[2].first, "line\n");
    }
  }
}

TEST(CheckpointLayout, RefusesBadArguments) {
  const Shape two{2};
  const auto error = [&](const std::vector<CheckpointTensor>& tensors, const CheckpointLayoutOptions& options = {}) {
    const Error found = error_of(CheckpointLayout::make(tensors, options));
    return std::pair(found.code, found.message);
  };
  using Found = std::pair<Errc, std::string>;
  EXPECT_EQ(error({bytes("a", two), bytes("a", two)}),
            Found(Errc::duplicate_name, "a tensor named `a` was added before"));
  EXPECT_EQ(error({bytes("a", two), bytes("a", two)}, {.max_shard_size = 2}),
            Found(Errc::duplicate_name, "two tensors are named `a`"));
  EXPECT_EQ(error({{"a", Dtype::F4, two}, {"b", Dtype::F4, ShapeView(two).first(0)}}).first, Errc::misaligned_size);
  EXPECT_EQ(error({}, {.stem = ""}),
            Found(Errc::invalid_argument, "no file may be called `.safetensors`: it is empty"));
  EXPECT_EQ(error({}, {.stem = "a/b"}),
            Found(Errc::invalid_argument, "no file may be called `a/b.safetensors`: it holds a separator"));
  EXPECT_EQ(error({}, {.stem = "../a"}),
            Found(Errc::invalid_argument, "no file may be called `../a.safetensors`: it leads out of a folder"));
  EXPECT_EQ(error({}, {.stem = ".a"}).first, Errc::invalid_argument);
  EXPECT_EQ(error({}, {.stem = "m-00001-of-00002"}).first, Errc::invalid_argument);
  EXPECT_EQ(error({}, {.index_metadata = R"({"a":1,"a":2})"}).second,
            "index_metadata must be a JSON object: byte 7: a second member of this name");
  std::string deep = "{\"a\":" + std::string(125, '[') + std::string(125, ']') + "}";
  EXPECT_TRUE(succeeds(CheckpointLayout::make({}, {.index_metadata = deep})));
  deep = "{\"a\":" + std::string(126, '[') + std::string(126, ']') + "}";  // one level deeper in the index
  EXPECT_EQ(error({}, {.index_metadata = deep}).first, Errc::invalid_argument);
  EXPECT_EQ(error({}, {.stem = "\xff"}).first, Errc::invalid_utf8);
  EXPECT_EQ(error({}, {.index_metadata = "[]"}),
            Found(Errc::invalid_argument, "index_metadata must be a JSON object: byte 0: it is not an object"));
  EXPECT_EQ(error({}, {.index_metadata = "{\"a\":1"}).first, Errc::invalid_argument);
  EXPECT_EQ(error({}, {.index_metadata = "{\"a\":\"\xff\"}"}).first, Errc::invalid_argument);
  EXPECT_EQ(error({}, {.layout = {.data_alignment = 3}}).first, Errc::invalid_alignment);
}

}  // namespace
}  // namespace safetensors::test
