// Builds a large header from a few bytes of a fuzzer. They choose the members, their number, order and mistakes.
//
// A fuzzer's input has a few kilobytes, which is too little to exceed a bound on memory or work. So one byte here
// stands for a whole group of members, and the bounds are tested on texts of up to 4 MiB.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "input.h"
#include "support/hostile_names.h"

namespace fuzz {

class HostileText {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  explicit HostileText(Input& input) : input_(input), limit_(kMaxBytes >> input.up_to(8)) {
    text_.reserve(limit_ + kLongestMember);
    text_ = "{";
    const std::uint64_t groups = 1 + input_.up_to(7);
    for (std::uint64_t i = 0; i < groups && text_.size() < limit_; ++i) group();
    text_ += "}";
    if (input_.up_to(7) == 0) text_.resize(text_.size() - std::min<std::size_t>(text_.size(), input_.byte()));
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  static constexpr std::size_t kLongestMember = std::size_t{1} << 20;
  enum Kind { kTensor, kShape, kFields, kMetadata, kCycle, kKinds };

  // Adds members of one kind, as many as the input says, but no more than fit.
  void group() {
    const auto kind = static_cast<Kind>(input_.up_to(kKinds - 1));
    style_ = input_.byte();
    const std::size_t count = std::size_t{1} << input_.up_to(18);
    const std::size_t rank = std::size_t{1} << input_.up_to(17);
    const std::size_t spread = input_.byte();
    for (std::size_t i = 0; i < count && text_.size() < limit_; ++i) {
      if (kind == kTensor) tensor(1 + spread % 4);
      if (kind == kShape) tensor(rank + spread);
      if (kind == kFields) fields(std::min(rank, std::size_t{1} << 15));
      if (kind == kMetadata) metadata(std::min(rank + spread, std::size_t{1} << 16));
      if (kind == kCycle) tensor(i % 4 < 3 ? std::min(rank, std::size_t{1} << 16) + spread : 1);
    }
  }

  void separate() {
    if (text_.back() != '{') text_ += ',';
  }

  // A name. The style chooses ascending numbers, descending numbers, one name for all members, or names that cancelled
  // the seed of an earlier hash.
  std::string name() {
    const std::string number = std::to_string(++next_);
    if ((style_ & 3) == 1) return std::to_string(99'999'999 - next_);
    if ((style_ & 3) == 2 && (style_ & 0x80) != 0) return "";
    if ((style_ & 3) == 3) return hostile::name_that_cancels_a_seed(next_);
    return number;
  }
  std::string quoted() { return "\"" + hostile::in_json(name()) + "\""; }

  void dims(std::size_t rank) {
    text_ += '[';
    for (std::size_t i = 0; i < rank; ++i) {
      if (i > 0) text_ += ',';
      text_ += i == rank - 1 ? '0' : static_cast<char>('0' + (style_ >> 4 & 1));
    }
    text_ += ']';
  }

  void tensor(std::size_t rank) {
    separate();
    text_ += quoted();
    text_ += (style_ & 4) != 0 ? ":{\"dtype\":\"U8\",\"shape\":" : ": {\"x\":0,\"dtype\":\"F32\",\"shape\":";
    dims(rank);
    // Offsets in order or not. If not, the parser sorts them before it refuses them.
    const std::string offset = (style_ & 8) != 0 ? std::to_string((next_ * 7919) % 1'000'003) : "0";
    text_ += ",\"data_offsets\":[" + offset + "," + offset + "]}";
  }

  void fields(std::size_t count) {
    separate();
    text_ += quoted() + ":{";
    for (std::size_t i = 0; i < count && text_.size() < limit_; ++i) text_ += quoted() + ":0,";
    text_ += R"("dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }

  void metadata(std::size_t count) {
    separate();
    text_ += "\"__metadata__\":{";
    for (std::size_t i = 0; i < count && text_.size() < limit_; ++i) {
      separate();
      text_ += quoted() + ":\"\"";
    }
    text_ += '}';
  }

  Input& input_;
  std::size_t limit_;
  std::string text_;
  std::uint8_t style_ = 0;
  std::uint64_t next_ = 0;
};

}  // namespace fuzz
