// A file in memory of the caller.
#pragma once

#include <safetensors/source.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace safetensors::file {

class MemorySource final : public Source {
 public:
  MemorySource(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) noexcept
      : bytes_(bytes), owner_(std::move(owner)) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override { return std::uint64_t{bytes_.size()}; }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const auto rest = bytes_.subspan(static_cast<std::size_t>(offset));
    const std::size_t count = std::min(rest.size(), destination.size());
    if (count != 0) std::memcpy(destination.data(), rest.data(), count);
    return count;
  }

  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override {
    if (offset > bytes_.size() || size > bytes_.size() - offset) return {};
    return {bytes_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size)), owner_};
  }

 private:
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

}  // namespace safetensors::file
