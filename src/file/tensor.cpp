// Gives the bytes of a tensor: in place if the file is mapped or in memory, otherwise in new memory.
#include <safetensors/file.h>
#include <safetensors/print.h>

#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "file/file.h"
#include "file/slice_reader.h"
#include "os/memory.h"

namespace safetensors {
namespace file {
namespace {

using detail::FileState;

class TensorBytes final : public ReadTensorBytes {
 public:
  TensorBytes(const FileState& state, const TensorInfo& tensor) : state_(state), tensor_(tensor) {}
  Status operator()(std::uint64_t offset, std::span<std::byte> destination) noexcept override {
    return state_.read(tensor_, tensor_.file_offset + offset, destination);
  }

 private:
  const FileState& state_;
  const TensorInfo& tensor_;
};

Array make_array(const TensorInfo& tensor, Shape shape, std::span<std::byte> bytes, std::shared_ptr<const void> owner,
                 MemoryKind kind) {
  return Array(array_dtype(tensor), std::move(shape), bytes, std::move(owner), kind);
}

Status read_resolved(const FileState& state, const TensorInfo& tensor, const ResolvedSlice& slice,
                     std::byte* destination) {
  const PieceRange all{0, format::piece_count(slice)};
  const Source::Memory memory = state.memory(tensor);
  if (!memory.bytes.empty()) {
    gather_slice(slice, all, memory.bytes.data(), destination);
    return {};
  }
  TensorBytes bytes(state, tensor);
  io::BounceBuffer bounce;
  Status status = read_slice(slice, all, bytes, bounce, destination);
  if (!status && status.error().code == Errc::out_of_memory) return state.describe(tensor, std::move(status).error());
  return status;
}

Status check_size(const FileState& state, const TensorInfo& tensor, std::uint64_t needed, std::uint64_t given) {
  if (needed == given) return {};
  return state.describe(tensor,
                        base::make_error(Errc::buffer_size, "the result has " + std::to_string(needed) +
                                                                " bytes, the destination " + std::to_string(given)));
}

Result<std::shared_ptr<std::byte>> allocate(const FileState& state, const TensorInfo& tensor, std::uint64_t size) {
  Result<std::shared_ptr<std::byte>> memory = os::allocate(size);
  if (!memory) return state.describe(tensor, std::move(memory).error());
  return memory;
}

}  // namespace

Dtype array_dtype(const TensorInfo& tensor) noexcept {
  return tensor.dtype == Dtype::UNKNOWN ? Dtype::U8 : tensor.dtype;
}

Shape array_shape(const TensorInfo& tensor) {
  return tensor.dtype == Dtype::UNKNOWN ? Shape({tensor.nbytes()}) : Shape(tensor.shape);
}

Result<ResolvedSlice> resolve(const Slice& slice, const TensorInfo& tensor) {
  using Parts = detail::Access<Slice>;
  const bool whole = !Parts::syntax_error(slice) && Parts::dims(slice).empty() && !Parts::only_dim(slice);
  if (tensor.dtype == Dtype::UNKNOWN && whole) return slice.resolve(array_dtype(tensor), array_shape(tensor));
  return slice.resolve(tensor.dtype, tensor.shape);
}

}  // namespace file

inline namespace v0 {

Result<Array> Tensor::view(Map map) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    std::optional<detail::FileState::View> view = state_->view(info_->file_offset, nbytes(), map);
    if (!view) return read();
    return file::make_array(*info_, file::array_shape(*info_), view->bytes, std::move(view->owner), view->kind);
  });
}

Result<Array> Tensor::view(const Slice& slice, Map map) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    const Result<ResolvedSlice> part = file::resolve(slice, *info_);
    if (!part) return describe(part.error());
    if (Status status = file::check_contiguous(*part); !status) return describe(std::move(status).error());
    std::optional<detail::FileState::View> view =
        state_->view(info_->file_offset + file::first_byte(*part), part->nbytes(), map);
    if (!view) return read(slice);
    return file::make_array(*info_, part->shape(), view->bytes, std::move(view->owner), view->kind);
  });
}

Result<std::uint64_t> Tensor::count(const Slice& slice, std::size_t element_size) const noexcept {
  return base::guarded([&]() -> Result<std::uint64_t> {
    const Result<ResolvedSlice> part = file::resolve(slice, *info_);
    if (!part) return describe(part.error());
    const std::uint64_t count = part->shape().numel();
    // A sparse file can have more elements than the machine has memory. A vector would touch all of it.
    std::uint64_t size = 0;
    if (base::multiply(count, element_size, size) && os::fits_in_machine(size)) return count;
    return describe(base::make_error(Errc::out_of_memory, "cannot allocate " + std::to_string(count) + " elements of " +
                                                              std::to_string(element_size) + " bytes"));
  });
}

Error Tensor::describe(Error error) const noexcept {
  return state_->describe(*info_, std::move(error));
}

Result<Array> Tensor::read() const noexcept {
  return base::guarded([&]() -> Result<Array> {
    Result<std::shared_ptr<std::byte>> memory = file::allocate(*state_, *info_, nbytes());
    if (!memory) return std::move(memory).error();
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(nbytes()));
    if (Status status = state_->read(*info_, info_->file_offset, bytes); !status) return std::move(status).error();
    return file::make_array(*info_, file::array_shape(*info_), bytes, *std::move(memory), MemoryKind::owned);
  });
}

Result<Array> Tensor::read_slice(const Slice& slice) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    const Result<ResolvedSlice> resolved = file::resolve(slice, *info_);
    if (!resolved) return state_->describe(*info_, resolved.error());
    Result<std::shared_ptr<std::byte>> memory = file::allocate(*state_, *info_, resolved->nbytes());
    if (!memory) return std::move(memory).error();
    if (Status status = file::read_resolved(*state_, *info_, *resolved, memory->get()); !status)
      return std::move(status).error();
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(resolved->nbytes()));
    return file::make_array(*info_, resolved->shape(), bytes, *std::move(memory), MemoryKind::owned);
  });
}

Status Tensor::read_into(Span<std::byte> destination) const noexcept {
  return base::guarded([&]() -> Status {
    if (Status status = file::check_size(*state_, *info_, nbytes(), destination.size()); !status) return status;
    return state_->read(*info_, info_->file_offset, destination);
  });
}

Status Tensor::read_into(const Slice& slice, Span<std::byte> destination) const noexcept {
  return base::guarded([&]() -> Status {
    const Result<ResolvedSlice> resolved = file::resolve(slice, *info_);
    if (!resolved) return state_->describe(*info_, resolved.error());
    if (Status status = file::check_size(*state_, *info_, resolved->nbytes(), destination.size()); !status)
      return status;
    return file::read_resolved(*state_, *info_, *resolved, destination.data());
  });
}

File Tensor::file() const noexcept {
  return File(state_);
}

// Names come from strangers, so they are escaped.
std::string to_string(const TensorInfo& tensor) {
  return printable(tensor.name) + " " + std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape);
}

std::string to_string(const Array& array) {
  return std::string(to_string(array.dtype())) + " " + to_string(ShapeView(array.shape()));
}

}  // namespace v0
}  // namespace safetensors
