/// @file
/// The C++17 interface: classes over the C interface, as one header to include. It needs neither exceptions nor RTTI.
///
/// Include this header alone and link the library. Everything here is inline and calls functions of c.h, whose binary
/// form is stable. So your program may use another compiler and another standard than the library. It lives in the
/// namespace `safetensors17`, so a program may also include the C++20 headers, whose namespace is `safetensors`.
///
/// @code
/// namespace st = safetensors17;
///
/// st::Status print(const char* path) {
///   st::Result<st::File> file = st::File::open(path);  // reads and checks the header, nothing else
///   if (!file) return file.error();
///   for (const st::TensorInfo& info : file->tensors()) {
///     std::printf("%s: %llu bytes\n", st::printable(info.name()).c_str(), (unsigned long long)info.nbytes());
///   }
///   st::Result<st::Tensor> weight = file->tensor("weight");
///   if (!weight) return weight.error();
///   st::Result<st::Array> array = weight->view();  // the pages of the file, no copy
///   if (!array) return array.error();
///   st::Result<st::View<const float>> elements = array->as<float>();  // an error if the dtype is not F32
///   if (!elements) return elements.error();
///   std::printf("%g\n", (*elements)[0]);
///   return {};
/// }
/// @endcode
///
/// **Errors.** Functions return a Status or a Result and throw nothing. The comments name the codes without the prefix
/// `SAFETENSORS_ERROR_`. Any call may also return OUT_OF_MEMORY, and INVALID_ARGUMENT if an object was moved from. Only
/// `value()`, `*` and `->` of a Result without a value end the program, after they printed the error.
///
/// **Lifetimes.** File, Checkpoint, Tensor, Slice, Array, ReadPlan and ReadResult own a handle, and are moved, not
/// copied. Each keeps alive what it needs: an Array may outlive its Tensor and its File. A View, a TensorInfo and a
/// std::string_view own nothing. Each comment says how long they are valid.
///
/// **Moved-from objects.** You may destroy them and assign to them. Every other call returns the error
/// INVALID_ARGUMENT, or an empty value, NULL or 0. It never crashes.
///
/// **Threads.** Any number of threads may call const functions of one object at the same time. A function that is not
/// const, a move or a destructor needs the object for itself. Different objects are independent.
///
/// **More.** `c()` returns the C handle of an object. With it you can call every function of c.h that has no
/// counterpart here, such as streams and writers.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>
#include <safetensors/cpp17/file.hpp>
#include <safetensors/cpp17/read_plan.hpp>
#include <safetensors/cpp17/save.hpp>
#include <safetensors/cpp17/tensor.hpp>
#include <safetensors/cpp17/values.hpp>

/// The C++17 interface. It is independent of the namespace `safetensors` of the C++20 headers.
namespace safetensors17 {}
