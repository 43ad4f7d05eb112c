// Parses names of frameworks and devices, has the table of their dtypes, and chooses the Maker. NumPy and torch have a
// Maker in C++. For the others a function of the Python package converts NumPy arrays. C++ and the package take all
// names of dtypes from the table here. The names of the format and the bits of an element come from the library.
// torch.device is known by its attributes, so that torch need not be imported.
#include "framework.h"

#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "format/dtype/cast.h"
#include "module.h"

namespace safetensors::python {
namespace {

constexpr std::array<std::pair<std::string_view, Framework>, 11> kFrameworks = {{
    {"pt", Framework::torch},
    {"torch", Framework::torch},
    {"pytorch", Framework::torch},
    {"np", Framework::numpy},
    {"numpy", Framework::numpy},
    {"tf", Framework::tensorflow},
    {"tensorflow", Framework::tensorflow},
    {"jax", Framework::flax},
    {"flax", Framework::flax},
    {"mlx", Framework::mlx},
    {"paddle", Framework::paddle},
}};

// The names in error messages and in safetensors._arrays.converters. Index: a Framework.
constexpr std::array<const char*, 6> kNames = {"numpy", "pytorch", "tensorflow", "flax", "mlx", "paddle"};

// Makes NumPy arrays and converts them by a function of the Python package. MLX and Paddle work without ml_dtypes:
// their functions receive the bits as unsigned integers, and the name of the dtype.
class ConvertingMaker final : public Maker {
 public:
  ConvertingMaker(Framework framework, const Device& device)
      : bits_(framework == Framework::mlx || framework == Framework::paddle),
        numpy_(make_numpy_maker(bits_)),
        convert_(import_own("_arrays.converters").attr("converter")(name_of(framework), to_str(device.name))) {}
  nb::object make(const Array& array) override { return converted(array.dtype(), numpy_->make(array)); }
  nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) override {
    return converted(array.dtype(), numpy_->make_inside(array, whole, memory));
  }

 private:
  nb::object converted(Dtype dtype, const nb::object& made) {
    const char* const name = bits_ ? extended_name(dtype) : nullptr;
    return never_unwound([&] { return name == nullptr ? convert_(made) : convert_(made, name); });
  }

  bool bits_;
  std::shared_ptr<Maker> numpy_;
  nb::object convert_;
};

// The devices with an ordinal: "cuda" is cuda:0.
constexpr std::array<std::string_view, 7> kNumbered = {"cuda", "npu", "xpu", "xla", "mlu", "musa", "hpu"};

[[noreturn]] void raise_invalid(std::string_view shown) {
  raise("device " + std::string(shown) + " is invalid");
}

Device numbered(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (const std::string_view known : kNumbered) {
    if (kind != known) continue;
    unsigned ordinal = 0;
    if (colon != std::string_view::npos) {
      const std::string_view digits = text.substr(colon + 1);
      const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
      if (problem != std::errc() || end != digits.data() + digits.size()) raise_invalid(text);
    }
    const std::string name = std::string(kind) + ":" + std::to_string(ordinal);
    return {name, name};
  }
  raise_invalid(text);
}

Device parse_text(std::string_view text) {
  if (text == "cpu" || text == "cpu:0") return {};
  if (text == "mps" || text == "mps:0") return {"mps", "mps"};
  if (text.starts_with("mps:")) raise("device " + std::string(text) + " is invalid: only mps or mps:0 is supported");
  return numbered(text);
}

// Errors list the names in this order.
constexpr FrameworkDtype kDtypes[] = {
    {Dtype::BOOL, "bool", "?", TorchImport::reinterpret},
    {Dtype::I8, "int8", "i1", TorchImport::direct},
    {Dtype::U8, "uint8", "u1", TorchImport::direct},
    {Dtype::I16, "int16", "<i2", TorchImport::direct},
    {Dtype::U16, "uint16", "<u2", TorchImport::reinterpret},
    {Dtype::I32, "int32", "<i4", TorchImport::direct},
    {Dtype::U32, "uint32", "<u4", TorchImport::reinterpret},
    {Dtype::I64, "int64", "<i8", TorchImport::direct},
    {Dtype::U64, "uint64", "<u8", TorchImport::reinterpret},
    {Dtype::F16, "float16", "<f2", TorchImport::direct},
    {Dtype::F32, "float32", "<f4", TorchImport::direct},
    {Dtype::F64, "float64", "<f8", TorchImport::direct},
    {Dtype::BF16, "bfloat16", nullptr, TorchImport::direct},
    {Dtype::F8_E4M3, "float8_e4m3fn", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E4M3FNUZ, "float8_e4m3fnuz", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E5M2, "float8_e5m2", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E5M2FNUZ, "float8_e5m2fnuz", nullptr, TorchImport::reinterpret},
    {Dtype::F8_E8M0, "float8_e8m0fnu", nullptr, TorchImport::reinterpret},
    {Dtype::F4, "float4_e2m1fn_x2", "u1", TorchImport::reinterpret, 2},
    {Dtype::C64, "complex64", "<c8", TorchImport::direct},
    {Dtype::F6_E2M3, "float6_e2m3fn", "u1", TorchImport::none},
    {Dtype::F6_E3M2, "float6_e3m2fn", "u1", TorchImport::none},
};

nb::list dtypes() {
  if (std::size(kDtypes) != all_dtypes().size()) throw std::logic_error("framework.cpp lacks a dtype");
  nb::list list;
  for (const Dtype dtype : all_dtypes())
    list.append(nb::make_tuple(to_str(to_string(dtype)), to_str(framework_dtype(dtype).name), bits(dtype),
                               format::castable(dtype, Dtype::F32), format::castable(Dtype::F32, dtype),
                               format::castable(dtype, Dtype::I64)));
  return list;
}

// Keeps an Array alive and shows its bytes through the buffer protocol.
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

Framework parse_framework(std::string_view name) {
  for (const auto& [known, framework] : kFrameworks) {
    if (known == name) return framework;
  }
  raise("framework " + std::string(name) + " is invalid");
}

void check_device(Framework framework, const Device& device) {
  if (device.cpu() || framework == Framework::torch || framework == Framework::paddle) return;
  raise("Device " + device.given + " is not supported for framework " + name_of(framework));
}

const char* name_of(Framework framework) noexcept {
  return kNames[static_cast<std::size_t>(framework)];
}

std::shared_ptr<Maker> make_maker(Framework framework, const Device& device) {
  switch (framework) {
    case Framework::numpy:
      return make_numpy_maker();
    case Framework::torch:
      return make_torch_maker(device);
    default:
      return std::make_shared<ConvertingMaker>(framework, device);
  }
}

nb::object make_on(const Device& device, Maker& maker, const Array& array, const std::string& prefix) {
  if (device.cpu()) return maker.make(array);
  try {
    return maker.make(array);
  } catch (const nb::python_error& error) {
    raise_refused(error, prefix);
  }
}

std::shared_ptr<Maker> make_probed_maker(Framework framework, const Device& device, const std::string& prefix) {
  std::shared_ptr<Maker> maker = make_maker(framework, device);
  const Array nothing(Dtype::U8, Shape({0}), {}, nullptr, MemoryKind::owned);
  if (!device.cpu()) (void)make_on(device, *maker, nothing, prefix);
  return maker;
}

Array aligned(const Array& array, std::size_t alignment) {
  const std::span<const std::byte> bytes = array.bytes();
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment == 0) return array;
  std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new (bytes.size(), std::align_val_t{64})),
                                  [](std::byte* p) noexcept { ::operator delete (p, std::align_val_t{64}); });
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<std::byte> own_bytes(copy.get(), bytes.size());
  return Array(array.dtype(), array.shape(), own_bytes, std::move(copy), MemoryKind::owned);
}

Device parse_device(nb::handle device) {
  if (device.is_none()) return {};
  if (PyUnicode_Check(device.ptr())) return parse_text(from_str(device, "device"));
  if (PyIndex_Check(device.ptr()) != 0 && !PyBool_Check(device.ptr())) {
    const nb::object index = own(PyNumber_Index(device.ptr()));
    int overflow = 0;
    const long ordinal = PyLong_AsLongAndOverflow(index.ptr(), &overflow);
    const std::string shown = nb::cast<std::string>(nb::str(index));
    if (overflow != 0 || ordinal < 0) raise_invalid(shown);
    return {shown, "cuda:" + shown};
  }
  if (name_of_type(device) == "device" && nb::hasattr(device, "type") && nb::hasattr(device, "index"))
    return parse_text(nb::cast<std::string>(nb::str(device)));
  raise_invalid(nb::cast<std::string>(nb::repr(device)));
}

const FrameworkDtype& framework_dtype(Dtype dtype) noexcept {
  for (const FrameworkDtype& known : kDtypes)
    if (known.dtype == dtype) return known;
  return kDtypes[0];  // never: the table has all dtypes that a tensor is made of
}

const FrameworkDtype& framework_dtype(std::string_view name) {
  for (const FrameworkDtype& dtype : kDtypes) {
    if (dtype.name == name) return dtype;
  }
  std::string text = "Unknown dtype \"" + std::string(name) + "\". Supported dtypes: ";
  for (const FrameworkDtype& dtype : kDtypes) {
    if (&dtype != kDtypes) text += ", ";
    text += dtype.name;
  }
  raise(text);
}

nb::object make_memory(Array array) {
  return nb::cast(Memory{std::move(array)});
}

nb::handle Maker::dtype_of(Dtype dtype) {
  std::atomic<PyObject*>& slot = dtypes_[static_cast<std::size_t>(&framework_dtype(dtype) - kDtypes)];
  if (PyObject* const made_before = slot.load(std::memory_order_acquire)) return made_before;
  nb::object made = find_dtype(dtype);
  PyObject* other = nullptr;
  if (slot.compare_exchange_strong(other, made.ptr())) return made.release();
  return other;
}

void define_frameworks(nb::module_& module) {
  // (name in the format, name in frameworks, bits of an element, whether it can be cast to floats, whether floats can
  // be cast to it, whether it can be cast to integers) of every dtype.
  module.def("_dtypes", &dtypes);
  nb::class_<Memory>(module, "_Memory", nb::type_slots(memory_slots), "The memory of arrays, which keep it alive.");
}

}  // namespace safetensors::python
