// Takes numbers off the front of a fuzzer's input. Gives zeros when the input is used up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fuzz {

class Input {
 public:
  Input(const unsigned char* data, std::size_t size) noexcept : data_(data), size_(size) {}

  std::uint8_t byte() noexcept {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  // A number from 0 to `most`.
  std::uint64_t up_to(std::uint8_t most) noexcept { return byte() % (most + 1U); }
  std::uint64_t u64() noexcept {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::string_view rest() const noexcept { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const unsigned char* data_;
  std::size_t size_;
};

}  // namespace fuzz
