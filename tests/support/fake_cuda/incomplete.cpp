// A driver that lacks all but one entry point, which must never be called.
#include <cstdlib>

extern "C" int cuInit(unsigned) {
  std::abort();
}
