// The index of names finds each name. Names that were made to collide cost no more than others.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/header.h>

#include "base/bump_allocator.h"
#include "base/hash.h"
#include "base/memory_resource.h"
#include "format/header/header.h"
#include "format/header/name_index.h"
#include "support/hostile_names.h"

namespace {

using safetensors::Header;
using safetensors::Result;
using safetensors::base::BumpAllocator;
using safetensors::base::HashKey;
using safetensors::format::NameIndex;

using Hash = std::function<std::uint32_t(std::string_view)>;

// An index of names by any hash, which counts how often it has to look at a name.
class Indexed {
 public:
  Indexed(std::vector<std::string> names, Hash hash) : hash_(std::move(hash)) { again_ = refill(std::move(names)); }

  std::uint32_t refill(std::vector<std::string> names) {
    names_ = std::move(names);
    index_.clear();
    for (const std::string& name : names_) index_.push(arena_, hash_(name), names_.size());
    return again_ = index_.build(arena_, key_at());
  }
  [[nodiscard]] std::uint32_t again() const { return again_; }
  [[nodiscard]] std::uint32_t find(std::string_view name) const { return index_.find(name, hash_(name), key_at()); }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  [[nodiscard]] std::uint64_t probes() const { return index_.probes(); }
  void expect_all_found() const {
    for (std::uint32_t i = 0; i < names_.size(); ++i) ASSERT_EQ(find(names_[i]), i) << names_[i];
  }

 private:
  [[nodiscard]] std::function<std::string_view(std::size_t)> key_at() const {
    return [this](std::size_t i) {
      ++looks_;
      return std::string_view(names_[i]);
    };
  }

  BumpAllocator arena_{safetensors::base::heap(), 1 << 16};
  Hash hash_;
  std::vector<std::string> names_;
  NameIndex index_;
  std::uint32_t again_ = 0;
  mutable std::uint64_t looks_ = 0;
};

std::vector<std::string> numbers(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("layer." + std::to_string(i));
  return names;
}

std::uint32_t keyed(std::string_view name) {
  static const HashKey key = HashKey::random();
  return safetensors::base::hash(name, key);
}

TEST(NameIndex, FindsEachNameAndNoOther) {
  for (const std::size_t count : {0u, 1u, 2u, 3u, 100u, 1023u, 1024u, 1025u, 5000u}) {
    const Indexed indexed(numbers(count), keyed);
    EXPECT_EQ(indexed.again(), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("layer." + std::to_string(count)), NameIndex::kNone);
    EXPECT_EQ(indexed.find(""), NameIndex::kNone);
  }
}

TEST(NameIndex, FindsNothingBeforeBuild) {
  const NameIndex index;
  EXPECT_EQ(index.find("a", 7, [](std::size_t) { return std::string_view("a"); }), NameIndex::kNone);
}

TEST(NameIndex, ReportsFirstRepeatedName) {
  EXPECT_EQ(Indexed({"a", "b", "c", "b", "a"}, keyed).again(), 3u);
  EXPECT_EQ(Indexed({"", ""}, keyed).again(), 1u);
}

TEST(NameIndex, WorksWithAnyHash) {
  for (const std::uint32_t all : {0u, 1u, 0x80000000u, 0xFFFFFFFFu}) {
    const Hash constant = [all](std::string_view) { return all; };
    const Indexed indexed(numbers(300), constant);
    EXPECT_EQ(indexed.again(), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("other"), NameIndex::kNone);
    EXPECT_EQ(Indexed({"a", "b", "c", "b"}, constant).again(), 3u);
  }
}

TEST(NameIndex, MayBeRefilled) {
  Indexed indexed(numbers(1000), keyed);
  for (const std::size_t count : {10u, 1000u, 3000u, 1u}) {
    EXPECT_EQ(indexed.refill(numbers(count)), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("layer.2999"), count == 3000u ? 2999u : NameIndex::kNone);
  }
}

// Keys of a good hash meet in a slot now and then. With two thirds of the slots in use, a build reads about two slots
// per key; chance never makes it eight. Keys that collide would make it a multiple of their number.
constexpr std::uint64_t kProbesPerName = 8;

TEST(NameIndex, ReadsFewSlotsForSolvedNames) {
  const HashKey known{0x0123456789ABCDEFu, 0xFEDCBA9876543210u};
  const std::vector<std::string> names = hostile::names_solved_for(known, 4000);
  const Indexed attacked(names, [&](std::string_view name) { return safetensors::base::hash(name, known); });
  EXPECT_GT(attacked.probes(), names.size() * names.size() / 4);  // with the key, the names do what they were made for

  for (int i = 0; i < 8; ++i) {
    const HashKey secret = HashKey::random();
    const Indexed indexed(names, [&](std::string_view name) { return safetensors::base::hash(name, secret); });
    EXPECT_EQ(indexed.again(), NameIndex::kNone);
    EXPECT_LE(indexed.probes(), kProbesPerName * names.size());
    indexed.expect_all_found();
  }
  // A key that differs in one bit is another key.
  for (const HashKey& near : {HashKey{known.k0 ^ 1, known.k1}, HashKey{known.k0, known.k1 ^ 1u << 31}}) {
    const Indexed indexed(names, [&](std::string_view name) { return safetensors::base::hash(name, near); });
    EXPECT_LE(indexed.probes(), kProbesPerName * names.size());
  }
}

// Parses a header and expects work in proportion to the number of its keys.
Result<Header> parse_counted(const std::string& text) {
  safetensors::format::ParseWork work;
  safetensors::format::HeaderBuffer copy(text.size(), safetensors::base::heap());
  std::memcpy(copy.data(), text.data(), text.size());
  Result<Header> header = safetensors::format::parse_header(std::move(copy), 0, {}, &work);
  EXPECT_LE(work.probes, kProbesPerName * work.entries);
  EXPECT_GE(work.probes, work.entries - 1);  // the counter counts
  return header;
}

TEST(NameIndex, ParsesHostileHeaderInLinearWork) {
  const std::vector<std::string> names = hostile::names_that_cancel_a_seed(9000);
  std::string text;
  std::string metadata;
  std::string fields;
  for (const std::string& each : names) {
    const std::string name = hostile::in_json(each);
    text += (text.empty() ? "" : ",") + ("\"" + name) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    metadata += (metadata.empty() ? "" : ",") + ("\"" + name) + "\":\"" + name + "\"";
    fields += "\"" + name + "\":0,";
  }
  // Tensors, metadata keys, and fields that are ignored: each has an index.
  const auto header = parse_counted("{\"__metadata__\":{" + metadata + "},\"\":{" + fields +
                                    R"("dtype":"U8","shape":[0],"data_offsets":[0,0]},)" + text + "}");
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->size(), names.size() + 1);
  for (const std::string& name : names) {
    ASSERT_NE(header->find(name), nullptr) << name;
    ASSERT_EQ(header->find(name)->name, name);
    ASSERT_EQ(header->metadata().find(name), name);
  }
  EXPECT_EQ(header->find(std::string(18, 'a')), nullptr);

  const std::string last = hostile::in_json(names.back());
  const auto again = parse_counted("{" + text + ",\"" + last + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(to_string(again.error().code), std::string("duplicate_key"));
  EXPECT_EQ(again.error().offset, 8 + 1 + text.size() + 1);
  EXPECT_EQ(again.error().message,
            "invalid JSON in header: the key `" + safetensors::printable(names.back()) + "` is repeated");
}

}  // namespace
