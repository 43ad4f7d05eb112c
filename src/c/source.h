// A Source whose functions are C callbacks of the caller.
#pragma once

#include "c/support.h"

namespace safetensors::c {

class CallbackSource final : public Source, public std::enable_shared_from_this<CallbackSource> {
 public:
  explicit CallbackSource(const safetensors_source& callbacks) noexcept : callbacks_(callbacks) {}
  ~CallbackSource() override;

  // After this call, the destructor calls the caller's release function.
  void own() noexcept { owned_ = true; }

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override;
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset,
                                            std::span<std::byte> destination) const noexcept override;
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override;

 private:
  safetensors_source callbacks_;
  bool owned_ = false;
};

}  // namespace safetensors::c
