// What every part of the extension uses: errors, and conversions that speak Python's language.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <safetensors/safetensors.h>

#include <cxxabi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors::python {

namespace nb = nanobind;

// Makes SafetensorError and puts it into the module.
void define_errors(nb::module_& module);
[[nodiscard]] nb::handle error_type() noexcept;

// Raises SafetensorError(text). The Error, when there is one, gives the attributes code, offset and errno, and a note
// with the path.
[[noreturn]] void raise(std::string_view text, const Error* error = nullptr);
[[noreturn]] void raise_type_error(std::string_view text);
// Within a catch of what a framework raised: SafetensorError(prefix + its text) with that as its cause. MemoryError,
// SafetensorError, and what is no Exception, such as KeyboardInterrupt, are raised again as they are.
[[noreturn]] void raise_refused(const nb::python_error& error, const std::string& prefix);
[[noreturn]] void raise_key_error(nb::handle key);
// An Error of opening a file or reading from it: the system's as the OSError that it is, anything else as
// SafetensorError(prefix + message). path: as the caller gave it; empty: the Error's, which then also begins the text
// where an exception can have no notes (before Python 3.11).
[[noreturn]] void raise_read_error(const Error& error, std::string_view prefix, std::string_view path);

// In a loop that may be long, with the number of its round: lets signals' handlers run in every 1024th, and throws what
// they raise.
inline void check_signals(std::size_t round) {
  if ((round & 0x3FF) == 0x3FF && PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A call of the C API gave a new reference, or has already set an exception.
[[nodiscard]] inline nb::object own(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}
// Copies the items of a dict and holds them: Python code that runs later may change the dict. Calls no method of a
// subclass.
[[nodiscard]] std::vector<std::pair<nb::object, nb::object>> dict_items(nb::handle dict);
// The value of a key in a dict, held; not valid when the key is missing. Raises what the `__eq__` of a key raises.
[[nodiscard]] nb::object find_item(nb::handle dict, const char* key);
[[nodiscard]] nb::object to_str(std::string_view utf8);
// The UTF-8 of a str, valid as long as it; TypeError naming the argument for anything else.
[[nodiscard]] std::string_view from_str(nb::handle object, const char* argument);
// from_str of a tensor's name; nullopt for one with a lone surrogate, which no header can hold.
[[nodiscard]] std::optional<std::string_view> to_name(nb::handle object, const char* argument);
// The type's name: "numpy.ndarray", "int".
[[nodiscard]] std::string name_of_type(nb::handle object);
// str, bytes or os.PathLike, as the bytes that the system is given; TypeError naming the argument for anything else.
[[nodiscard]] std::string to_path(nb::handle object, const char* argument = "filename");
[[nodiscard]] nb::object to_tuple(ShapeView shape);
[[nodiscard]] nb::object to_list(ShapeView shape);
// OverflowError for a negative one, TypeError for what is no integer.
[[nodiscard]] std::uint64_t to_unsigned(nb::handle object);

// What a thread does that the interpreter, which ends, wants to unwind through code that may not be unwound.
[[noreturn]] void park_thread() noexcept;

// Calls what runs Python code, which may end the thread so. nanobind does not let that through.
template <class Function>
decltype(auto) never_unwound(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

[[nodiscard]] nb::module_ import_module(const char* name);

// Without the GIL, for as long as it lives. A thread that asks for it back while the interpreter ends never gets it: it
// must not return, and what Python does with it, unwinding, would end in std::terminate. So it sleeps until the end.
class WithoutGil {
 public:
  WithoutGil() noexcept;
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil();

 private:
  friend class WithGil;
  const WithoutGil* outer_;
  mutable PyThreadState* state_;
};
// With the GIL, on any thread; otherwise as WithoutGil. Within one of this thread's by the state that it holds:
// PyGILState_Ensure would want to make a new one once the interpreter has ended, and crash.
class WithGil {
 public:
  WithGil() noexcept;
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
  ~WithGil();

 private:
  const WithoutGil* released_;
  PyGILState_STATE state_ = PyGILState_LOCKED;
};

// While it lives, this thread runs signals' handlers or a caller's function in the guard of a call of an object: what
// they ask of the same object must not wait for that call.
class ReentrancyGuard {
 public:
  explicit ReentrancyGuard(const void* object) noexcept;
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;
  ~ReentrancyGuard();
  // Whether this thread is there.
  [[nodiscard]] static bool of(const void* object) noexcept;

 private:
  const void* object_;
  const ReentrancyGuard* outer_;
};

// Slots of a type whose instances only this module makes. `T.__new__(T)` raises TypeError: the instance would have no
// value.
PyObject* refuse_new(PyTypeObject* type, PyObject* args, PyObject* kwargs);
extern PyType_Slot refuse_new_slots[];

// Puts a value into an instance, at the end of its `__init__`. Raises TypeError if the instance already has one: an
// argument's code or another thread may have called `__init__`, too.
template <class T, class Value>
void initialize(nb::pointer_and_handle<T> self, Value&& value) {
  if (nb::inst_ready(self.h)) raise_type_error("__init__() was called twice on one object");
  new (self.p) T(std::forward<Value>(value));
}

// A buffer of bytes that somebody else owns, held until this goes.
class Buffer {
 public:
  // TypeError without the buffer protocol, BufferError if not contiguous. flags: what else is asked for, such as
  // PyBUF_FORMAT.
  explicit Buffer(nb::handle object, int flags = PyBUF_SIMPLE);
  // Shared by what may be given up on any thread, whether it holds the GIL or not.
  [[nodiscard]] static std::shared_ptr<const Buffer> share(nb::handle object);
  Buffer(Buffer&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  [[nodiscard]] bool read_only() const noexcept { return view_.readonly != 0; }
  // Of an element, as the module struct writes it; "B" unless PyBUF_FORMAT was asked for.
  [[nodiscard]] std::string_view format() const noexcept { return view_.format != nullptr ? view_.format : "B"; }
  [[nodiscard]] std::size_t itemsize() const noexcept { return static_cast<std::size_t>(view_.itemsize); }

 private:
  Py_buffer view_;
};

}  // namespace safetensors::python
