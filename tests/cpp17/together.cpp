// The C++17 and the C++20 interface in one program. Their names do not collide.
#include <safetensors/safetensors.h>
#include <safetensors/safetensors.hpp>

safetensors::Dtype of_cpp20(safetensors17::Dtype dtype);
safetensors::Dtype of_cpp20(safetensors17::Dtype dtype) {
  using namespace safetensors17;  // NOLINT(google-build-using-namespace)
  const safetensors17::Result<safetensors17::File> file = safetensors17::File::open("");
  const safetensors::Result<safetensors::File> other = safetensors::File::open("");
  return !file && !other && dtype == Dtype::F32 ? safetensors::Dtype::F32 : safetensors::Dtype::U8;
}
