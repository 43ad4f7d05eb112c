// Makes torch tensors through DLPack, so that the extension needs no headers of torch. Each tensor has a storage of
// exactly its own size. Dtypes that DLPack or an older torch lacks are exported as bytes and reinterpreted.
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <string>
#include <vector>

#include "dtype_names.h"
#include "framework.h"

namespace safetensors::python {
namespace {

// DLPack 0.x, which every torch with from_dlpack accepts (https://dmlc.github.io/dlpack/latest/c_api.html).
struct DLDevice {
  std::int32_t type;
  std::int32_t id;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t rank;
  DLPackType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
constexpr std::int32_t kDLCpu = 1;
constexpr const char* kCapsule = "dltensor";

struct Exported {
  DLManagedTensor managed;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const void> owner;
};

// May be called from any thread, with or without the GIL.
void forget(DLManagedTensor* managed) {
  delete static_cast<Exported*>(managed->context);
}

void destroy_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kCapsule) == 0) return;  // the consumer has renamed it and owns the memory now
  forget(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule)));
}

class TorchMaker final : public Maker {
 public:
  explicit TorchMaker(const Device& device)
      : torch_(import_module("torch")), device_(device), empty_(torch_.attr("empty")) {
    const nb::object internal = torch_.attr("_C");
    from_dlpack_ = nb::hasattr(internal, "_from_dlpack")
                       ? nb::object(internal.attr("_from_dlpack"))
                       : nb::object(import_module("torch.utils.dlpack").attr("from_dlpack"));
  }
  ~TorchMaker() override {
    for (std::atomic<PyObject*>& dtype : dtypes_) Py_XDECREF(dtype.load());
  }

  nb::object make(const Array& array) override {
    const Dtype dtype = array.dtype();
    // torch has the byte order of the machine only.
    if (std::endian::native != std::endian::little && bits(dtype) > 8)
      raise("torch cannot hold " + std::string(to_string(dtype)) +
            " in the byte order of files on a big-endian machine");
    const nb::handle type = dtype_of(dtype);
    const std::vector<std::int64_t> shape = shape_of(array);
    nb::object tensor;
    if (array.nbytes() == 0) {
      tensor = empty_(to_object(shape), nb::arg("dtype") = type, nb::arg("device") = "cpu");
    } else {
      const Array usable = aligned(array, bits(dtype) < 8 ? 1 : bits(dtype) / 8);
      tensor = framework_dtype(dtype).torch == TorchImport::direct ? import(usable, dlpack_type(dtype), shape)
                                                                   : reinterpret(usable, type, shape);
    }
    return device_.cpu() ? tensor : tensor.attr("to")(to_str(device_.name));
  }
  bool has(Dtype dtype) const override {
    const FrameworkDtype& known = framework_dtype(dtype);
    return known.torch != TorchImport::none && nb::hasattr(torch_, known.name);
  }
  bool shares() const noexcept override { return true; }
  bool indexes() const noexcept override { return true; }

 private:
  static nb::object to_object(const std::vector<std::int64_t>& shape) {
    nb::list list;
    for (const std::int64_t dim : shape) list.append(dim);
    return nb::tuple(list);
  }

  nb::object import(const Array& array, DLPackType type, std::vector<std::int64_t> shape) {
    auto* const exported = new Exported{{}, std::move(shape), array.owner()};
    exported->managed.tensor = {const_cast<std::byte*>(array.bytes().data()),
                                {kDLCpu, 0},
                                static_cast<std::int32_t>(exported->shape.size()),
                                type,
                                exported->shape.data(),
                                nullptr,
                                0};
    exported->managed.context = exported;
    exported->managed.deleter = &forget;
    const nb::object capsule = nb::steal(PyCapsule_New(&exported->managed, kCapsule, &destroy_capsule));
    if (!capsule.is_valid()) {
      delete exported;
      throw nb::python_error();
    }
    return own(PyObject_CallFunctionObjArgs(from_dlpack_.ptr(), capsule.ptr(), nullptr));
  }

  // Exports bytes, then sets them as the storage of an empty tensor. tensor.view(dtype) would make a view of another
  // tensor, and autograd treats views differently.
  nb::object reinterpret(const Array& array, nb::handle type, const std::vector<std::int64_t>& shape) {
    const nb::object bytes = import(array, dlpack_type(Dtype::U8), {static_cast<std::int64_t>(array.nbytes())});
    const nb::object tensor = empty_(nb::make_tuple(0), nb::arg("dtype") = type, nb::arg("device") = "cpu");
    return tensor.attr("set_")(bytes.attr("untyped_storage")(), 0, to_object(shape));
  }

  // torch counts a pair of F4 as one element.
  static std::vector<std::int64_t> shape_of(const Array& array) {
    std::vector<std::int64_t> shape(array.shape().begin(), array.shape().end());
    if (array.dtype() != Dtype::F4) return shape;
    if (shape.empty() || shape.back() % 2 != 0)
      raise("a tensor of F4 and shape " + to_string(array.shape()) +
            " has an odd last dimension, which torch cannot hold");
    shape.back() /= 2;
    return shape;
  }

  nb::handle dtype_of(Dtype dtype) {
    std::atomic<PyObject*>& slot = dtypes_[static_cast<std::size_t>(dtype)];
    if (PyObject* const known = slot.load(std::memory_order_acquire)) return known;
    if (!has(dtype))
      raise("Dtype not understood: " + std::string(to_string(dtype)) +
            " (torch has no such dtype; framework=\"np\" loads it as packed uint8)");
    nb::object made = torch_.attr(framework_dtype(dtype).name);
    PyObject* other = nullptr;
    if (slot.compare_exchange_strong(other, made.ptr())) return made.release();
    return other;
  }

  nb::object torch_;
  Device device_;
  nb::object empty_;
  nb::object from_dlpack_;
  std::array<std::atomic<PyObject*>, kDtypeNumbers> dtypes_{};
};

}  // namespace

std::shared_ptr<Maker> make_torch_maker(const Device& device) {
  return std::make_shared<TorchMaker>(device);
}

}  // namespace safetensors::python
