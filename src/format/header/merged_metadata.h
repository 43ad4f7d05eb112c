// The metadata of several headers as one sorted list, in 8 bytes per pair. A header may have millions of pairs.
#pragma once

#include <safetensors/header.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::format {

class MergedMetadata {
 public:
  struct Pair {
    std::string_view key;
    std::string_view value;
    std::size_t header;  // index of the header that has the pair
  };

  // The headers must outlive this object. Throws std::bad_alloc.
  explicit MergedMetadata(std::vector<Metadata> headers) : headers_(std::move(headers)) {
    std::size_t count = 0;
    for (const Metadata& header : headers_) count += header.size();
    places_.reserve(count);
    for (std::uint32_t header = 0; header < headers_.size(); ++header) {
      for (std::uint32_t i = 0; i < headers_[header].size(); ++i) places_.push_back({header, i});
    }
    // The pairs of one header are sorted by key.
    if (headers_.size() > 1) {
      std::ranges::sort(places_, [this](const Place& a, const Place& b) {
        const int order = headers_[a.header][a.index].first.compare(headers_[b.header][b.index].first);
        return order != 0 ? order < 0 : a.header < b.header;
      });
    }
  }

  // Pairs of one key follow each other, in the order of the headers.
  [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
  [[nodiscard]] Pair operator[](std::size_t index) const noexcept {
    const auto [key, value] = headers_[places_[index].header][places_[index].index];
    return {key, value, places_[index].header};
  }
  // Returns the index of the first pair of the next key.
  [[nodiscard]] std::size_t next_key(std::size_t index) const noexcept {
    const std::string_view key = (*this)[index].key;
    do ++index;
    while (index < size() && (*this)[index].key == key);
    return index;
  }

 private:
  struct Place {
    std::uint32_t header;
    std::uint32_t index;
  };
  std::vector<Metadata> headers_;
  std::vector<Place> places_;
};

}  // namespace safetensors::format
