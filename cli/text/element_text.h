// Formats elements of all 22 dtypes as decimal text.
#pragma once

#include <safetensors/dtype.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace safetensors::cli {

// A float is the shortest decimal that reads back, as a double, to exactly the value in the file: 0.1 as F32 is
// 0.10000000149011612. Text mode: 1.0, nan, inf, -inf, true, false, 1.0+2.0j. A BOOL byte over 1 is a number. JSON mode
// is the same, except that a value that is not finite is a string ("nan"), C64 is [1.0, 2.0], and any BOOL byte except
// 0 is true.
class ElementText {
 public:
  ElementText(Dtype dtype, bool json);

  // Appends element `index` of packed elements. F4 and F6 are packed from the lowest bit of the first byte up.
  void append(std::string& out, std::span<const std::byte> packed, std::uint64_t index);

 private:
  void append_float(std::string& out, float value) const;
  const std::string& small_float(std::uint32_t code);

  Dtype dtype_;
  bool json_;
  std::vector<std::string> texts_;  // cached texts of small floats, indexed by their bits
};

}  // namespace safetensors::cli
