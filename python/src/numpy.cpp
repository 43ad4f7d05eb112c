// Makes NumPy arrays by calling numpy.ndarray(shape, dtype, buffer, offset), so that the extension needs no headers of
// NumPy.
#include <bit>
#include <string>

#include "framework.h"

namespace safetensors::python {
namespace {

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
  // New memory is aligned, so it is never copied.
  bool reads(Dtype) const noexcept override { return false; }

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

  nb::object find_dtype(Dtype dtype) const override {
    const FrameworkDtype& known = framework_dtype(dtype);
    if (known.numpy != nullptr) return numpy_.attr("dtype")(known.numpy);
    if (extended_as_bits_) return numpy_.attr("dtype")(bits(dtype) == 8 ? "u1" : "<u2");
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
    if (!types.is_valid() || !nb::hasattr(types, known.name)) raise_no_ml_dtypes(dtype, known.name);
    return numpy_.attr("dtype")(types.attr(known.name));
  }

  bool extended_as_bits_;
  nb::object numpy_;
  nb::object ndarray_;
  nb::object empty_;
};

}  // namespace

std::shared_ptr<Maker> make_numpy_maker(bool extended_as_bits) {
  return std::make_shared<NumpyMaker>(extended_as_bits);
}

const char* extended_name(Dtype dtype) noexcept {
  const FrameworkDtype& known = framework_dtype(dtype);
  return known.numpy == nullptr ? known.name : nullptr;
}

}  // namespace safetensors::python
