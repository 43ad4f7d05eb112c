// Decides whether the outcome of a call is right after one allocation or one system call in it has failed.
#pragma once

#include <safetensors/c.h>

#include <string_view>
#include <vector>

#include "faults/injection.h"

namespace safetensors::test::faults {

struct Verdict {
  bool may_succeed = false;                    // then the result must be whole and right
  std::vector<safetensors_status> codes = {};  // of a failure
  bool tells_errno = true;                     // the error's os_error is that of the system call
};

// function: the one that was called when the fault happened.
[[nodiscard]] Verdict judge(const Fault& fault, std::string_view function);

}  // namespace safetensors::test::faults
