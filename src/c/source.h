// A Source whose functions are C callbacks of the caller. They may throw: File::from_source() is the boundary.
#pragma once

#include "c/support.h"

namespace safetensors::c {

class CallbackSource final : public Source, public std::enable_shared_from_this<CallbackSource> {
 public:
  explicit CallbackSource(const safetensors_source& callbacks) noexcept : callbacks_(callbacks) {}
  ~CallbackSource() override;

  // After this call, the destructor calls the caller's release function.
  void own() noexcept { owned_ = true; }

  [[nodiscard]] Result<std::uint64_t> size() const override;
  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override;
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const override;
  [[nodiscard]] bool concurrent() const noexcept override { return callbacks_.one_thread_at_a_time == 0; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return callbacks_.request_bytes; }

 private:
  safetensors_source callbacks_;
  bool owned_ = false;
};

}  // namespace safetensors::c
