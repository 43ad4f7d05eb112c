// The process and its random bits.
#include "os/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "support/io_support.h"

namespace safetensors::os {
namespace {

TEST(ProcessId, DiffersInForkedChild) {
  const std::uint64_t parent = process_id();
  EXPECT_EQ(parent, static_cast<std::uint64_t>(::getpid()));
  EXPECT_EQ(test::in_child([&] { return process_id() != parent; }), 0);
}

TEST(RandomBits, AreNotRepeated) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_bits());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace safetensors::os
