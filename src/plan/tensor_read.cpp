// Reads one tensor with options: a plan with one item, which slices, casts and stores.
#include <safetensors/file.h>
#include <safetensors/read_plan.h>

#include <utility>

#include "base/error.h"

namespace safetensors {
inline namespace v0 {

Result<Array> Tensor::read(const TensorReadOptions& options) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    ReadPlan plan;
    if (Status status = plan.add(*this, options.slice, {.bytes = options.destination}, {.cast = options.cast}); !status)
      return std::move(status).error();
    Result<ReadResult> read = plan.execute();
    if (!read) return std::move(read).error();
    return std::move(read->arrays.front());
  });
}

}  // namespace v0
}  // namespace safetensors
