// A table of words. All others are names of dtypes.
#include "dtype_words.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace safetensors::cli {
namespace {

constexpr std::pair<std::string_view, Dtype> kWords[] = {
    {"DOUBLE", Dtype::F64},
    {"FLOAT64", Dtype::F64},
    {"FP64", Dtype::F64},
    {"FLOAT", Dtype::F32},
    {"FLOAT32", Dtype::F32},
    {"FP32", Dtype::F32},
    {"SINGLE", Dtype::F32},
    {"HALF", Dtype::F16},
    {"FLOAT16", Dtype::F16},
    {"FP16", Dtype::F16},
    {"BFLOAT16", Dtype::BF16},
    {"FP8", Dtype::F8_E4M3},
    {"FLOAT8", Dtype::F8_E4M3},
    {"E4M3", Dtype::F8_E4M3},
    {"E5M2", Dtype::F8_E5M2},
    {"FP8_E4M3", Dtype::F8_E4M3},
    {"FP8_E5M2", Dtype::F8_E5M2},
    {"FLOAT8_E4M3FN", Dtype::F8_E4M3},
    {"FLOAT8_E5M2", Dtype::F8_E5M2},
    {"FLOAT8_E4M3FNUZ", Dtype::F8_E4M3FNUZ},
    {"FLOAT8_E5M2FNUZ", Dtype::F8_E5M2FNUZ},
    {"INT8", Dtype::I8},
    {"INT16", Dtype::I16},
    {"INT32", Dtype::I32},
    {"INT64", Dtype::I64},
    {"UINT8", Dtype::U8},
    {"UINT16", Dtype::U16},
    {"UINT32", Dtype::U32},
    {"UINT64", Dtype::U64},
};

}  // namespace

std::optional<Dtype> dtype_named(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  using Word = std::pair<std::string_view, Dtype>;
  const auto* const word = std::ranges::find(kWords, std::string_view(upper), &Word::first);
  return word == std::end(kWords) ? parse_dtype(upper) : std::optional(word->second);
}

}  // namespace safetensors::cli
