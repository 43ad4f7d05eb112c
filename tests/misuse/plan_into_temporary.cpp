// A temporary container as the destination of a plan is gone before the plan is executed.
#include <safetensors/safetensors.h>

#include <vector>

std::vector<std::byte> make();

bool add(safetensors::ReadPlan& plan, const safetensors::Tensor& tensor, std::vector<std::byte>& bytes) {
#ifdef MISUSE
  return plan.add(tensor, {}, {.bytes = make()}).ok();  // expect: convert|viable conversion|no matching|could not
#else
  return plan.add(tensor, {}, {.bytes = bytes}).ok();
#endif
}
