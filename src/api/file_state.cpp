#include "api/file_state.h"

#include <new>
#include <utility>

#include "api/file_image.h"
#include "base/error.h"

namespace safetensors {
inline namespace v0 {
namespace detail {

io::Mapping FileState::shared_map() const noexcept {
  if (const io::Mapping* made = shared_map_.load(std::memory_order_acquire)) return *made;
  Result<io::Mapping> map = posix->map(0, header.file_bytes(), io::MapMode::shared);
  if (!map) return {};
  const auto* mine = new (std::nothrow) io::Mapping(*std::move(map));
  if (mine == nullptr) return {};
  const io::Mapping* other = nullptr;
  if (shared_map_.compare_exchange_strong(other, mine, std::memory_order_acq_rel)) return *mine;
  delete mine;
  return *other;
}

Error FileState::describe(const TensorInfo& tensor, Error error) const noexcept {
  return base::guarded([&] {
    error.message = api::tensor_named(tensor.name) + ": " + error.message;
    if (error.path.empty()) error.path = path;
    return std::move(error);
  });
}

Status FileState::read(const TensorInfo& tensor, std::uint64_t offset,
                       std::span<std::byte> destination) const noexcept {
  Status status = io::read_exactly(*source, offset, destination);
  if (status) return {};
  return failed(tensor, offset, std::move(status).error());
}

Error FileState::failed(const TensorInfo& tensor, std::uint64_t offset, Error error) const noexcept {
  if (error.code == Errc::ok) error.code = Errc::read_failed;
  if (error.offset == Error::kNoOffset) error.offset = offset;
  return describe(tensor, std::move(error));
}

Source::Memory FileState::memory(const TensorInfo& tensor) const noexcept {
  if (posix || access != Access::map) return {};
  Source::Memory memory = source->memory(tensor.file_offset, tensor.nbytes());
  if (memory.bytes.size() != tensor.nbytes()) return {};
  return memory;
}

}  // namespace detail
}  // namespace v0
}  // namespace safetensors
