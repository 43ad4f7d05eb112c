// The index of names: what it finds, and that names made to collide in an unseeded hash do not collide here.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/header.h>

#include "../bench/colliding_names.h"
#include "base/arena.h"
#include "base/hash.h"
#include "format/name_index.h"

namespace {

using safetensors::Header;
using safetensors::base::Arena;
using safetensors::base::HashSeed;
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

  Arena arena_{std::pmr::new_delete_resource(), 1 << 16};
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

std::uint32_t seeded(std::string_view name) {
  static const HashSeed seed = HashSeed::random();
  return safetensors::base::hash(name, seed);
}

TEST(NameIndex, finds_each_name_and_no_other) {
  for (const std::size_t count : {0u, 1u, 2u, 3u, 100u, 1023u, 1024u, 1025u, 5000u}) {
    const Indexed indexed(numbers(count), seeded);
    EXPECT_EQ(indexed.again(), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("layer." + std::to_string(count)), NameIndex::kNone);
    EXPECT_EQ(indexed.find(""), NameIndex::kNone);
  }
}

TEST(NameIndex, finds_nothing_before_it_is_built) {
  const NameIndex index;
  EXPECT_EQ(index.find("a", 7, [](std::size_t) { return std::string_view("a"); }), NameIndex::kNone);
}

TEST(NameIndex, tells_the_first_name_that_is_there_already) {
  EXPECT_EQ(Indexed({"a", "b", "c", "b", "a"}, seeded).again(), 3u);
  EXPECT_EQ(Indexed({"", ""}, seeded).again(), 1u);
}

TEST(NameIndex, is_right_whatever_the_hash) {
  for (const std::uint32_t all : {0u, 1u, 0x80000000u, 0xFFFFFFFFu}) {
    const Hash constant = [all](std::string_view) { return all; };
    const Indexed indexed(numbers(300), constant);
    EXPECT_EQ(indexed.again(), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("other"), NameIndex::kNone);
    EXPECT_EQ(Indexed({"a", "b", "c", "b"}, constant).again(), 3u);
  }
}

TEST(NameIndex, may_be_filled_again) {
  Indexed indexed(numbers(1000), seeded);
  for (const std::size_t count : {10u, 1000u, 3000u, 1u}) {
    EXPECT_EQ(indexed.refill(numbers(count)), NameIndex::kNone);
    indexed.expect_all_found();
    EXPECT_EQ(indexed.find("layer.2999"), count == 3000u ? 2999u : NameIndex::kNone);
  }
}

// Names of one value of std::hash cost no more than any others: of n names, n * n / 2^33 pairs share 32 bits of a good
// hash, less than one in a hundred times for these 9,000.
TEST(NameIndex, names_that_collide_in_an_unseeded_hash_do_not_collide) {
  const bench::CollidingNames colliding(9000);
  if (!colliding.missing().empty()) GTEST_SKIP() << colliding.missing();
  const std::vector<std::string>& names = colliding.names();
  ASSERT_GE(names.size(), 9000u);
  const std::hash<std::string> unseeded;
  for (const std::string& name : names) ASSERT_EQ(unseeded(name), unseeded(names.front()));

  const Indexed indexed(names, seeded);
  EXPECT_EQ(indexed.again(), NameIndex::kNone);
  EXPECT_LE(indexed.looks(), 20u);  // two for each pair of names with one hash
  indexed.expect_all_found();
  EXPECT_LE(indexed.looks(), names.size() + 60);  // one for each that is found

  const Indexed attacked({names.begin(), names.begin() + 1000}, [&](std::string_view name) {
    return static_cast<std::uint32_t>(unseeded(std::string(name)));
  });
  EXPECT_GE(attacked.looks(), 999u * 1000u / 2);  // the names do what they were made for
}

TEST(NameIndex, header_of_names_that_collide_in_an_unseeded_hash) {
  const bench::CollidingNames colliding(9000);
  if (!colliding.missing().empty()) GTEST_SKIP() << colliding.missing();
  std::string text;
  std::string metadata;
  for (const std::string& name : colliding.names()) {
    text += (text.empty() ? "" : ",") + ("\"" + name) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    metadata += (metadata.empty() ? "" : ",") + ("\"" + name) + "\":\"" + name + "\"";
  }
  const auto header = Header::parse("{\"__metadata__\":{" + metadata + "}," + text + "}", 0);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->size(), colliding.names().size());
  for (const std::string& name : colliding.names()) {
    ASSERT_NE(header->find(name), nullptr) << name;
    ASSERT_EQ(header->find(name)->name, name);
    ASSERT_EQ(header->metadata().find(name), name);
  }
  EXPECT_EQ(header->find(std::string(32, 'a')), nullptr);

  const std::string& last = colliding.names().back();
  const auto again =
      Header::parse("{" + text + ",\"" + last + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(to_string(again.error().code), std::string("duplicate_key"));
  EXPECT_EQ(again.error().offset, 8 + 1 + text.size() + 1);
  EXPECT_EQ(again.error().message, "invalid JSON in header: the key `" + last + "` is repeated");
}

}  // namespace
