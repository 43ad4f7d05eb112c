// The context of a device, current on the calling thread for as long as this lives.
#pragma once

#include "device/cuda.h"

namespace safetensors::device {

class Current {
 public:
  Current(const CudaCalls& calls, Context context) noexcept : calls_(calls), result_(calls.context_push(context)) {}
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
  ~Current() {
    Context popped = nullptr;
    if (ok()) (void)calls_.context_pop(&popped);
  }

  [[nodiscard]] bool ok() const noexcept { return result_ == CudaResult::success; }
  [[nodiscard]] CudaResult result() const noexcept { return result_; }

 private:
  const CudaCalls& calls_;
  const CudaResult result_;
};

}  // namespace safetensors::device
