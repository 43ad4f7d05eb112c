#include "format/layout.h"

#include <string>

namespace safetensors::format {
namespace {

std::string quoted(std::string_view name) {
  constexpr std::size_t kShown = 200;
  if (name.size() <= kShown) return "`" + printable(name) + "`";
  return "`" + printable(name.substr(0, kShown)) + "...` (" + std::to_string(name.size()) + " bytes)";
}

std::string range(const TensorInfo& tensor) {
  return "[" + std::to_string(tensor.begin) + ", " + std::to_string(tensor.end) + "]";
}

Error invalid_offset(const TensorInfo& tensor, std::uint64_t expected, const TensorInfo* previous) {
  Error error;
  error.code = Errc::invalid_offset;
  error.message = "invalid offset for tensor " + quoted(tensor.name) + ": its data_offsets " + range(tensor);
  if (tensor.end < tensor.begin) {
    error.message += " end before they begin";
  } else {
    error.message += tensor.begin < expected ? " overlap what comes before, which ends at byte "
                                             : " leave a hole after what comes before, which ends at byte ";
    error.message += std::to_string(expected);
    if (previous != nullptr) error.message += " (tensor " + quoted(previous->name) + ")";
  }
  return error;
}

}  // namespace

Error bytes_error(Errc code, std::string_view name, Dtype dtype, ShapeView shape) {
  Error error;
  error.code = code;
  if (code == Errc::size_overflow) {
    error.message = "overflow computing buffer size from shape and/or element type: tensor " + quoted(name) + ", " +
                    std::string(to_string(dtype)) + " " + to_string(shape) + ", has more than 2^64-1 bits";
  } else {
    error.message =
        "The slice is slicing for subbytes dtypes, and the slice does not end up at a byte boundary, this is invalid."
        " tensor " +
        quoted(name) + ": " + to_string(shape) + " elements of " + std::to_string(bits(dtype)) +
        " bits do not fill whole bytes";
  }
  return error;
}

Status check_tensor(const TensorInfo& tensor, std::uint64_t expected, const TensorInfo* previous) {
  if (tensor.begin != expected || tensor.end < tensor.begin) return invalid_offset(tensor, expected, previous);
  std::uint64_t nbytes = 0;
  if (const Errc code = count_bytes(tensor.dtype, tensor.shape, nbytes); code != Errc::ok) {
    return bytes_error(code, tensor.name, tensor.dtype, tensor.shape);
  }
  if (nbytes == tensor.nbytes()) return {};
  Error error;
  error.code = Errc::size_mismatch;
  error.message = "invalid shape, data type, or offset for tensor " + quoted(tensor.name) + ": " +
                  std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape) + " needs " +
                  std::to_string(nbytes) + " bytes, its data_offsets " + range(tensor) + " span " +
                  std::to_string(tensor.nbytes());
  return error;
}

}  // namespace safetensors::format
