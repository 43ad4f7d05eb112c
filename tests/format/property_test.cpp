// Properties for any content: a file that is built and written reads back the same, and no other file can be written.
#include <gtest/gtest.h>
#include <safetensors/safetensors.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/utf8.h"
#include "format/dtype/dtype.h"

namespace {

using namespace safetensors;

struct Entry {
  std::string name;
  Dtype dtype;
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  // 0 to most.
  std::uint64_t up_to(std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(engine_); }
  bool one_in(std::uint64_t n) { return up_to(n - 1) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[up_to(list.size() - 1)];
  }

  // Any Unicode scalar values, mostly those that an escape or a sort could get wrong; now and then not UTF-8.
  std::string text() {
    static const std::vector<std::string> kParts = {
        "a",      "b",      "layer.", "0",          "\"",         "\\",           "/",       "\b",
        "\f",     "\n",     "\r",     "\t",         "\x1f",       "\x7f",         "\u00e9",  "e\u0301",
        "\u2028", "\ufeff", "\uffff", "\U0001F980", "\U0010FFFF", "__metadata__", "\\u0061", " ",
        "{",      "}",      "'",      "\ue000",     "\ud7ff"};
    static const std::vector<std::string> kBroken = {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"};
    std::string out;
    for (std::uint64_t n = up_to(4); n > 0; --n) out += of(kParts);
    if (one_in(10)) out += '\0';
    if (one_in(40)) out += of(kBroken);
    if (one_in(100)) out += std::string(up_to(3000), 'x');
    return out;
  }

  Entry entry() {
    const auto dtypes = all_dtypes();
    Entry entry{text(), dtypes[up_to(dtypes.size() - 1)], {}, {}};
    for (std::uint64_t n = up_to(one_in(20) ? 12 : 3); n > 0; --n) entry.shape.push_back(up_to(4));
    if (one_in(50)) entry.shape.push_back(~std::uint64_t{0} / (1 + up_to(3)));
    return entry;
  }

 private:
  std::mt19937_64 engine_;
};

// The rules again, the plain way.
Errc expected_refusal(const Entry& entry, const std::map<std::string, Entry>& added) {
  if (base::first_invalid_utf8(entry.name) != std::string::npos) return Errc::invalid_utf8;
  if (entry.name == "__metadata__") return Errc::reserved_name;
  // A division tells whether a product fits; left to right, so that a zero helps only what stands behind it.
  const std::uint64_t most = ~std::uint64_t{0};
  std::uint64_t count = 1;
  for (const std::uint64_t dim : entry.shape) {
    if (dim != 0 && count > most / dim) return Errc::size_overflow;
    count *= dim;
  }
  if (count > most / bits(entry.dtype)) return Errc::size_overflow;
  if (count * bits(entry.dtype) % 8 != 0) return Errc::misaligned_size;
  return added.contains(entry.name) ? Errc::duplicate_name : Errc::ok;
}

std::uint64_t nbytes(const Entry& entry) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : entry.shape) count *= dim;
  return count * bits(entry.dtype) / 8;
}

bool writes_before(const Entry& a, const Entry& b) {
  return format::rank(a.dtype) != format::rank(b.dtype) ? format::rank(a.dtype) > format::rank(b.dtype)
                                                        : a.name < b.name;
}

struct Content {
  std::vector<Entry> entries;  // as the writer orders them
  std::optional<std::map<std::string, std::string>> metadata;
};

std::string json_string(std::string_view text) {
  static const std::map<char, std::string> kShort = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\t', "\\t"},
                                                     {'\n', "\\n"}, {'\f', "\\f"},  {'\r', "\\r"}};
  std::string out = "\"";
  for (const char c : text) {
    if (const auto found = kShort.find(c); found != kShort.end()) {
      out += found->second;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += c < 0x10 ? "\\u000" : "\\u001";
      out += "0123456789abcdef"[c & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The text by the writer's rules, without padding.
std::string expected_text(const Content& content) {
  std::string out;
  if (content.metadata) {
    for (const auto& [key, value] : *content.metadata) {
      out += (out.empty() ? "" : ",") + json_string(key) + ":" + json_string(value);
    }
    out = "\"__metadata__\":{" + out + "}";
  }
  std::uint64_t at = 0;
  for (const Entry& entry : content.entries) {
    std::string shape;
    for (const std::uint64_t dim : entry.shape) shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    out += (out.empty() ? "" : ",") + json_string(entry.name) + ":{\"dtype\":\"" + std::string(to_string(entry.dtype)) +
           "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(at) + ",";
    at += nbytes(entry);
    out += std::to_string(at) + "]}";
  }
  return "{" + out + "}";
}

struct Placed {
  const Entry* entry;
  std::uint64_t begin, end;
};

// In the order of offset; those of no bytes at one offset by name.
std::vector<Placed> by_offset(const Content& content) {
  std::vector<Placed> out;
  std::uint64_t at = 0;
  for (const Entry& entry : content.entries) {
    out.push_back({&entry, at, at + nbytes(entry)});
    at = out.back().end;
  }
  std::sort(out.begin(), out.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.entry->name) < std::tie(b.begin, b.end, b.entry->name);
  });
  return out;
}

void expect_holds(const Header& header, const Content& content) {
  ASSERT_EQ(header.size(), content.entries.size());
  const std::vector<Placed> placed = by_offset(content);
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const TensorInfo& tensor = header.tensors()[i];
    const Entry& entry = *placed[i].entry;
    EXPECT_EQ(tensor.name, entry.name);
    EXPECT_EQ(tensor.dtype, entry.dtype);
    EXPECT_TRUE(std::equal(tensor.shape.begin(), tensor.shape.end(), entry.shape.begin(), entry.shape.end()));
    EXPECT_EQ(tensor.begin, placed[i].begin);
    EXPECT_EQ(tensor.end, placed[i].end);
  }
  EXPECT_EQ(header.data_bytes(), placed.empty() ? 0 : placed.back().end);
  ASSERT_EQ(header.metadata().present(), content.metadata.has_value());
  if (!content.metadata) return;
  ASSERT_EQ(header.metadata().size(), content.metadata->size());
  std::size_t i = 0;
  for (const auto& [key, value] : *content.metadata) {
    EXPECT_EQ(header.metadata()[i].first, key);
    EXPECT_EQ(header.metadata()[i++].second, value);
  }
}

void expect_canonical(const std::string& text, const Content& content, const LayoutOptions& options) {
  const std::string expected = expected_text(content);
  ASSERT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_EQ(text.find_first_not_of(' ', expected.size()), std::string::npos);
  const std::uint64_t alignment = std::max<std::uint64_t>(options.data_alignment, 1);
  const std::uint64_t least = 8 + expected.size() + options.metadata_slack;
  EXPECT_EQ(8 + text.size(), (least + alignment - 1) / alignment * alignment);
}

// Adds what comes; what must be refused is, and leaves no trace.
Content fill(Random& random, HeaderBuilder& builder) {
  std::map<std::string, Entry> added;
  for (std::uint64_t n = random.up_to(12); n > 0; --n) {
    Entry entry = random.entry();
    const Errc expected = expected_refusal(entry, added);
    const Status status = builder.add(entry.name, entry.dtype, entry.shape);
    EXPECT_EQ(status.ok() ? Errc::ok : status.error().code, expected) << printable(entry.name);
    if (status.ok()) added.emplace(entry.name, std::move(entry));
  }
  Content content;
  for (auto& [name, entry] : added) content.entries.push_back(std::move(entry));
  std::sort(content.entries.begin(), content.entries.end(), writes_before);
  if (random.one_in(3)) return content;
  EXPECT_TRUE(builder.metadata_present().ok());
  content.metadata.emplace();
  for (std::uint64_t n = random.up_to(4); n > 0; --n) {
    const std::string key = random.text();
    const std::string value = random.text();
    const bool valid =
        base::first_invalid_utf8(key) == std::string::npos && base::first_invalid_utf8(value) == std::string::npos;
    const Errc expected = !valid                            ? Errc::invalid_utf8
                          : content.metadata->contains(key) ? Errc::duplicate_name
                                                            : Errc::ok;
    const Status status = builder.metadata(key, value);
    EXPECT_EQ(status.ok() ? Errc::ok : status.error().code, expected) << printable(key);
    if (status.ok()) content.metadata->emplace(key, value);
  }
  return content;
}

TEST(Property, ParsesWhatWasBuilt) {
  Random random(20240611);
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    HeaderBuilder builder;
    const Content content = fill(random, builder);
    LayoutOptions options;
    options.data_alignment = std::uint32_t{1} << random.up_to(12);
    options.metadata_slack = random.one_in(3) ? random.up_to(500) : 0;
    const auto built = builder.build(options);
    ASSERT_TRUE(built.ok()) << built.error().message;
    expect_holds(*built, content);
    const std::string text = built->text().value();
    expect_canonical(text, content, options);
    const auto parsed = Header::parse(text, built->data_bytes());
    ASSERT_TRUE(parsed.ok()) << parsed.error().message << "\n" << printable(text);
    expect_holds(*parsed, content);
    EXPECT_EQ(parsed->text().value(), text);
    EXPECT_EQ(parsed->header_bytes(), text.size());
  }
}

TEST(Property, ReadsWhatWasWritten) {
  Random random(7);
  for (int round = 0; round < 1000 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    HeaderBuilder unused;
    Content content = fill(random, unused);
    std::vector<TensorData> tensors;
    for (Entry& entry : content.entries) {
      entry.bytes.resize(nbytes(entry));
      for (std::byte& byte : entry.bytes) byte = static_cast<std::byte>(random.up_to(255));
      tensors.push_back({entry.name, entry.dtype, entry.shape, entry.bytes});
    }
    std::reverse(tensors.begin(), tensors.end());  // the order given does not matter
    std::optional<MetadataPairs> metadata;
    if (content.metadata) metadata.emplace(content.metadata->begin(), content.metadata->end());
    const auto written = serialize(tensors, metadata);
    ASSERT_TRUE(written.ok()) << written.error().message;
    const auto file = File::from_memory(written->bytes(), nullptr);
    ASSERT_TRUE(file.ok()) << file.error().message;
    expect_holds(file->header(), content);
    EXPECT_EQ(
        file->header().text().value(),
        std::string_view(reinterpret_cast<const char*>(written->bytes().data()) + 8, file->header().header_bytes()));
    EXPECT_TRUE(file->header().text().value().starts_with(expected_text(content)));
    for (const Entry& entry : content.entries) {
      const auto array = file->tensor(entry.name).value().view();
      ASSERT_TRUE(array.ok()) << array.error().message;
      EXPECT_TRUE(std::equal(array->bytes().begin(), array->bytes().end(), entry.bytes.begin(), entry.bytes.end()));
    }
  }
}

TEST(Property, OpensWhatSerializeAccepts) {
  Random random(99);
  std::size_t accepted = 0;
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    std::vector<Entry> entries;
    for (std::uint64_t n = random.up_to(3); n > 0; --n) entries.push_back(random.entry());
    std::vector<TensorData> tensors;
    for (Entry& entry : entries) {
      const std::uint64_t size = nbytes(entry);
      if (size <= 1 << 16) entry.bytes.resize(random.one_in(10) ? size + 1 : size);
      tensors.push_back({entry.name, entry.dtype, entry.shape, entry.bytes});
    }
    const auto written = serialize(tensors);
    if (!written) continue;
    ++accepted;
    const auto file = File::from_memory(written->bytes(), nullptr);
    EXPECT_TRUE(file.ok()) << file.error().message;
  }
  EXPECT_GT(accepted, 500U);
  EXPECT_LT(accepted, 2900U);
}

TEST(Bytes, AreExactForTwoDtypesAndEscape) {
  const std::array<std::byte, 2> one = {std::byte{1}, std::byte{2}};
  const std::array<std::uint64_t, 1> two = {2};
  const TensorData tensors[] = {
      {"b", Dtype::BOOL, two, one}, {"z\n\"\x01\u00e9", Dtype::U16, {}, one}, {"a", Dtype::U8, two, one}};
  const std::string text =
      "{\"__metadata__\":{\"k/\":\"\\u001f\\t\"},"
      "\"z\\n\\\"\\u0001\u00e9\":{\"dtype\":\"U16\",\"shape\":[],\"data_offsets\":[0,2]},"
      "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]},"
      "\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[4,6]}}";
  const std::string padded = text + std::string((8 - text.size() % 8) % 8, ' ');
  const auto written = serialize(tensors, MetadataPairs{{"k/", "\x1f\t"}});
  ASSERT_TRUE(written.ok());
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(written->bytes().data()), written->bytes().size()),
            static_cast<char>(padded.size()) + std::string(7, '\0') + padded + "\1\2\1\2\1\2");
}

}  // namespace
