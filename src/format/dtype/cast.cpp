// Chooses the loops for a cast: AVX2 with F16C if the processor has both, else portable loops.
//
// Pairs without a kernel of their own go through F32. F32 holds every number of the smaller floats exactly, so the
// result is still rounded only once.
#include "format/dtype/cast.h"

#include "format/dtype/cast_kernels.h"

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
