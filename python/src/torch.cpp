// Makes torch tensors through DLPack, so that the extension needs no headers of torch. Each tensor has a storage of
// exactly its own size. Dtypes that DLPack or an older torch lacks are exported as bytes and reinterpreted.
#include <safetensors/to_dlpack.h>

#include <bit>
#include <cstdlib>
#include <string>
#include <vector>

#include "framework.h"

namespace safetensors::python {
namespace {

// The name of a capsule without a version, which every torch with from_dlpack accepts.
constexpr const char* kCapsule = "dltensor";

// May be called from any thread, with or without the GIL.
void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsule) == 0) return;  // the consumer has renamed it and owns the memory now
  detail::DLPackDeleter()(static_cast<safetensors_dl_unversioned_tensor*>(PyCapsule_GetPointer(capsule, kCapsule)));
}

class TorchMaker final : public Maker {
 public:
  explicit TorchMaker(const Device& device)
      : torch_(import_module("torch")), device_(device), empty_(torch_.attr("empty")) {
    const nb::object internal = torch_.attr("_C");
    from_dlpack_ = nb::hasattr(internal, "_from_dlpack")
                       ? nb::object(internal.attr("_from_dlpack"))
                       : nb::object(import_module("torch.utils.dlpack").attr("from_dlpack"));
    if (!nb::hasattr(internal, "_get_dispatch_mode") || !nb::hasattr(internal, "_len_torch_dispatch_stack")) return;
    modes_ = internal.attr("_len_torch_dispatch_stack");
    dispatch_mode_ = internal.attr("_get_dispatch_mode");
    fake_ = internal.attr("_TorchDispatchModeKey").attr("FAKE");
  }

  void check() const override {
    if (modes_.is_valid() && nb::cast<int>(modes_()) != 0 && !dispatch_mode_(fake_).is_none())
      throw nb::value_error("cannot load a tensor under torch's FakeTensorMode, whose tensors have no memory");
  }
  nb::object make(const Array& array) override {
    check();
    return make_checked(array);
  }
  nb::object make_checked(const Array& array) override {
    const Dtype dtype = array.dtype();
    // torch has the byte order of the machine only.
    if (std::endian::native != std::endian::little && bits(dtype) > 8)
      raise("torch cannot hold " + std::string(to_string(dtype)) +
            " in the byte order of files on a big-endian machine");
    const nb::handle type = dtype_of(dtype);
    nb::object tensor;
    if (array.nbytes() == 0) {
      tensor = empty_(to_tuple(shape_of(array)), nb::arg("dtype") = type, nb::arg("device") = "cpu");
    } else {
      const Array usable = aligned(array, bits(dtype) < 8 ? 1 : bits(dtype) / 8);
      tensor = framework_dtype(dtype).torch == TorchImport::direct ? import(usable) : reinterpret(usable, type);
    }
    return device_.cpu() ? tensor : tensor.attr("to")(to_str(device_.name));
  }
  bool has(Dtype dtype) const override {
    const FrameworkDtype& known = framework_dtype(dtype);
    return known.torch != TorchImport::none && nb::hasattr(torch_, known.name);
  }
  // Modes of torch see the calls that reinterpret a tensor, and may look at it. No mode sees an import.
  bool reads(Dtype dtype) const noexcept override {
    return !device_.cpu() || framework_dtype(dtype).torch != TorchImport::direct;
  }
  bool shares() const noexcept override { return true; }
  bool indexes() const noexcept override { return true; }

 private:
  nb::object import(const Array& array) {
    Result<UnversionedDLPackTensor> exported = to_unversioned_dlpack(array);
    if (!exported) raise_read_error(exported.error(), "", "");
    const nb::object capsule = own(PyCapsule_New(exported->get(), kCapsule, &destroy_capsule));
    (void)exported->release();
    return own(PyObject_CallFunctionObjArgs(from_dlpack_.ptr(), capsule.ptr(), nullptr));
  }

  // Exports bytes, then sets them as the storage of an empty tensor. tensor.view(dtype) would make a view of another
  // tensor, and autograd treats views differently.
  nb::object reinterpret(const Array& array, nb::handle type) {
    const std::vector<std::uint64_t> shape = shape_of(array);
    const std::span<std::byte> memory(const_cast<std::byte*>(array.bytes().data()),
                                      static_cast<std::size_t>(array.nbytes()));
    const nb::object bytes = import(Array(Dtype::U8, Shape({array.nbytes()}), memory, array.owner(), array.memory()));
    const nb::object tensor = empty_(nb::make_tuple(0), nb::arg("dtype") = type, nb::arg("device") = "cpu");
    return tensor.attr("set_")(bytes.attr("untyped_storage")(), 0, to_tuple(shape));
  }

  // torch counts a pair of F4 as one element.
  static std::vector<std::uint64_t> shape_of(const Array& array) {
    std::vector<std::uint64_t> shape(array.shape().begin(), array.shape().end());
    if (array.dtype() != Dtype::F4) return shape;
    if (shape.empty() || shape.back() % 2 != 0)
      raise("a tensor of F4 and shape " + to_string(array.shape()) +
            " has an odd last dimension, which torch cannot hold");
    shape.back() /= 2;
    return shape;
  }

  nb::object find_dtype(Dtype dtype) const override {
    if (!has(dtype))
      raise("Dtype not understood: " + std::string(to_string(dtype)) +
            " (torch has no such dtype; framework=\"np\" loads it as packed uint8)");
    return torch_.attr(framework_dtype(dtype).name);
  }

  nb::object torch_;
  Device device_;
  nb::object empty_;
  nb::object from_dlpack_;
  nb::object modes_;          // returns the number of active modes. Null in an old torch
  nb::object dispatch_mode_;  // returns the mode with a key, or None. The number costs less
  nb::object fake_;           // the key of FakeTensorMode
};

}  // namespace

std::shared_ptr<Maker> make_torch_maker(const Device& device) {
  return std::make_shared<TorchMaker>(device);
}

}  // namespace safetensors::python
