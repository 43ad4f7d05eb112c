// Makes NumPy arrays by calling numpy.ndarray(shape, dtype, buffer, offset), so that the extension needs no headers of
// NumPy.
#include <array>
#include <atomic>
#include <bit>
#include <string>

#include "framework.h"
#include "memory.h"

namespace safetensors::python {
namespace {

constexpr std::size_t kDtypes = 23;  // Dtype has the values 1 to 22

// The name of a dtype in NumPy or in ml_dtypes. Packed elements are bytes for NumPy.
struct NumpyName {
  const char* numpy = nullptr;
  const char* ml_dtypes = nullptr;
};

NumpyName numpy_name(Dtype dtype) noexcept {
  switch (dtype) {
    case Dtype::BOOL:
      return {"?"};
    case Dtype::U8:
      return {"u1"};
    case Dtype::I8:
      return {"i1"};
    case Dtype::I16:
      return {"<i2"};
    case Dtype::U16:
      return {"<u2"};
    case Dtype::F16:
      return {"<f2"};
    case Dtype::I32:
      return {"<i4"};
    case Dtype::U32:
      return {"<u4"};
    case Dtype::F32:
      return {"<f4"};
    case Dtype::F64:
      return {"<f8"};
    case Dtype::I64:
      return {"<i8"};
    case Dtype::U64:
      return {"<u8"};
    case Dtype::C64:
      return {"<c8"};
    case Dtype::BF16:
      return {nullptr, "bfloat16"};
    case Dtype::F8_E4M3:
      return {nullptr, "float8_e4m3fn"};
    case Dtype::F8_E5M2:
      return {nullptr, "float8_e5m2"};
    case Dtype::F8_E8M0:
      return {nullptr, "float8_e8m0fnu"};
    case Dtype::F8_E4M3FNUZ:
      return {nullptr, "float8_e4m3fnuz"};
    case Dtype::F8_E5M2FNUZ:
      return {nullptr, "float8_e5m2fnuz"};
    default:
      return {"u1"};
  }
}

[[noreturn]] void raise_no_ml_dtypes(Dtype dtype, const char* name) {
  raise("NumPy has no " + std::string(name) + ", which " + std::string(to_string(dtype)) +
        " needs: install the package ml_dtypes, or load with another framework");
}

class NumpyMaker final : public Maker {
 public:
  explicit NumpyMaker(bool extended_as_bits)
      : extended_as_bits_(extended_as_bits),
        numpy_(import_module("numpy")),
        ndarray_(numpy_.attr("ndarray")),
        empty_(numpy_.attr("empty")) {}
  ~NumpyMaker() override {
    for (std::atomic<PyObject*>& dtype : dtypes_) Py_XDECREF(dtype.load());
  }

  nb::object make(const Array& array) override {
    if (array.nbytes() == 0) return empty_(shape_of(array), dtype_of(array.dtype()));
    const Array usable = aligned(array, alignment_of(array.dtype()));
    return over(usable, make_memory(usable), 0);
  }
  nb::object make_inside(const Array& array, const Array& whole, nb::handle memory) override {
    const std::byte* const start = array.bytes().data();
    if (array.nbytes() == 0 || reinterpret_cast<std::uintptr_t>(start) % alignment_of(array.dtype()) != 0)
      return make(array);
    return over(array, memory, static_cast<std::size_t>(start - whole.bytes().data()));
  }

 private:
  static std::size_t alignment_of(Dtype dtype) noexcept {
    return dtype == Dtype::C64 ? 4 : bits(dtype) < 8 ? 1 : bits(dtype) / 8;
  }

  nb::object over(const Array& array, nb::handle memory, std::size_t offset) {
    const nb::object shape = shape_of(array);
    const nb::object start = own(PyLong_FromSize_t(offset));
    PyObject* const arguments[] = {nullptr, shape.ptr(), dtype_of(array.dtype()).ptr(), memory.ptr(), start.ptr()};
    return own(PyObject_Vectorcall(ndarray_.ptr(), arguments + 1, 4 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  }

  // F4 and F6 stay packed, so the last dimension counts bytes.
  static nb::object shape_of(const Array& array) {
    const unsigned width = bits(array.dtype());
    if (width >= 8) return to_tuple(array.shape());
    std::vector<std::uint64_t> shape(array.shape().begin(), array.shape().end());
    if (shape.empty() || shape.back() * width % 8 != 0) {
      raise("a tensor of " + std::string(to_string(array.dtype())) + " and shape " + to_string(array.shape()) +
            " has rows that do not fill whole bytes, so it has no packed form");
    }
    shape.back() = shape.back() * width / 8;
    return to_tuple(shape);
  }

  nb::handle dtype_of(Dtype dtype) {
    std::atomic<PyObject*>& slot = dtypes_[static_cast<std::size_t>(dtype)];
    if (PyObject* const known = slot.load(std::memory_order_acquire)) return known;
    const NumpyName name = numpy_name(dtype);
    nb::object made;
    if (name.numpy != nullptr) {
      made = numpy_.attr("dtype")(name.numpy);
    } else if (extended_as_bits_) {
      made = numpy_.attr("dtype")(bits(dtype) == 8 ? "u1" : "<u2");
    } else {
      // Unlike the dtypes of NumPy, those of ml_dtypes exist in the byte order of the machine only.
      if (std::endian::native != std::endian::little && bits(dtype) > 8)
        raise("ml_dtypes cannot hold " + std::string(to_string(dtype)) +
              " in the byte order of files on a big-endian machine");
      nb::object types;
      try {
        types = import_module("ml_dtypes");
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_ImportError)) throw;
      }
      if (!types.is_valid() || !nb::hasattr(types, name.ml_dtypes)) raise_no_ml_dtypes(dtype, name.ml_dtypes);
      made = numpy_.attr("dtype")(types.attr(name.ml_dtypes));
    }
    PyObject* other = nullptr;
    if (slot.compare_exchange_strong(other, made.ptr())) return made.release();
    return other;
  }

  bool extended_as_bits_;
  nb::object numpy_;
  nb::object ndarray_;
  nb::object empty_;
  std::array<std::atomic<PyObject*>, kDtypes> dtypes_{};
};

}  // namespace

std::shared_ptr<Maker> make_numpy_maker(bool extended_as_bits) {
  return std::make_shared<NumpyMaker>(extended_as_bits);
}

const char* extended_name(Dtype dtype) noexcept {
  return numpy_name(dtype).ml_dtypes;
}

}  // namespace safetensors::python
