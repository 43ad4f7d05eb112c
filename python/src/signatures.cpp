// nanobind's methods are objects of a type that `inspect` does not know. Each method is therefore wrapped in a method
// descriptor of the interpreter, whose docstring carries the signature in the form of built-in methods
// ("name($self, plan=None)\n--\n\n..."). The C function that a descriptor calls receives only `self` and the arguments,
// so every method has a C function of its own: one instance of a template per slot of a table. Some versions of
// `inspect` (3.10, 3.13) cannot read such an `__init__`. So a constructor becomes a function of Python, which
// subclasses call. nanobind itself does not need it to make an object. `inspect` of 3.11.0 to 3.11.3 stops at
// `__new__`, and then reads the docstring of the class. So that begins with the signature, too.
#include <nanobind/eval.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <new>
#include <stdexcept>

#include "module.h"

namespace safetensors::python {
namespace {

constexpr std::size_t kMaxMethods = 128;
constexpr std::size_t kMaxArguments = 16;  // a call has more with *args only; these go through a vector

struct Method {
  std::string name, text;
  PyMethodDef definition{};
};

std::deque<Method>& methods() {
  // A deque, because the interpreter keeps pointers to the definitions. It is never destroyed: threads may still call
  // methods while the program ends.
  static auto* const all = new std::deque<Method>;
  return *all;
}
// The methods of nanobind, by slot. These are strong references. A capsule in the class releases them when the class is
// destroyed, and sets them to null.
std::array<PyObject*, kMaxMethods> targets{};
constexpr const char* kOwner = "safetensors methods";

struct SlotRange {
  std::size_t begin, end;
};

void release_methods(PyObject* capsule) {
  const auto* const range = static_cast<const SlotRange*>(PyCapsule_GetPointer(capsule, kOwner));
  for (std::size_t slot = range->begin; slot < range->end; ++slot) Py_CLEAR(targets[slot]);
  delete range;
}

PyObject* forward(PyObject* target, PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  if (target == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "a method of a class that is being destroyed");
    return nullptr;
  }
  const Py_ssize_t named = keywords == nullptr ? 0 : PyTuple_Size(keywords);
  const auto total = static_cast<std::size_t>(count + named);
  std::array<PyObject*, kMaxArguments + 2> few;
  std::vector<PyObject*> many;
  PyObject** stack = few.data();
  if (total > kMaxArguments) {
    many.resize(total + 2);
    stack = many.data();
  }
  stack[0] = nullptr;
  stack[1] = self;
  std::copy_n(arguments, total, stack + 2);
  const auto positional = static_cast<std::size_t>(count + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET;
  const nb::object held = nb::borrow(target);  // the call may destroy the class, which owns the target
  return PyObject_Vectorcall(target, stack + 1, positional, keywords);
}

template <std::size_t Slot>
PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  try {
    return forward(targets[Slot], self, arguments, count, keywords);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
}

using Caller = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
template <std::size_t... Slots>
constexpr std::array<Caller, sizeof...(Slots)> make_callers(std::index_sequence<Slots...>) {
  return {&call<Slots>...};
}
constexpr std::array<Caller, kMaxMethods> kCallers = make_callers(std::make_index_sequence<kMaxMethods>());

// The end of the parameter that begins at `begin`: the next comma outside of brackets.
std::size_t end_of_parameter(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(') ++depth;
    if (text[i] == ']' || text[i] == ')') --depth;
    if (text[i] == ',' && depth == 0) return i;
  }
  return text.size();
}

// Turns "def take(self, name: object | None, n: int = \0) -> object", its defaults and its documentation into
// "($self, name, n=8)\n--\n\nDocumentation".
std::string text_signature(nb::handle method) {
  const nb::object overload = nb::object(method.attr("__nb_signature__")[nb::int_(0)]);
  const auto signature = nb::cast<std::string>(nb::object(overload[nb::int_(0)]));
  const std::size_t open = signature.find('(');
  const std::size_t arrow = signature.rfind(") -> ");
  const std::string_view inner = std::string_view(signature).substr(open + 1, arrow - open - 1);
  std::string text = "(";
  for (std::size_t begin = 0; begin < inner.size();) {
    const std::size_t end = end_of_parameter(inner, begin);
    const std::string_view parameter = inner.substr(begin, end - begin);
    const std::string_view name = parameter.substr(0, parameter.find_first_of(":= "));
    text += text.size() > 1 ? ", " : "";
    text += name == "self" ? "$self" : std::string(name);
    if (const std::size_t mark = parameter.find("= \\"); mark != std::string_view::npos) {
      const nb::object number = nb::int_(std::stoi(std::string(parameter.substr(mark + 3))));
      text += "=" + nb::cast<std::string>(nb::repr(nb::object(overload[nb::int_(2)][number])));
    }
    begin = std::min(end + 2, inner.size());
  }
  const nb::object documentation = nb::object(overload[nb::int_(1)]);
  return text + ")\n--\n\n" + (documentation.is_none() ? "" : nb::cast<std::string>(documentation));
}

nb::object make_init(nb::handle type, nb::handle method) {
  std::string text = text_signature(method);
  text = "def __init__(" + text.substr(2, text.find('\n') - 2);  // without the "$"
  nb::dict scope;
  scope["__name__"] = type.attr("__module__");
  scope["init"] = method;
  scope["__builtins__"] = import_module("builtins");
  nb::exec(nb::str((text + ":\n  given = locals()\n  init(given.pop('self'), **given)").c_str()), scope);
  const nb::object made = scope.attr("pop")("__init__");
  made.attr("__qualname__") = nb::cast<std::string>(type.attr("__qualname__")) + ".__init__";
  return made;
}

nb::object make_descriptor(nb::handle type, nb::handle method) {
  const std::size_t slot = methods().size();
  if (slot == kMaxMethods) throw std::length_error("kMaxMethods is too small");
  Method& made = methods().emplace_back();
  targets[slot] = method.inc_ref().ptr();
  made.name = nb::cast<std::string>(method.attr("__name__"));
  made.text = made.name + text_signature(method);
  auto* const function = reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(kCallers[slot]));
  made.definition = {made.name.c_str(), function, METH_FASTCALL | METH_KEYWORDS, made.text.c_str()};
  return own(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &made.definition));
}

}  // namespace

void publish_methods(nb::handle type) {
  auto range = std::make_unique<SlotRange>(SlotRange{methods().size(), methods().size()});
  const nb::object names = own(PyMapping_Keys(nb::object(type.attr("__dict__")).ptr()));
  for (const nb::handle name : nb::iter(names)) {
    const nb::object method = nb::object(type.attr("__dict__")[name]);
    if (!nb::hasattr(method, "__nb_signature__")) continue;
    const bool init = nb::cast<std::string>(name) == "__init__";
    nb::setattr(type, name, init ? make_init(type, method) : make_descriptor(type, method));
  }
  range->end = methods().size();
  const nb::object owner = own(PyCapsule_New(range.get(), kOwner, &release_methods));
  (void)range.release();
  nb::setattr(type, "_methods", owner);
}

}  // namespace safetensors::python
