// Shared by all parts of the extension: errors, conversions between C++ and Python, the GIL, signals, and buffers.
#pragma once

#include <cstdio>  // for nanobind.h, which uses stderr. libc++ does not include it

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <safetensors/safetensors.h>

#include <cxxabi.h>

#include <cstddef>
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

// Runs signal handlers, and throws the exception that one raises. Call it with the GIL.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}
// Call it in each iteration of a loop that may be long. Runs signal handlers in every 1024th iteration, and throws the
// exception that one raises. round: counts the iterations.
inline void check_signals(std::size_t round) {
  if ((round & 0x3FF) == 0x3FF) check_signals();
}
// Runs signal handlers. Returns true if one raised an exception, which stays set. Call it without the GIL.
[[nodiscard]] bool interrupted();

// Creates SafetensorError and MissingTensorError and adds them to the module.
void define_errors(nb::module_& module);

// Raises SafetensorError(text). error: gives the exception the attributes code, offset and errno, and a note with the
// path. May be null.
[[noreturn]] void raise(std::string_view text, const Error* error = nullptr);
[[noreturn]] void raise_type_error(std::string_view text);
// Raises TypeError: the argument is not an instance of a class.
[[noreturn]] void raise_not(const char* argument, nb::handle object, const char* wanted);
// Raises SafetensorError(prefix + text of the error) with the error as its cause. Call it inside of the catch block for
// an error of a framework. MemoryError, SafetensorError and errors that are not an Exception, such as
// KeyboardInterrupt, are raised again unchanged.
[[noreturn]] void raise_refused(const nb::python_error& error, const std::string& prefix);
// Raises MissingTensorError(text), which is a SafetensorError and a KeyError, with the attributes name and code. error:
// as in raise().
[[noreturn]] void raise_missing(std::string_view text, nb::handle name, const Error* error = nullptr);
// Raises an Error of opening or reading a file. An error of the system becomes the matching OSError, arrays of `out`
// that overlap become a ValueError, any other error SafetensorError(prefix + message). given: the path from the caller.
// If it is empty, the path of the Error is used. Before Python 3.11 exceptions have no notes, so that path then begins
// the text.
[[noreturn]] void raise_read_error(const Error& error, std::string_view prefix, std::string_view given);

// Takes a new reference from a call of the C API. Throws the exception that the call has set if it is null.
[[nodiscard]] inline nb::object own(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}
// Returns references to the items of a dict, because Python code that runs later may change the dict. Calls no method
// of a subclass.
[[nodiscard]] std::vector<std::pair<nb::object, nb::object>> dict_items(nb::handle dict);
// Returns a reference to the value of a key in a dict, or an invalid object if the key is missing. Raises the exception
// of the `__eq__` of a key.
[[nodiscard]] nb::object find_item(nb::handle dict, const char* key);
[[nodiscard]] nb::object to_str(std::string_view utf8);
// The UTF-8 bytes of a str, valid as long as the str. Raises TypeError, which names the argument, for another type.
[[nodiscard]] std::string_view from_str(nb::handle object, const char* argument);
// As from_str, but nullopt for a str with a lone surrogate: no header can hold such a name.
[[nodiscard]] std::optional<std::string_view> to_name(nb::handle object, const char* argument);
// The name of the object's type, such as "ndarray" or "int".
[[nodiscard]] std::string name_of_type(nb::handle object);
// The bytes of a path for the system. object: str, bytes or os.PathLike. Raises TypeError, which names the argument,
// for another type, and ValueError for a null byte.
[[nodiscard]] std::string to_path(nb::handle object, std::string_view argument = "filename",
                                  std::string_view expected = "str, bytes or os.PathLike object");
// The paths of a set of files. paths: a str, or an iterable of paths. Raises as to_path.
[[nodiscard]] std::vector<std::string> to_paths(nb::handle paths);
// The str of a path, as os.fsdecode makes it.
[[nodiscard]] nb::object from_path(std::string_view path);
[[nodiscard]] nb::object to_tuple(ShapeView shape);
[[nodiscard]] nb::object to_list(ShapeView shape);
// Raises OverflowError for an integer outside of 64 bits without sign, TypeError for an object that is not an integer.
[[nodiscard]] std::uint64_t to_unsigned(nb::handle object);

// With libstdc++, an ending thread is unwound by this exception. libc++ has no such type: the end of support.cpp
// parks the thread.
#ifdef __GLIBCXX__
using ForcedUnwind = abi::__forced_unwind;
#else
struct ForcedUnwind {};
#endif

// Blocks for ever. A thread calls it if the ending interpreter unwinds it through code that must not be unwound.
[[noreturn]] void park_thread() noexcept;

// Calls a function that runs Python code. If the interpreter ends the thread meanwhile, parks the thread: nanobind
// cannot be unwound.
template <class Function>
decltype(auto) never_unwound(Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const ForcedUnwind&) {
    park_thread();
  }
}

// Returns the value of a word. Raises SafetensorError with the words that `argument` may be. where: begins the text.
template <class Value, std::size_t kWords>
Value parse_word(const char* argument, std::string_view text, const std::pair<const char*, Value> (&words)[kWords],
                 const std::string& where = {}) {
  std::string expected;
  for (const auto& [word, value] : words) {
    if (text == word) return value;
    expected += (expected.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  }
  raise(where + argument + " \"" + std::string(text) + "\" is invalid (expected one of: " + expected + ")");
}

[[nodiscard]] nb::module_ import_module(const char* name);

// The package of this extension: "safetensors", or "safetensors_cpp" in the distribution of that name. The name comes
// from the extension's module, so that the same file works in both.
void set_package(const nb::module_& extension);
// Returns "safetensors.NAME", with the name of the package.
[[nodiscard]] std::string name_in_package(std::string_view name);
// Imports a module of this package, such as "_base.options".
[[nodiscard]] nb::module_ import_own(std::string_view name);

// Releases the GIL during its lifetime. While the interpreter ends, a thread cannot take the GIL back. Python then
// unwinds the thread, which would call std::terminate here. So the thread is parked until the process ends.
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
// Holds the GIL during its lifetime, on any thread. While the interpreter ends, the thread is parked. Inside of a
// WithoutGil of this thread it takes back the saved thread state: after the end of the interpreter, PyGILState_Ensure
// would make a new state and crash.
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

// Marks that this thread runs a signal handler or a function of the caller inside of a call of `object`. If that
// function uses the same object, it must not wait for the outer call.
class ReentrancyGuard {
 public:
  explicit ReentrancyGuard(const void* object) noexcept;
  ReentrancyGuard(const ReentrancyGuard&) = delete;
  ReentrancyGuard& operator=(const ReentrancyGuard&) = delete;
  ~ReentrancyGuard();
  // Returns whether this thread is inside of such a call of the object.
  [[nodiscard]] static bool of(const void* object) noexcept;

 private:
  const void* object_;
  const ReentrancyGuard* outer_;
};

// Slots of a type whose instances only this module creates. `T.__new__(T)` raises TypeError: the instance would have no
// value.
PyObject* refuse_new(PyTypeObject* type, PyObject* args, PyObject* kwargs);
extern PyType_Slot refuse_new_slots[];

// Constructs the value of an instance at the end of its `__init__`. Raises TypeError if the instance already has a
// value: code of an argument or another thread may have called `__init__`, too.
template <class T, class... Values>
void initialize(nb::pointer_and_handle<T> self, Values&&... values) {
  if (nb::inst_ready(self.h)) raise_type_error("__init__() was called twice on one object");
  new (self.p) T(std::forward<Values>(values)...);
}

// A buffer of a Python object, held during the lifetime of this object.
class Buffer {
 public:
  // Raises TypeError for an object without the buffer protocol, BufferError for a buffer that is not contiguous. flags:
  // flags of PyObject_GetBuffer, such as PyBUF_FORMAT.
  explicit Buffer(nb::handle object, int flags = PyBUF_SIMPLE);
  // The last reference may be released on any thread, with or without the GIL.
  [[nodiscard]] static std::shared_ptr<const Buffer> share(nb::handle object);
  Buffer(Buffer&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }
  [[nodiscard]] bool read_only() const noexcept { return view_.readonly != 0; }
  // The format of an element, as in the module struct. "B" if PyBUF_FORMAT was not requested.
  [[nodiscard]] std::string_view format() const noexcept { return view_.format != nullptr ? view_.format : "B"; }
  [[nodiscard]] std::size_t itemsize() const noexcept { return static_cast<std::size_t>(view_.itemsize); }

 private:
  Py_buffer view_;
};

}  // namespace safetensors::python
