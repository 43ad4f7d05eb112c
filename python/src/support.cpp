// Errors are made as Python objects, so that they carry attributes and notes. The GIL is tracked per thread: a WithGil
// must know whether this thread has released it.
#include "support.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

namespace safetensors::python {
namespace {

// The classes SafetensorError and MissingTensorError. References that are never released.
PyObject* safetensor_error = nullptr;
PyObject* missing_tensor_error = nullptr;

// The name of the package. Never destroyed: threads may still import modules while the program ends.
std::string& package() {
  static auto* const name = new std::string("safetensors");
  return *name;
}

// The innermost WithoutGil of this thread, or null while it holds the GIL.
constinit thread_local const WithoutGil* innermost = nullptr;
constinit thread_local const ReentrancyGuard* reentrancy_guards = nullptr;

void set_attribute(nb::handle object, const char* name, nb::handle value) {
  if (PyObject_SetAttrString(object.ptr(), name, value.ptr()) != 0) PyErr_Clear();
}

// Programs compare the text, so the path is not part of it. From Python 3.11 on a note shows it in tracebacks.
void add_details(nb::handle exception, const Error& error) {
  set_attribute(exception, "code", to_str(to_string(error.code)));
  if (error.offset != Error::kNoOffset) set_attribute(exception, "offset", nb::int_(error.offset));
  if (error.os_error != 0) set_attribute(exception, "errno", nb::int_(error.os_error));
  if (error.path.empty() || !nb::hasattr(exception, "add_note")) return;
  exception.attr("add_note")(to_str("file: " + printable(error.path)));
}

// The prefix with the path for Python 3.10, which has no notes. Used if the caller named no file, or several.
std::string unnoted_path(const Error& error) {
  if (error.path.empty() || nb::hasattr(safetensor_error, "add_note")) return "";
  std::string path = printable(error.path);
  if (error.message.find(path) != std::string::npos) return "";
  return path + ": ";
}

[[noreturn]] void throw_exception(nb::handle type, nb::handle exception) {
  PyErr_SetObject(type.ptr(), exception.ptr());
  throw nb::python_error();
}

}  // namespace

void park_thread() noexcept {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

nb::module_ import_module(const char* name) {
  return never_unwound([name] { return nb::module_::import_(name); });
}

void set_package(const nb::module_& extension) {
  const auto name = nb::cast<std::string>(extension.attr("__name__"));
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos) package() = name.substr(0, dot);
}

std::string name_in_package(std::string_view name) {
  return package() + '.' + std::string(name);
}

nb::module_ import_own(std::string_view name) {
  return import_module(name_in_package(name).c_str());
}

bool interrupted() {
  const WithGil acquired;
  return PyErr_CheckSignals() != 0;
}

WithoutGil::WithoutGil() noexcept : outer_(std::exchange(innermost, this)), state_(PyEval_SaveThread()) {}

WithoutGil::~WithoutGil() {
  innermost = outer_;
  try {
    PyEval_RestoreThread(state_);
  } catch (const ForcedUnwind&) {
    park_thread();
  }
}

WithGil::WithGil() noexcept : released_(std::exchange(innermost, nullptr)) {
  try {
    if (released_ != nullptr)
      PyEval_RestoreThread(released_->state_);
    else
      state_ = PyGILState_Ensure();
  } catch (const ForcedUnwind&) {
    park_thread();
  }
}

WithGil::~WithGil() {
  innermost = released_;
  if (released_ != nullptr)
    released_->state_ = PyEval_SaveThread();
  else
    PyGILState_Release(state_);
}

ReentrancyGuard::ReentrancyGuard(const void* object) noexcept
    : object_(object), outer_(std::exchange(reentrancy_guards, this)) {}

ReentrancyGuard::~ReentrancyGuard() {
  reentrancy_guards = outer_;
}

bool ReentrancyGuard::of(const void* object) noexcept {
  for (const ReentrancyGuard* it = reentrancy_guards; it != nullptr; it = it->outer_) {
    if (it->object_ == object) return true;
  }
  return false;
}

void define_errors(nb::module_& module) {
  nb::dict unknown;  // attributes of the class: None for instances that do not set them
  for (const char* const name : {"code", "offset", "errno"}) unknown[name] = nb::none();
  safetensor_error = PyErr_NewExceptionWithDoc(
      name_in_package("_safetensors_rust.SafetensorError").c_str(),
      "A file that breaks the format, or a request that cannot be met.\n\n"
      "The attributes `code` (a str such as \"invalid_offset\"), `offset` (in bytes from the start of the file)\n"
      "and `errno` give details. Each is None if it is unknown.",
      nullptr, unknown.ptr());
  if (safetensor_error == nullptr) throw nb::python_error();
  module.attr("SafetensorError") = nb::handle(safetensor_error);

  // `KeyError.__str__` would show the repr of the text.
  nb::dict members;
  members["__str__"] = nb::handle(PyExc_BaseException).attr("__str__");
  members["name"] = nb::none();
  const nb::object bases = nb::make_tuple(nb::handle(safetensor_error), nb::handle(PyExc_KeyError));
  missing_tensor_error =
      PyErr_NewExceptionWithDoc(name_in_package("MissingTensorError").c_str(),
                                "A name that is not among the tensors. The attribute `name` is that name.\n\n"
                                "It is a SafetensorError, and a KeyError for programs that expect one of a mapping.",
                                bases.ptr(), members.ptr());
  if (missing_tensor_error == nullptr) throw nb::python_error();
  module.attr("MissingTensorError") = nb::handle(missing_tensor_error);
}

void raise(std::string_view text, const Error* error) {
  const nb::object exception = nb::handle(safetensor_error)(to_str(text));
  if (error != nullptr) add_details(exception, *error);
  throw_exception(safetensor_error, exception);
}

void raise_missing(std::string_view text, nb::handle name, const Error* error) {
  const nb::object exception = nb::handle(missing_tensor_error)(to_str(text));
  if (error != nullptr) add_details(exception, *error);
  set_attribute(exception, "code", to_str(to_string(Errc::not_found)));
  set_attribute(exception, "name", name);
  throw_exception(missing_tensor_error, exception);
}

void raise_type_error(std::string_view text) {
  throw_exception(PyExc_TypeError, nb::handle(PyExc_TypeError)(to_str(text)));
}

void raise_not(const char* argument, nb::handle object, const char* wanted) {
  raise_type_error("argument '" + std::string(argument) + "': '" + name_of_type(object) +
                   "' object is not an instance of '" + wanted + "'");
}

void raise_refused(const nb::python_error& error, const std::string& prefix) {
  const bool kept = error.matches(PyExc_MemoryError) || error.matches(safetensor_error);
  if (kept || !error.matches(PyExc_Exception)) throw;
  const nb::object cause = nb::borrow(error.value());
  try {
    raise(prefix + nb::cast<std::string>(nb::str(cause)));
  } catch (nb::python_error& made) {
    PyException_SetCause(made.value().ptr(), nb::object(cause).release().ptr());
    throw;
  }
}

void raise_read_error(const Error& error, std::string_view prefix, std::string_view given) {
  const std::string_view path = given.empty() ? std::string_view(error.path) : given;
  if (error.code == Errc::out_of_memory) {
    throw_exception(PyExc_MemoryError, nb::handle(PyExc_MemoryError)(to_str(error.message)));
  }
  if (error.code == Errc::overlapping_destination) throw nb::value_error(error.message.c_str());
  const bool irregular = error.code == Errc::not_regular_file;
  if (error.os_error == 0 && !irregular)
    raise((given.empty() ? unnoted_path(error) : "") + std::string(prefix) + error.message, &error);
  if (error.os_error == ENOENT) {
    // A path from the caller is shown as it is. A path from an index may be hostile, so it is escaped.
    const std::string shown = given.empty() ? printable(path) : std::string(path);
    const std::string hint = error.message.substr(std::min(error.message.find(" ("), error.message.size()));
    const nb::object exception =
        nb::handle(PyExc_FileNotFoundError)(to_str("No such file or directory: " + shown + hint));
    set_attribute(exception, "errno", nb::int_(ENOENT));
    throw_exception(PyExc_FileNotFoundError, exception);
  }
  const int number = error.os_error != 0 ? error.os_error : ENODEV;
  const nb::object text = to_str(irregular ? error.message : std::string(std::strerror(number)));
  // OSError(errno, ...) makes an object of the matching subclass.
  const nb::object exception = nb::handle(PyExc_OSError)(nb::int_(number), text, from_path(path));
  throw_exception(exception.type(), exception);
}

std::vector<std::pair<nb::object, nb::object>> dict_items(nb::handle dict) {
  const nb::object list = own(PyDict_Items(dict.ptr()));
  std::vector<std::pair<nb::object, nb::object>> items;
  items.reserve(nb::len(list));
  for (const nb::handle pair : nb::iter(list)) items.emplace_back(nb::object(pair[0]), nb::object(pair[1]));
  return items;
}

nb::object find_item(nb::handle dict, const char* key) {
  const nb::object name = to_str(key);
  nb::object value = nb::steal(PyObject_GetItem(dict.ptr(), name.ptr()));
  if (value.is_valid()) return value;
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) throw nb::python_error();
  PyErr_Clear();
  return value;
}

nb::object to_str(std::string_view utf8) {
  return own(PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "surrogateescape"));
}

std::string_view from_str(nb::handle object, const char* argument) {
  if (!PyUnicode_Check(object.ptr())) raise_not(argument, object, "str");
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (bytes == nullptr) throw nb::python_error();
  return {bytes, static_cast<std::size_t>(size)};
}

std::optional<std::string_view> to_name(nb::handle object, const char* argument) {
  try {
    return from_str(object, argument);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_UnicodeEncodeError)) throw;
    return std::nullopt;
  }
}

std::string name_of_type(nb::handle object) {
  return nb::cast<std::string>(object.type().attr("__name__"));
}

std::string to_path(nb::handle object, std::string_view argument, std::string_view expected) {
  constexpr const char* kBytesHint =
      " (safetensors.numpy.load, safetensors.torch.load and so on take the bytes of a file)";
  const std::string start = "argument '" + std::string(argument) + "': ";
  const nb::object path = nb::steal(PyOS_FSPath(object.ptr()));
  if (!path.is_valid()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
    PyErr_Clear();
    const bool content = PyByteArray_Check(object.ptr()) || PyMemoryView_Check(object.ptr());
    raise_type_error(start + "expected " + std::string(expected) + ", not " + name_of_type(object) +
                     (content ? kBytesHint : ""));
  }
  PyObject* converted = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &converted) == 0) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_UnicodeError))
      throw nb::python_error();
    PyErr_Clear();  // the content of a file, given instead of its path, has null bytes
    const char* const hint = PyBytes_Check(object.ptr()) ? kBytesHint : "";
    throw nb::value_error((start + "found a null byte, expected a path" + hint).c_str());
  }
  const nb::object bytes = nb::steal(converted);
  char* data = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.ptr(), &data, &size) != 0) throw nb::python_error();
  return {data, static_cast<std::size_t>(size)};
}

std::vector<std::string> to_paths(nb::handle paths) {
  if (PyUnicode_Check(paths.ptr())) return {to_path(paths)};
  std::vector<std::string> list;
  for (const nb::handle path : nb::iter(paths)) list.push_back(to_path(path));
  return list;
}

nb::object from_path(std::string_view path) {
  return own(PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size())));
}

nb::object to_tuple(ShapeView shape) {
  nb::object tuple = own(PyTuple_New(static_cast<Py_ssize_t>(shape.size())));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const nb::object dim = own(PyLong_FromUnsignedLongLong(shape[i]));
    if (PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), dim.inc_ref().ptr()) != 0) throw nb::python_error();
  }
  return tuple;
}

nb::object to_list(ShapeView shape) {
  nb::list list;
  for (const std::uint64_t dim : shape) list.append(nb::int_(dim));
  return list;
}

std::uint64_t to_unsigned(nb::handle object) {
  const nb::object number = own(PyNumber_Index(object.ptr()));
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (value != static_cast<unsigned long long>(-1) || !PyErr_Occurred()) return value;
  PyErr_Clear();
  const bool negative = PyObject_RichCompareBool(number.ptr(), nb::int_(0).ptr(), Py_LT) == 1;
  const char* const text = negative ? "can't convert negative int to unsigned" : "int too big to convert";
  throw_exception(PyExc_OverflowError, nb::handle(PyExc_OverflowError)(text));
}

PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "cannot create instances of %R", type);
  return nullptr;
}

PyType_Slot refuse_new_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&refuse_new)}, {0, nullptr}};

Buffer::Buffer(nb::handle object, int flags) {
  if (PyObject_GetBuffer(object.ptr(), &view_, flags) == 0) return;
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    if (!PyErr_ExceptionMatches(PyExc_BufferError)) throw nb::python_error();
    PyErr_Clear();
    PyErr_Format(PyExc_BufferError, "a contiguous buffer is required, this '%s' is not: copy it with bytes(...)",
                 name_of_type(object).c_str());
    throw nb::python_error();
  }
  PyErr_Clear();
  raise_type_error("a bytes-like object is required, not '" + name_of_type(object) + "'");
}

Buffer::~Buffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

std::shared_ptr<const Buffer> Buffer::share(nb::handle object) {
  return {new Buffer(object), [](const Buffer* buffer) {
            if (!nb::is_alive()) return;
            const WithGil acquired;
            delete buffer;
          }};
}

}  // namespace safetensors::python

// Parks a thread that the ending interpreter unwinds, where the C++ library is libc++.
//
// Before version 3.14, Python ends a daemon thread by pthread_exit(). glibc then unwinds the thread with the unwinder
// of libgcc. Code with libc++ has an unwinder of its own, whose functions do not understand the context of the other
// one, and no type that a catch block could name. So the linker puts this function before the personality routine of
// every C++ frame of the extension (python/CMakeLists.txt): the first frame that a forced unwinding reaches parks the
// thread.
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
