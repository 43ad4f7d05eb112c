// Parks a thread that the ending interpreter unwinds, where the C++ library is libc++.
//
// Before version 3.14, Python ends a daemon thread by pthread_exit(). glibc then unwinds the thread with the unwinder
// of libgcc. Code with libc++ has an unwinder of its own, whose functions do not understand the context of the other
// one, and no type that a catch block could name. So the linker puts this function before the personality routine of
// every C++ frame of the extension (python/CMakeLists.txt): the first frame that a forced unwinding reaches parks the
// thread.
#include "support.h"

#if defined(_LIBCPP_VERSION) && defined(SAFETENSORS_WRAP_PERSONALITY)

#include <unwind.h>

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the names that the linker's option --wrap asks for
_Unwind_Reason_Code __real___gxx_personality_v0(int version, _Unwind_Action actions, std::uint64_t kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context);

_Unwind_Reason_Code __wrap___gxx_personality_v0(int version, _Unwind_Action actions, std::uint64_t kind,
                                                _Unwind_Exception* exception, _Unwind_Context* context) {
  if ((static_cast<unsigned>(actions) & static_cast<unsigned>(_UA_FORCE_UNWIND)) != 0)
    safetensors::python::park_thread();
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}
// NOLINTEND(bugprone-reserved-identifier)

}  // extern "C"

#endif
