// The part of signals.h that takes the GIL: for functions that the library calls while it works without the GIL.
#include "signals.h"

#include "support.h"

namespace safetensors::python {

bool interrupted() {
  const WithGil acquired;
  return PyErr_CheckSignals() != 0;
}

}  // namespace safetensors::python
