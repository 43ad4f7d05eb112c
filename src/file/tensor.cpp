// Gives the bytes of a tensor: in place if the file is mapped or in memory, otherwise in new memory.
#include <safetensors/file.h>
#include <safetensors/print.h>

#include <functional>
#include <string>
#include <utility>

#include "base/error.h"
#include "file/file.h"
#include "file/slice_reader.h"
#include "os/memory.h"

namespace safetensors {
namespace file {
namespace {

using detail::FileState;

Array make_array(const TensorInfo& tensor, Shape shape, std::span<std::byte> bytes, std::shared_ptr<const void> owner,
                 MemoryKind kind) {
  return Array(array_dtype(tensor), std::move(shape), bytes, std::move(owner), kind);
}

// A tensor, or a part of it.
struct Part {
  Shape shape;
  std::uint64_t size = 0;              // in bytes
  std::optional<ResolvedSlice> slice;  // nullopt: the whole tensor
};

Result<Part> part_of(const FileState& state, const TensorInfo& tensor, const Slice& slice) {
  if (is_whole(slice)) return Part{array_shape(tensor), tensor.nbytes(), std::nullopt};
  Result<ResolvedSlice> resolved = resolve(slice, tensor);
  if (!resolved) return state.describe(tensor, std::move(resolved).error());
  const std::uint64_t size = resolved->nbytes();
  return Part{resolved->shape(), size, *std::move(resolved)};
}

Status read_part(const FileState& state, const TensorInfo& tensor, const Part& part, std::span<std::byte> destination) {
  if (!part.slice) return state.read(tensor, tensor.file_offset, destination);
  const PieceRange all{0, format::piece_count(*part.slice)};
  const Source::Memory memory = state.memory(tensor);
  if (!memory.bytes.empty()) {
    gather_slice(*part.slice, all, memory.bytes.data(), destination.data());
    return {};
  }
  const auto read = [&](std::uint64_t offset, std::span<std::byte> bytes) {
    return state.read(tensor, tensor.file_offset + offset, bytes);
  };
  io::BounceBuffer bounce;
  Status status = read_slice(*part.slice, all, std::ref(read), bounce, destination.data());
  if (!status && status.error().code == Errc::out_of_memory) return state.describe(tensor, std::move(status).error());
  return status;
}

}  // namespace

Dtype array_dtype(const TensorInfo& tensor) noexcept {
  return tensor.dtype == Dtype::UNKNOWN ? Dtype::U8 : tensor.dtype;
}

Shape array_shape(const TensorInfo& tensor) {
  return tensor.dtype == Dtype::UNKNOWN ? Shape({tensor.nbytes()}) : Shape(tensor.shape);
}

bool is_whole(const Slice& slice) noexcept {
  using Parts = detail::Access<Slice>;
  return !Parts::syntax_error(slice) && Parts::dims(slice).empty() && !Parts::only_dim(slice);
}

Result<ResolvedSlice> resolve(const Slice& slice, const TensorInfo& tensor) {
  if (tensor.dtype == Dtype::UNKNOWN && is_whole(slice)) return slice.resolve(array_dtype(tensor), array_shape(tensor));
  return slice.resolve(tensor.dtype, tensor.shape);
}

}  // namespace file

inline namespace v0 {

Result<Array> Tensor::view(const Slice& slice, Map map) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    Result<file::Part> part = file::part_of(*state_, *info_, slice);
    if (!part) return std::move(part).error();
    std::uint64_t offset = info_->file_offset;
    if (part->slice) {
      if (Status status = file::check_contiguous(*part->slice); !status) return describe(std::move(status).error());
      offset += file::first_byte(*part->slice);
    }
    std::optional<detail::FileState::View> view = state_->view(offset, part->size, map);
    if (!view) return read(slice);
    return file::make_array(*info_, std::move(part->shape), view->bytes, std::move(view->owner), view->kind);
  });
}

Error Tensor::describe(Error error) const noexcept {
  return state_->describe(*info_, std::move(error));
}

Result<Array> Tensor::read(const Slice& slice) const noexcept {
  return base::guarded([&]() -> Result<Array> {
    Result<file::Part> part = file::part_of(*state_, *info_, slice);
    if (!part) return std::move(part).error();
    Result<std::shared_ptr<std::byte>> memory = os::allocate(part->size);
    if (!memory) return describe(std::move(memory).error());
    const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(part->size));
    if (Status status = file::read_part(*state_, *info_, *part, bytes); !status) return std::move(status).error();
    return file::make_array(*info_, std::move(part->shape), bytes, *std::move(memory), MemoryKind::owned);
  });
}

Status Tensor::read_into(Span<std::byte> destination, const Slice& slice) const noexcept {
  return base::guarded([&]() -> Status {
    const Result<file::Part> part = file::part_of(*state_, *info_, slice);
    if (!part) return part.error();
    if (part->size != destination.size())
      return describe(base::make_error(
          Errc::buffer_size, {"the result has ", part->size, " bytes, the destination ", destination.size()}));
    return file::read_part(*state_, *info_, *part, destination);
  });
}

File Tensor::file() const noexcept {
  return File(state_);
}

// Names come from strangers, so they are escaped.
std::string to_string(const TensorInfo& tensor) {
  return base::concat({printable(tensor.name), " ", to_string(tensor.dtype), " ", to_string(tensor.shape)});
}

std::string to_string(const Array& array) {
  return base::concat({to_string(array.dtype()), " ", to_string(ShapeView(array.shape()))});
}

}  // namespace v0
}  // namespace safetensors
