// Tests which functions a Callback takes and owns.
#include <safetensors/callback.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace {
using safetensors::Callback;

int twice(int value) {
  return 2 * value;
}

TEST(Callback, TakesFunctionsLambdasAndStdFunction) {
  const int factor = 3;
  EXPECT_EQ(Callback<int(int)>(twice)(4), 8);
  EXPECT_EQ(Callback<int(int)>(&twice)(4), 8);
  EXPECT_EQ(Callback<int(int)>([&](int value) { return factor * value; })(4), 12);
  EXPECT_EQ(Callback<int(int)>(std::function<int(int)>(twice))(4), 8);
  EXPECT_EQ(Callback<long(short)>(twice)(4), 8);  // values convert
  int calls = 0;
  const auto count = [&] { return ++calls; };
  Callback<void()>{count}();  // the result is dropped
  Callback<void()>{std::ref(count)}();
  EXPECT_EQ(calls, 2);
}

TEST(Callback, IsEmptyWithoutFunction) {
  EXPECT_FALSE(Callback<int(int)>());
  EXPECT_FALSE(Callback<int(int)>(nullptr));
  EXPECT_FALSE(Callback<int(int)>(static_cast<int (*)(int)>(nullptr)));
  EXPECT_FALSE(Callback<int(int)>(std::function<int(int)>()));
  EXPECT_FALSE(Callback<int(int)>(Callback<long(int)>()));
  EXPECT_TRUE(Callback<int(int)>(twice));
  EXPECT_TRUE(Callback<int(int)>([](int value) { return value; }));
}

// Its bool does not say whether there is a function.
struct Flag {
  const bool* flag;
  explicit operator bool() const { return *flag; }
  bool operator()() const { return *flag; }
};

TEST(Callback, KeepsFunctionWhoseBoolIsFalse) {
  bool flag = false;
  const Callback<bool()> callback = Flag{&flag};
  ASSERT_TRUE(callback);
  flag = true;
  EXPECT_TRUE(callback());
}

struct Value {
  [[nodiscard]] int get() const { return 1; }
};

TEST(Callback, RefusesOtherSignatures) {
  static_assert(!std::is_constructible_v<Callback<int(const Value&)>, int (Value::*)() const>);
  static_assert(!std::is_constructible_v<Callback<int(int)>, int>);
  static_assert(!std::is_constructible_v<Callback<int(int)>, std::string (*)(int)>);
  static_assert(!std::is_constructible_v<Callback<int(int)>, int (*)(int, int)>);
}

TEST(Callback, OwnsItsFunction) {
  const auto shared = std::make_shared<int>(5);
  {
    Callback<int()> first = [shared] { return ++*shared; };
    EXPECT_EQ(shared.use_count(), 2);
    Callback<int()> second = first;
    EXPECT_EQ(first(), 6);
    EXPECT_EQ(second(), 7);
    const Callback<int()> third = std::move(first);
    EXPECT_EQ(shared.use_count(), 2);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    second = third;
    EXPECT_EQ(third(), 8);
    second = nullptr;
    EXPECT_EQ(shared.use_count(), 2);
    EXPECT_TRUE(third);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Callback, SharesStateWithCopies) {
  Callback<int()> first = [count = 0]() mutable { return ++count; };
  EXPECT_EQ(first(), 1);
  const Callback<int()> second = first;
  EXPECT_EQ(first(), 2);
  EXPECT_EQ(second(), 3);
}

TEST(Callback, TakesFunctionThatCannotBeCopied) {
  const Callback<int()> callback = [held = std::make_unique<int>(5)] { return *held; };
  const Callback<int()> copy = callback;
  EXPECT_EQ(copy(), 5);
}

TEST(Callback, ForwardsArguments) {
  const Callback<std::string(std::string, int&)> append = [](std::string text, int& count) {
    ++count;
    return std::move(text) + "!";
  };
  int count = 0;
  EXPECT_EQ(append("a", count), "a!");
  EXPECT_EQ(count, 1);
}

}  // namespace
