// The memory and the allocations of accept() depend on the receipt, not on the receipts that were accepted before.
#include <gtest/gtest.h>

#include "support/allocation_counter.h"
#include "support/processes_support.h"

namespace safetensors::test {
namespace {

class AcceptMemory : public ProcessesTest {
 protected:
  static constexpr std::uint64_t kWriters = 64;
  static constexpr std::uint64_t kRanges = 1000;  // per writer

  static Model model() {
    Model model;
    model.add({2 * kRanges, kWriters});
    return model;
  }
  // Writes the bytes of one column, in every second row. So no two ranges of the model touch.
  static std::string receipt_of(const std::string& ticket, const CheckpointLayout& layout, std::uint64_t column) {
    const auto index = static_cast<std::int64_t>(column);
    const Slice slice{DimSlice::range(0, std::nullopt, 2), DimSlice::range(index, index + 1)};
    return work(ticket, layout, [&](CheckpointWriter& writer) {
      return writer.write_slice("t0", slice, bytes_of(std::string(kRanges, 'x')));
    });
  }
};

TEST_F(AcceptMemory, DependsOnReceiptOnly) {
  const CheckpointLayout layout = model().layout(1 << 30);
  CheckpointWriter writer = create(layout);
  const std::string ticket = writer.ticket().value();
  for (std::uint64_t i = 0; i < kWriters; i += 2) {
    const std::string receipt = receipt_of(ticket, layout, i);
    const allocations::Peak peak;
    const Status status = writer.accept(receipt);
    const std::size_t calls = peak.calls(), bytes = peak.bytes();
    ASSERT_TRUE(succeeds(status));
    EXPECT_LE(calls, kRanges + 100) << "receipt " << i;
    EXPECT_LE(bytes, 100 * kRanges) << "receipt " << i;
  }
}

// Ranges that touch others need memory only during the call.
TEST_F(AcceptMemory, IsFreedWhenRangesTouch) {
  const CheckpointLayout layout = model().layout(1 << 30);
  CheckpointWriter writer = create(layout);
  const std::string ticket = writer.ticket().value();
  ASSERT_TRUE(succeeds(writer.accept(receipt_of(ticket, layout, 0))));
  const std::string receipt = receipt_of(ticket, layout, 1);
  const std::size_t before = allocations::live;
  ASSERT_TRUE(succeeds(writer.accept(receipt)));
  EXPECT_LE(allocations::live - before, 1000U);
}

// A receipt whose last range overlaps adds nothing, and the error comes without a change.
TEST_F(AcceptMemory, KeepsNothingOfRefusedReceipt) {
  const CheckpointLayout layout = model().layout(1 << 30);
  CheckpointWriter writer = create(layout);
  const std::string ticket = writer.ticket().value();
  const std::uint64_t last = (2 * kRanges - 2) * kWriters;  // the last range of column 0
  ASSERT_TRUE(succeeds(writer.write("t0", last, bytes_of("y"))));
  const std::string receipt = receipt_of(ticket, layout, 0);
  const std::size_t before = allocations::live;
  EXPECT_EQ(error_of(writer.accept(receipt)).code, Errc::overlapping_write);
  EXPECT_LE(allocations::live - before, 1000U);
}

}  // namespace
}  // namespace safetensors::test
