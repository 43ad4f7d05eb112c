// The class _Memory: keeps an Array alive and shows its bytes through the buffer protocol.
#include "memory.h"

namespace safetensors::python {
namespace {

struct Memory {
  Array array;
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  if (!nb::inst_ready(self)) {
    view->obj = nullptr;
    PyErr_SetString(PyExc_BufferError, "this object holds no memory");
    return -1;
  }
  const Array& array = nb::inst_ptr<Memory>(nb::handle(self))->array;
  const std::span<const std::byte> bytes = array.bytes();
  static std::byte nothing{};
  void* const start = bytes.empty() ? &nothing : const_cast<std::byte*>(bytes.data());
  return PyBuffer_FillInfo(view, self, start, static_cast<Py_ssize_t>(bytes.size()), array.writable() ? 0 : 1, flags);
}

PyType_Slot memory_slots[] = {{Py_tp_new, reinterpret_cast<void*>(&refuse_new)},
                              {Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)},
                              {0, nullptr}};

}  // namespace

void define_memory(nb::module_& module) {
  nb::class_<Memory>(module, "_Memory", nb::type_slots(memory_slots), "The memory of arrays, which keep it alive.");
}

nb::object make_memory(Array array) {
  return nb::cast(Memory{std::move(array)});
}

}  // namespace safetensors::python
