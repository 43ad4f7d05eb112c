// The size of writes to the page cache, from times that the tests make up.
#include "io/file_writer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>

namespace safetensors::io {
namespace {

constexpr std::size_t kSmall = PieceSize::kSizes[0];
constexpr std::size_t kMiddle = PieceSize::kSizes[1];
constexpr std::size_t kLarge = PieceSize::kSizes[2];
constexpr std::size_t kTotal = std::size_t{1} << 30;

// Writes 1 GiB. time: ns per KiB of a piece, by its size and offset. Returns the bytes written by size.
std::map<std::size_t, std::size_t> write(PieceSize& choice, const std::function<int(std::size_t, std::size_t)>& time) {
  std::map<std::size_t, std::size_t> written;
  for (std::size_t offset = 0; offset < kTotal;) {
    const std::size_t size = choice.next();
    choice.record(size, PieceSize::Time(time(size, offset)) * (size / 1024));
    written[size] += size;
    offset += size;
  }
  return written;
}

TEST(PieceSize, GrowsWhileThatIsCheap) {
  PieceSize choice;
  EXPECT_EQ(choice.next(), kSmall);
  const auto written = write(choice, [](std::size_t size, std::size_t) {
    return size == kSmall ? 250 : size == kMiddle ? 200 : 210;
  });
  EXPECT_LE(written.at(kSmall), 2 * kMiddle);
  EXPECT_EQ(choice.next(), kMiddle);  // pieces of 4 MiB were not faster

  PieceSize growing;
  const auto most = write(growing, [](std::size_t size, std::size_t) {
    return size == kLarge ? 180 : size == kMiddle ? 200 : 250;
  });
  EXPECT_GE(most.at(kLarge), kTotal / 100 * 99);
}

// Trials take 8 x as long per byte. Together they cost less than a tenth of all time.
TEST(PieceSize, StaysSmallInFragmentedMemory) {
  PieceSize choice;
  const auto written = write(choice, [](std::size_t size, std::size_t) { return size == kSmall ? 300 : 2400; });
  EXPECT_EQ(written.count(kLarge), 0U);
  EXPECT_GE(written.at(kMiddle), 3 * kMiddle);
  EXPECT_LE(8 * written.at(kMiddle), kTotal / 10);
}

// A trial finds one of the last large pages, and the next write does not.
TEST(PieceSize, DoesNotTrustTrialsThatDeceive) {
  PieceSize choice;
  bool quick = true;
  const auto written = write(choice, [&quick](std::size_t size, std::size_t) {
    if (size == kSmall) return 300;
    quick = !quick;
    return quick ? 2400 : 200;
  });
  EXPECT_LE(8 * (written.at(kMiddle) / 2), kTotal / 10);
}

TEST(PieceSize, NoticesThatMemoryBecameFragmented) {
  PieceSize choice;
  const auto written = write(choice, [](std::size_t size, std::size_t offset) {
    return size == kSmall ? 250 : offset < kTotal / 2 ? 200 : 2000;
  });
  EXPECT_GE(written.at(kSmall), kTotal / 10 * 4);
}

TEST(PieceSize, GoesOnAfterOneSlowWrite) {
  PieceSize choice;
  std::size_t slow = kTotal / 2;
  const auto written = write(choice, [&slow](std::size_t size, std::size_t offset) {
    if (size == kLarge && offset >= slow) {
      slow = kTotal;
      return 5000;
    }
    return size == kLarge ? 180 : size == kMiddle ? 200 : 250;
  });
  EXPECT_GE(written.at(kLarge), kTotal / 100 * 97);
}

// Pages that the host took back: the first writes are slow, whatever their size is.
TEST(PieceSize, GrowsAfterSlowWritesOfAllSizes) {
  PieceSize choice;
  const auto written = write(choice, [](std::size_t size, std::size_t offset) {
    if (offset < kTotal / 4) return 2000;
    return size == kLarge ? 180 : size == kMiddle ? 200 : 250;
  });
  EXPECT_GE(written.at(kLarge), kTotal / 2);
}

TEST(PieceSize, IgnoresPartsOfPieces) {
  PieceSize choice;
  for (int i = 0; i < 100; ++i) choice.record(kSmall - 1, PieceSize::Time(1));
  EXPECT_EQ(choice.next(), kSmall);
  choice.record(kLarge, PieceSize::Time(1));
  EXPECT_EQ(choice.next(), kSmall);
}

}  // namespace
}  // namespace safetensors::io
