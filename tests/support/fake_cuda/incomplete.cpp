// A driver with only one entry point, which must never be called.
#include <cstdlib>

extern "C" int cuInit(unsigned) {
  std::abort();
}
