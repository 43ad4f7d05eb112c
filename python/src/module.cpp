// Defines the extension module safetensors._native from its parts, for one interpreter of the process.
#include "module.h"

#include <safetensors/c.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/byte_size.h"
#include "base/glob.h"

namespace safetensors::python {
namespace {

// Rules about texts that the package shares with the command: patterns of names, paths, sizes.
nb::list matching(nb::handle pattern, nb::handle names) {
  nb::list found;
  const std::optional<std::string_view> glob = to_name(pattern, "pattern");
  if (!glob) return found;
  std::size_t round = 0;
  for (const nb::handle name : nb::iter(names)) {
    check_signals(round++);
    const std::optional<std::string_view> text = to_name(name, "names");
    if (text && base::glob_match(*glob, *text)) found.append(name);
  }
  return found;
}

nb::object size_digits(nb::handle text) {
  const std::optional<std::string_view> utf8 = to_name(text, "text");
  const std::optional<std::string> digits = utf8 ? base::size_digits(*utf8) : std::nullopt;
  return digits ? to_str(*digits) : nb::none();
}

// Defines four functions. _is_pattern tells whether a text holds `*`, `?` or `[`. _matching returns the names that a
// pattern of the command matches, in their order. _path_text returns the str of a path, or raises a TypeError that
// names the argument, or a ValueError. _size_digits returns the number of bytes that a text such as "1.5GB" stands for,
// as decimal digits, or None.
void define_texts(nb::module_& module) {
  module.def(
      "_is_pattern",
      [](nb::handle text) {
        const std::optional<std::string_view> utf8 = to_name(text, "text");
        return utf8 && base::is_glob(*utf8);
      },
      nb::arg("text").none());
  module.def("_matching", &matching, nb::arg("pattern").none(), nb::arg("names").none());
  module.def(
      "_path_text",
      [](nb::handle path, const std::string& argument, const std::string& expected) {
        return from_path(to_path(path, argument, expected));
      },
      nb::arg("path").none(), nb::arg("argument"), nb::arg("expected"));
  module.def("_size_digits", &size_digits, nb::arg("text").none());
}

}  // namespace
}  // namespace safetensors::python

// The entry that nanobind defines gets another name, because ours calls it.
#define PyInit__native init_by_nanobind
NB_MODULE(_native, module) {
  using namespace safetensors::python;
  set_package(module);
  module.doc() = "The extension of safetensors, in C++. Use the package safetensors.";
  // Tests turn warnings on. For users they are noise: a thread may still hold an object when the program ends.
  nb::set_leak_warnings(false);
  module.def("_set_leak_warnings", &nb::set_leak_warnings, nb::arg("enabled"));
  module.attr("_version") = safetensors_version_string();
  define_errors(module);
  define_frameworks(module);
  define_tensor_spec(module);
  define_serialize(module);
  define_reading(module);
  define_prefetch(module);
  define_checkpoint_layout(module);
  define_writer(module);
  define_texts(module);
  for (const char* const name :
       {"safe_open", "PySafeSlice", "PrefetchLoader", "TensorStream", "TensorMeta", "TensorSpec"})
    publish_methods(module.attr(name));
}
#undef PyInit__native

namespace {

constexpr std::int64_t kNone = -1;
std::atomic<std::int64_t> owner{kNone};  // the first interpreter that imported the module

// nanobind keeps its types in globals. If a second interpreter made them again, calls in the first one would fail.
int refuse_second(PyObject*) {
  std::int64_t first = kNone;
  const std::int64_t mine = PyInterpreterState_GetID(PyInterpreterState_Get());
  if (owner.compare_exchange_strong(first, mine) || first == mine) return 0;
  PyErr_SetString(PyExc_ImportError,
                  "safetensors is imported in another interpreter of this process, and it works in one only (import it"
                  " in one interpreter, or use processes; for mod_wsgi: WSGIApplicationGroup %{GLOBAL})");
  return -1;
}

}  // namespace

extern "C" NB_EXPORT PyObject* PyInit__native() {
  static PyModuleDef_Slot slots[8] = {{Py_mod_exec, reinterpret_cast<void*>(&refuse_second)}};
  auto* const definition = reinterpret_cast<PyModuleDef*>(init_by_nanobind());
  if (definition == nullptr) return nullptr;
  if (definition->m_slots != slots) {
    PyModuleDef_Slot* last = definition->m_slots;
    while (last->slot != 0) ++last;
    std::copy(definition->m_slots, last, slots + 1);
    definition->m_slots = slots;
  }
#ifdef Py_mod_multiple_interpreters
  // Python itself refuses isolated interpreters, without the remedy. So it leaves the second one to us.
  for (PyModuleDef_Slot& each : slots)
    if (each.slot == Py_mod_multiple_interpreters && owner != kNone) each.value = Py_MOD_PER_INTERPRETER_GIL_SUPPORTED;
#endif
  return reinterpret_cast<PyObject*>(definition);
}
