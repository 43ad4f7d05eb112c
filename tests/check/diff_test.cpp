// diff(): which tensors are paired, and which values are equal.
#include <safetensors/diff.h>
#include <safetensors/element.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "support/file_support.h"
#include "support/float_reference.h"

namespace safetensors::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Given {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string bytes;
};

File file_of(const std::vector<Given>& tensors) {
  std::string header = "{";
  std::string data;
  for (const Given& given : tensors) {
    if (header.size() > 1) header += ',';
    header += "\"" + given.name + "\":{\"dtype\":\"" + given.dtype + "\",\"shape\":" + given.shape +
              ",\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data += given.bytes;
    header += std::to_string(data.size()) + "]}";
  }
  const auto bytes = std::make_shared<const std::string>(file_bytes(header + "}", data));
  return File::from_memory(std::as_bytes(std::span(*bytes)), bytes).value();
}

// Elements of `width` bits, from the lowest bit up.
std::string packed(const std::vector<std::uint64_t>& codes, unsigned width) {
  std::string bytes(codes.size() * width / 8, '\0');
  for (std::size_t i = 0; i < codes.size() * width; ++i) {
    if ((codes[i / width] >> i % width & 1) != 0) bytes[i / 8] = static_cast<char>(bytes[i / 8] | 1 << i % 8);
  }
  return bytes;
}

File one(const std::string& dtype, const std::vector<std::uint64_t>& codes, unsigned width) {
  return file_of({{"t", dtype, "[" + std::to_string(codes.size()) + "]", packed(codes, width)}});
}

TensorDiff only_difference(const File& first, const File& second, const DiffOptions& options = {}) {
  const Result<DiffResult> found = diff(first.tensors(), second.tensors(), options);
  EXPECT_TRUE(succeeds(found));
  EXPECT_EQ(found->tensors.size(), 1U);
  return found->tensors.empty() ? TensorDiff() : found->tensors[0];
}

bool equal(const File& first, const File& second, const DiffOptions& options = {}) {
  return diff(first.tensors(), second.tensors(), options).value().tensors.empty();
}

TEST(Diff, PairsTensorsByName) {
  const File first = file_of({{"same", "U8", "[2]", "ab"},
                              {"gone", "U8", "[1]", "x"},
                              {"shape", "U8", "[2]", "ab"},
                              {"dtype", "U8", "[1]", "\1"},
                              {"value", "U8", "[2,2]", "abcd"},
                              {"empty", "U8", "[0,3]", ""}});
  const File second = file_of({{"value", "U8", "[2,2]", "abxy"},
                               {"new", "U8", "[1]", "x"},
                               {"dtype", "I16", "[1]", std::string("\3\0", 2)},
                               {"shape", "U8", "[1,2]", "ab"},
                               {"empty", "U8", "[0,3]", ""},
                               {"same", "U8", "[2]", "ab"}});
  const DiffResult result = diff(first.tensors(), second.tensors()).value();
  std::vector<std::pair<std::string, DiffKind>> found;
  for (const TensorDiff& tensor : result.tensors) {
    found.emplace_back((tensor.first ? tensor.first : tensor.second)->name(), tensor.kind);
    EXPECT_EQ(tensor.first.has_value(), tensor.kind != DiffKind::only_second);
    EXPECT_EQ(tensor.second.has_value(), tensor.kind != DiffKind::only_first);
  }
  const std::vector<std::pair<std::string, DiffKind>> wanted = {{"gone", DiffKind::only_first},
                                                                {"shape", DiffKind::shape},
                                                                {"dtype", DiffKind::dtype},
                                                                {"value", DiffKind::values},
                                                                {"new", DiffKind::only_second}};
  EXPECT_EQ(found, wanted);
  EXPECT_EQ(result.equal_tensors, 2U);
  EXPECT_FALSE(result.equal());
  EXPECT_EQ(result.tensors[2].differing, 1U);
  EXPECT_EQ(result.tensors[2].max_error, 2);
  EXPECT_EQ(result.tensors[3].differing, 2U);
  EXPECT_EQ(result.tensors[3].first_differing, 2U);
  EXPECT_EQ(result.tensors[3].max_error, 'x' - 'c');
  EXPECT_EQ(result.tensors[3].mean_error, ('x' - 'c' + 'y' - 'd') / 4.0);
}

TEST(Diff, ReadsNothingWithoutValues) {
  const File first = file_of({{"a", "U8", "[1]", "a"}, {"b", "U8", "[1]", "b"}});
  const File second = file_of({{"a", "U8", "[1]", "z"}, {"b", "I8", "[1]", "b"}});
  const TensorDiff found = only_difference(first, second, {.values = false});
  EXPECT_EQ(found.kind, DiffKind::dtype);
  EXPECT_EQ(found.differing, 0U);
}

TEST(Diff, RenamesTensorsOfTheFirstSet) {
  const File first = file_of({{"model.a", "U8", "[1]", "a"}, {"b", "U8", "[1]", "b"}});
  const File second = file_of({{"a", "U8", "[1]", "a"}, {"b", "U8", "[1]", "b"}});
  const auto strip = [](std::string_view name) { return std::string(name.substr(name.rfind('.') + 1)); };
  EXPECT_TRUE(equal(first, second, {.rename = strip}));
  const Result<DiffResult> twice =
      diff(first.tensors(), second.tensors(), {.rename = [](std::string_view) { return std::string("a"); }});
  EXPECT_EQ(twice.error().code, Errc::invalid_argument);
  EXPECT_EQ(twice.error().message, "two tensors get the name `a`: `model.a` and `b`");
}

TEST(Diff, ComparesSelectedTensors) {
  const File first = file_of({{"a", "U8", "[1]", "x"}, {"b", "U8", "[1]", "x"}, {"gone", "U8", "[1]", "x"}});
  const File second = file_of({{"a", "U8", "[1]", "y"}, {"b", "U8", "[1]", "y"}, {"new", "U8", "[1]", "x"}});
  DiffOptions options;
  options.select = [](const Tensor& tensor) { return tensor.name() == "b" || tensor.name() == "new"; };
  const DiffResult found = diff(first.tensors(), second.tensors(), options).value();
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_EQ(found.tensors[0].first->name(), "b");
  EXPECT_EQ(found.tensors[1].kind, DiffKind::only_second);
  EXPECT_EQ(found.tensors[1].second->name(), "new");
  options.select = [](const Tensor&) { return false; };
  EXPECT_TRUE(diff(first.tensors(), second.tensors(), options).value().equal());
}

TEST(Diff, WithoutToleranceBytesCount) {
  const std::vector<std::uint64_t> nan = {0x7FC00000, 0x00000000};
  EXPECT_TRUE(equal(one("F32", nan, 32), one("F32", nan, 32)));
  const TensorDiff zero = only_difference(one("F32", nan, 32), one("F32", {0x7FC00000, 0x80000000}, 32));
  EXPECT_EQ(zero.differing, 1U);
  EXPECT_EQ(zero.first_differing, 1U);
  EXPECT_EQ(zero.max_error, 0);
  EXPECT_EQ(only_difference(one("F32", nan, 32), one("F32", {0x7FC00001, 0}, 32)).differing, 1U);
  EXPECT_EQ(only_difference(one("F4", {1, 2, 3, 15}, 4), one("F4", {1, 2, 7, 15}, 4)).first_differing, 2U);
}

TEST(Diff, ToleratesErrors) {
  const File first = one("F32", {0x3F800000, 0x42C80000}, 32);   // 1, 100
  const File second = one("F32", {0x3F8147AE, 0x42CA0000}, 32);  // 1.01, 101
  EXPECT_EQ(only_difference(first, second).differing, 2U);
  EXPECT_EQ(only_difference(first, second, {.atol = 0.02}).first_differing, 1U);
  EXPECT_TRUE(equal(first, second, {.rtol = 0.02}));
  EXPECT_TRUE(equal(first, second, {.rtol = 0.0095, .atol = 0.05}));
  EXPECT_NEAR(only_difference(first, second).mean_error, 0.505, 1e-6);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(diff(first.tensors(), second.tensors(), {.rtol = bad}).error().code, Errc::invalid_argument);
    EXPECT_EQ(diff(first.tensors(), second.tensors(), {.atol = bad}).error().code, Errc::invalid_argument);
  }
}

TEST(Diff, ValuesThatAreNoNumbers) {
  const std::uint64_t nan = 0x7E00, other_nan = 0xFE01, infinity = 0x7C00, negative = 0xFC00, largest = 0x7BFF,
                      one_ = 0x3C00;
  const auto close = [](std::uint64_t a, std::uint64_t b, const DiffOptions& options) {
    return equal(one("F16", {a, 0}, 16), one("F16", {b, 0}, 16), options);
  };
  for (const DiffOptions& options :
       {DiffOptions{.atol = 1e300}, DiffOptions{.rtol = kInfinity}, DiffOptions{.ulps = 70000}}) {
    EXPECT_TRUE(close(nan, other_nan, options));
    EXPECT_TRUE(close(infinity, infinity, options));
    EXPECT_FALSE(close(nan, one_, options));
    EXPECT_FALSE(close(one_, nan, options));
    EXPECT_FALSE(close(infinity, negative, options));
    EXPECT_FALSE(close(infinity, largest, options));
    EXPECT_FALSE(close(largest, infinity, options));
    EXPECT_TRUE(close(largest, one_, options));
  }
  EXPECT_EQ(only_difference(one("F16", {infinity, 0}, 16), one("F16", {one_, 0}, 16)).max_error, kInfinity);
  EXPECT_EQ(only_difference(one("F16", {nan, 0}, 16), one("F16", {one_, 0}, 16)).max_error, 0);
}

TEST(Diff, CountsUnitsInTheLastPlace) {
  const auto close = [](std::uint64_t a, std::uint64_t b, std::uint64_t ulps, const char* dtype = "BF16",
                        unsigned width = 16) {
    const std::vector<std::uint64_t> first(4, a), second(4, b);
    return equal(one(dtype, first, width), one(dtype, second, width), {.ulps = ulps});
  };
  EXPECT_TRUE(close(0x3F80, 0x3F81, 1));
  EXPECT_FALSE(close(0x3F80, 0x3F82, 1));
  EXPECT_TRUE(close(0x0000, 0x8000, 1));
  EXPECT_TRUE(close(0x0001, 0x8001, 2));
  EXPECT_FALSE(close(0x0001, 0x8001, 1));
  EXPECT_TRUE(close(0x01, 0x03, 2, "F4", 4));
  EXPECT_FALSE(close(0x01, 0x04, 2, "F4", 4));
  EXPECT_FALSE(close(0x80, 0x00, 3, "F8_E4M3FNUZ", 8));  // NaN
  EXPECT_TRUE(close(0x7E, 0x80, 2, "F8_E8M0", 8));
  EXPECT_TRUE(close(0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, std::numeric_limits<std::uint64_t>::max(), "F64", 64));
  EXPECT_FALSE(close(5, 6, 1, "I16", 16));  // integers have no such units
}

TEST(Diff, ComparesIntegersExactly) {
  const std::uint64_t large = std::uint64_t{1} << 53;
  for (const DiffOptions& options : {DiffOptions{}, DiffOptions{.atol = 0.5}, DiffOptions{.ulps = 3}}) {
    const TensorDiff found = only_difference(one("I64", {large, 1}, 64), one("I64", {large + 1, 1}, 64), options);
    EXPECT_EQ(found.differing, 1U);
    EXPECT_EQ(found.max_error, 1);
  }
  EXPECT_TRUE(equal(one("I64", {large}, 64), one("I64", {large + 1}, 64), {.atol = 1}));
  const TensorDiff signs =
      only_difference(one("I64", {~std::uint64_t{0}, large}, 64), one("U64", {~std::uint64_t{0}, large}, 64));
  EXPECT_EQ(signs.kind, DiffKind::dtype);
  EXPECT_EQ(signs.differing, 1U);
  EXPECT_EQ(signs.max_error, 18446744073709551616.0);
  const TensorDiff least = only_difference(one("I64", {std::uint64_t{1} << 63}, 64), one("I64", {0}, 64));
  EXPECT_EQ(least.max_error, 9223372036854775808.0);
  EXPECT_EQ(only_difference(one("I8", {0x80, 1}, 8), one("I8", {0x7F, 1}, 8)).max_error, 255);
}

TEST(Diff, CountsNaNsAndDoesNotOverflow) {
  const std::uint64_t nan = 0x7FF8000000000000, huge = 0x7FE1CCF385EBC8A0;  // 1e308
  const TensorDiff found =
      only_difference(one("F64", {nan, 0, nan, huge, huge}, 64), one("F64", {0, nan, nan, 0, 0}, 64), {.atol = 1});
  EXPECT_EQ(found.differing, 4U);
  EXPECT_EQ(found.nan_differing, 2U);
  EXPECT_EQ(found.max_error, 1e308);
  EXPECT_NEAR(found.mean_error / 1e308, 0.4, 1e-12);
}

TEST(Diff, ToleratesErrorsOfComplexNumbersByTheirDistance) {
  const auto complex = [](float real, float imaginary) {
    return file_of({{"t", "C64", "[1]",
                     packed({std::bit_cast<std::uint32_t>(real), std::bit_cast<std::uint32_t>(imaginary)}, 32)}});
  };
  EXPECT_TRUE(equal(complex(1, 0.001F), complex(1, 0), {.rtol = 0.01}));
  EXPECT_FALSE(equal(complex(1.9F, 0.9F), complex(1, 0), {.atol = 1}));
  EXPECT_TRUE(equal(complex(1.9F, 0.9F), complex(1, 0), {.atol = 1.3}));
  std::mt19937 random(9);
  std::normal_distribution<float> any(0, 100);
  for (int i = 0; i < 200; ++i) {
    const float x = any(random), y = i % 7 == 0 ? 1e-30F : any(random);
    const double error = only_difference(complex(x, y), complex(0, 0)).max_error;
    EXPECT_NEAR(error / std::hypot(static_cast<double>(x), static_cast<double>(y)), 1, 1e-15) << x << " " << y;
  }
  EXPECT_EQ(only_difference(complex(1e38F, 1), complex(-std::numeric_limits<float>::infinity(), 1)).max_error,
            kInfinity);
}

TEST(Diff, ComparesComplexNumbers) {
  const std::string a = packed({0x3F800000, 0x40000000, 0, 0}, 32);  // 1+2j, 0
  const std::string b = packed({0x40800000, 0x40C00000, 0, 0}, 32);  // 4+6j, 0
  const File first = file_of({{"t", "C64", "[2]", a}});
  const TensorDiff found = only_difference(first, file_of({{"t", "C64", "[2]", b}}));
  EXPECT_EQ(found.differing, 1U);
  EXPECT_EQ(found.max_error, 5);
  EXPECT_EQ(found.mean_error, 2.5);
  const TensorDiff real = only_difference(first, file_of({{"t", "F32", "[2]", packed({0x3F800000, 0}, 32)}}));
  EXPECT_EQ(real.kind, DiffKind::dtype);
  EXPECT_EQ(real.differing, 1U);
  EXPECT_EQ(real.max_error, 2);
}

// Every code of every dtype of up to 8 bits against every other code, and random codes of wider ones.
TEST(Diff, AgreesWithASlowReference) {
  std::mt19937_64 random(3);
  const std::vector<std::pair<std::string, unsigned>> dtypes = {{"F8_E4M3", 8},     {"F8_E5M2", 8}, {"F8_E4M3FNUZ", 8},
                                                                {"F8_E5M2FNUZ", 8}, {"F8_E8M0", 8}, {"F16", 16},
                                                                {"BF16", 16},       {"F32", 32},    {"F64", 64}};
  for (const auto& [name, width] : dtypes) {
    const Dtype dtype = *parse_dtype(name);
    std::vector<std::uint64_t> first, second;
    for (unsigned i = 0; i < 4096; ++i) {
      const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
      first.push_back(random() & mask);
      second.push_back(i % 3 == 0 ? first.back() : i % 3 == 1 ? (first.back() + 1) & mask : random() & mask);
    }
    const DiffOptions options{.rtol = 0.1, .atol = 0.5};
    std::uint64_t differing = 0;
    double largest = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double a = decode(dtype, first[i]), b = decode(dtype, second[i]);
      const bool close = a == b || (std::isnan(a) && std::isnan(b)) ||
                         (std::isfinite(a) && std::isfinite(b) && std::abs(a - b) <= 0.5 + 0.1 * std::abs(b));
      differing += close ? 0 : 1;
      if (a != b && !std::isnan(a) && !std::isnan(b)) largest = std::max(largest, std::abs(a - b));
    }
    const TensorDiff found = only_difference(one(name, first, width), one(name, second, width), options);
    EXPECT_EQ(found.differing, differing) << name;
    EXPECT_EQ(found.max_error, largest) << name;
  }
}

TEST(Diff, ChunksAndThreadsChangeNothing) {
  constexpr std::size_t kElements = (5 << 20) / 2 + 3;
  std::mt19937_64 random(4);
  std::vector<std::uint64_t> first(kElements), second;
  for (std::uint64_t& code : first) code = random() & 0x3FFF;
  second = first;
  for (const std::size_t at : {std::size_t{700001}, std::size_t{1} << 19, kElements - 1}) second[at] ^= 0x0100;
  const File a = one("F16", first, 16), b = one("F16", second, 16);
  const TensorDiff wanted = only_difference(a, b, {.threads = 1});
  EXPECT_EQ(wanted.differing, 3U);
  EXPECT_EQ(wanted.first_differing, std::size_t{1} << 19);
  std::uint64_t last = 0;
  const auto progress = [&](std::uint64_t completed, std::uint64_t total) {
    EXPECT_EQ(total, kElements * 2);
    last = completed;
    return true;
  };
  const TensorDiff found = only_difference(a, b, {.threads = 5, .progress = progress});
  EXPECT_EQ(last, kElements * 2);
  EXPECT_EQ(found.differing, wanted.differing);
  EXPECT_EQ(found.mean_error, wanted.mean_error);
  const Result<DiffResult> cancelled =
      diff(a.tensors(), b.tensors(), {.threads = 2, .progress = [](std::uint64_t, std::uint64_t) { return false; }});
  EXPECT_EQ(cancelled.error().code, Errc::cancelled);
}

// 4 MiB, of which only the last element differs: three chunks have equal bytes.
TEST(Diff, MagnitudeIsThatOfWholeTensor) {
  std::vector<std::uint64_t> codes(1 << 20, 0xBF800000);  // -1
  const File first = one("F32", codes, 32);
  codes.back() = 0x40400000;  // 3
  for (const unsigned threads : {1U, 3U}) {
    const TensorDiff found = only_difference(first, one("F32", codes, 32), {.threads = threads});
    EXPECT_EQ(found.differing, 1U);
    EXPECT_EQ(found.first_differing, codes.size() - 1);
    EXPECT_EQ(found.mean_error, 4.0 / static_cast<double>(codes.size()));
    EXPECT_EQ(found.mean_magnitude, static_cast<double>(codes.size() + 2) / static_cast<double>(codes.size()));
  }
}

TEST(Diff, NamesTheTensorThatCannotBeRead) {
  TemporaryDirectory directory;
  put(directory / "a.safetensors", one_tensor("U8", "[3000000]", 3000000));
  put(directory / "b.safetensors", one_tensor("U8", "[3000000]", 3000000));
  const File first = File::open(directory / "a.safetensors", {.access = Access::read}).value();
  const File second = File::open(directory / "b.safetensors", {.access = Access::read}).value();
  ASSERT_EQ(::truncate((directory / "b.safetensors").c_str(), 2000000), 0);
  const Error error = diff(first.tensors(), second.tensors()).error();
  EXPECT_EQ(error.code, Errc::file_truncated);
  EXPECT_EQ(error.path, directory / "b.safetensors");
  EXPECT_NE(error.message.find("tensor `t`"), std::string::npos) << error.message;
}

}  // namespace
}  // namespace safetensors::test
