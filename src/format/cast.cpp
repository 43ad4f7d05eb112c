#include "format/cast.h"

#include "format/cast_kernels.h"

namespace safetensors::format {
namespace {

bool has_kernel(Dtype from, Dtype to) noexcept {
  return cast_kernel(from, to, Instructions::portable) != nullptr;
}

}  // namespace

bool castable(Dtype from, Dtype to) noexcept {
  if (from == to || has_kernel(from, to)) return true;
  return has_kernel(from, Dtype::F32) && has_kernel(Dtype::F32, to);
}

void cast(Dtype from, const std::byte* in, Dtype to, std::byte* out, std::size_t count) noexcept {
  const Instructions best = available(Instructions::avx2) ? Instructions::avx2 : Instructions::portable;
  cast_with(best, from, in, to, out, count);
}

}  // namespace safetensors::format
