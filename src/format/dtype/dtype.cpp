// The table of dtypes, and lookups in it by pinned number and by name.
//
// A header has one name per tensor, so the lookup by name is a perfect hash: a few operations per character, one load
// and one comparison. The hash is built and checked when this file is compiled.
#include "format/dtype/dtype.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace safetensors {
inline namespace v0 {
namespace {

// Codes of DLPack: https://dmlc.github.io/dlpack/latest/c_api.html, DLDataTypeCode.
enum DLPackCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6,
  kFloat8E4m3fn = 10,
  kFloat8E4m3fnuz = 11,
  kFloat8E5m2 = 12,
  kFloat8E5m2fnuz = 13,
  kFloat8E8m0fnu = 14,
  kFloat6E2m3fn = 15,
  kFloat6E3m2fn = 16,
  kFloat4E2m1fn = 17,
};

struct Row {
  Dtype dtype;
  std::string_view name;
  std::uint8_t bits;
  DLPackCode code;
};

// In the order of rank, lowest first. The writer orders tensors by descending rank.
constexpr std::array<Row, 22> kRows{{
    {Dtype::BOOL, "BOOL", 8, kBool},
    {Dtype::F4, "F4", 4, kFloat4E2m1fn},
    {Dtype::F6_E2M3, "F6_E2M3", 6, kFloat6E2m3fn},
    {Dtype::F6_E3M2, "F6_E3M2", 6, kFloat6E3m2fn},
    {Dtype::U8, "U8", 8, kUInt},
    {Dtype::I8, "I8", 8, kInt},
    {Dtype::F8_E5M2, "F8_E5M2", 8, kFloat8E5m2},
    {Dtype::F8_E4M3, "F8_E4M3", 8, kFloat8E4m3fn},
    {Dtype::F8_E8M0, "F8_E8M0", 8, kFloat8E8m0fnu},
    {Dtype::F8_E4M3FNUZ, "F8_E4M3FNUZ", 8, kFloat8E4m3fnuz},
    {Dtype::F8_E5M2FNUZ, "F8_E5M2FNUZ", 8, kFloat8E5m2fnuz},
    {Dtype::I16, "I16", 16, kInt},
    {Dtype::U16, "U16", 16, kUInt},
    {Dtype::F16, "F16", 16, kFloat},
    {Dtype::BF16, "BF16", 16, kBfloat},
    {Dtype::I32, "I32", 32, kInt},
    {Dtype::U32, "U32", 32, kUInt},
    {Dtype::F32, "F32", 32, kFloat},
    {Dtype::C64, "C64", 64, kComplex},
    {Dtype::F64, "F64", 64, kFloat},
    {Dtype::I64, "I64", 64, kInt},
    {Dtype::U64, "U64", 64, kUInt},
}};

constexpr std::array<Dtype, kRows.size()> kByRank = [] {
  std::array<Dtype, kRows.size()> dtypes{};
  for (std::size_t i = 0; i < kRows.size(); ++i) dtypes[i] = kRows[i].dtype;
  return dtypes;
}();

// Index: the pinned number of a dtype. Value: its rank, or kRows.size() for an unknown number.
constexpr std::array<std::uint8_t, 256> kRank = [] {
  std::array<std::uint8_t, 256> ranks{};
  ranks.fill(static_cast<std::uint8_t>(kRows.size()));
  for (std::size_t i = 0; i < kRows.size(); ++i)
    ranks[static_cast<std::uint8_t>(kRows[i].dtype)] = static_cast<std::uint8_t>(i);
  return ranks;
}();

// The row of an unknown number: callers may cast any number to Dtype.
constexpr Row kNoRow{Dtype::U8, "?", 8, kUInt};

const Row& row(Dtype dtype) noexcept {
  const unsigned index = kRank[static_cast<std::uint8_t>(dtype)];
  return index < kRows.size() ? kRows[index] : kNoRow;
}

constexpr std::uint64_t key_of(std::string_view name) noexcept {
  std::uint64_t key = name.size();
  for (const char c : name) key = key << 7 ^ key >> 50 ^ static_cast<unsigned char>(c);
  return key;
}

// Perfect hash from a name to the index of its row plus 1. The static_assert proves that no two names share a slot.
constexpr std::size_t kHashSlots = 256;
constexpr std::size_t slot_of(std::string_view name) noexcept {
  return static_cast<std::size_t>(key_of(name) * 0x9E3779B97F4A7C15u >> 56) % kHashSlots;
}
constexpr std::array<std::uint8_t, kHashSlots> kByName = [] {
  std::array<std::uint8_t, kHashSlots> slots{};
  for (std::size_t i = 0; i < kRows.size(); ++i) slots[slot_of(kRows[i].name)] = static_cast<std::uint8_t>(i + 1);
  return slots;
}();
static_assert(std::all_of(kRows.begin(), kRows.end(),
                          [](const Row& row) { return kRows[kByName[slot_of(row.name)] - 1U].dtype == row.dtype; }));

static_assert(std::all_of(kRows.begin(), kRows.end(),
                          [](const Row& row) { return row.name.size() <= format::kMaxDtypeName; }));

}  // namespace

Span<const Dtype> all_dtypes() noexcept {
  return kByRank;
}
unsigned bits(Dtype dtype) noexcept {
  return row(dtype).bits;
}
std::string_view to_string(Dtype dtype) noexcept {
  return dtype == Dtype::UNKNOWN ? std::string_view("unknown") : row(dtype).name;
}

std::optional<Dtype> parse_dtype(std::string_view name) noexcept {
  if (name.size() > format::kMaxDtypeName) return std::nullopt;
  const std::uint8_t entry = kByName[slot_of(name)];
  if (entry == 0 || kRows[entry - 1].name != name) return std::nullopt;
  return kRows[entry - 1].dtype;
}

}  // namespace v0

unsigned format::rank(Dtype dtype) noexcept {
  return kRank[static_cast<std::uint8_t>(dtype)];
}

std::uint8_t format::dlpack_code(Dtype dtype) noexcept {
  return row(dtype).code;
}

}  // namespace safetensors
