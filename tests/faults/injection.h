// Makes one allocation or one system call of this program fail, whichever thread makes it.
//
// Allocations: the program's own malloc family counts the calls and fails the one that was chosen. Nothing is left out:
// operator new, the C library and the C++ run-time library allocate through it as well.
// System calls: a seccomp filter sends each call of the calling thread, and of the threads that it starts, to a
// supervisor thread. The supervisor counts the calls, fails the one that was chosen, and lets the others through.
//
// Only one program at a time may include this header. Calls are counted only while an Armed exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace safetensors::test::faults {

enum class Kind {
  none,
  allocation,         // fails one allocation
  every_allocation,   // fails one allocation and all after it, until the call under test returns
  system_call,        // fails one system call with an error number
  short_system_call,  // a read, write or copy moves only a part of the bytes
};

// The fault of one run.
struct Fault {
  Kind kind = Kind::none;
  std::uint64_t ordinal = 0;  // index of the call that fails, from 0, among all armed calls of the run
  std::size_t variant = 0;    // index among the error numbers that suit the system call
};

// The system call that failed.
struct Injected {
  std::string name;          // "openat"; "stat" for all calls of that family
  std::string path;          // the path in the arguments, if there is one
  std::uint64_t flags = 0;   // the flags of openat
  int error_number = 0;      // 0: the call moved only a part of the bytes
  std::size_t variants = 0;  // error numbers that suit this call
  bool anonymous = false;    // mmap without a file
};

// Chooses the fault and sets the count to 0.
void choose(const Fault& fault);
// Returns whether the chosen fault has happened.
[[nodiscard]] bool happened();
// Returns the system call that failed. Valid after happened().
[[nodiscard]] Injected injected();
// Returns the number of calls since choose().
[[nodiscard]] std::uint64_t counted();

class Armed {
 public:
  Armed();
  Armed(const Armed&) = delete;
  Armed& operator=(const Armed&) = delete;
  ~Armed();
};

// Runs body on a thread whose system calls may fail, and waits for it. Returns why that is impossible here, or "".
[[nodiscard]] std::string run_supervised(const std::function<void()>& body);

// Bytes of all mappings that the library made and has not unmapped.
[[nodiscard]] std::int64_t mapped_bytes();

}  // namespace safetensors::test::faults
