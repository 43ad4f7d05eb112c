#include <safetensors/read_plan.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "api/file_state.h"
#include "io/guard.h"
#include "io/memory.h"
#include "io/parallel.h"
#include "io/system_error.h"

namespace safetensors {
namespace api {
namespace {

struct Item {
  Tensor tensor;
  std::optional<Slice> slice;  // none: all of it, which is read in pieces
  Shape shape;                 // of the result
  std::uint64_t size;          // of the result, in bytes
  std::span<std::byte> destination;
};

// Part of an item that one thread reads at once.
struct Piece {
  const Item* item;
  std::span<std::byte> destination;
  std::uint64_t offset;  // from the tensor's first byte; not of slices
};

class Pieces final : public io::Tasks {
 public:
  void add(const Item& item, std::span<std::byte> destination) {
    if (destination.empty()) return;
    if (item.slice) {
      pieces_.push_back({&item, destination, 0});
      return;
    }
    for (std::size_t begin = 0; begin < destination.size(); begin += io::kReadPiece) {
      const std::size_t size = std::min(io::kReadPiece, destination.size() - begin);
      pieces_.push_back({&item, destination.subspan(begin, size), begin});
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return pieces_.size(); }
  [[nodiscard]] Status run(std::size_t index) noexcept override {
    const Piece& piece = pieces_[index];
    if (piece.item->slice) return piece.item->tensor.read_into(*piece.item->slice, piece.destination);
    const TensorInfo& info = piece.item->tensor.info();
    return detail::TensorAccess::state(piece.item->tensor)
        .read(info, info.file_offset + piece.offset, piece.destination);
  }

 private:
  std::vector<Piece> pieces_;
};

// Over the destination, or over memory of its own.
Result<Array> make_array(const Item& item) {
  const Dtype dtype = item.tensor.dtype();
  if (!item.destination.empty()) return Array(dtype, item.shape, item.destination, nullptr, MemoryKind::borrowed);
  Result<std::shared_ptr<std::byte>> memory = io::allocate(item.size);
  if (!memory) return detail::TensorAccess::state(item.tensor).describe(item.tensor.info(), std::move(memory).error());
  const std::span<std::byte> bytes(memory->get(), static_cast<std::size_t>(item.size));
  return Array(dtype, item.shape, bytes, *std::move(memory), MemoryKind::owned);
}

std::span<std::byte> bytes_of(Array& array) {
  const std::span<const std::byte> bytes = array.bytes();
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // just made, and nobody else's
}

}  // namespace
}  // namespace api

inline namespace v0 {

struct ReadPlan::State {
  std::vector<api::Item> items;

  Status add(api::Item item) {
    if (!item.destination.empty() && item.destination.size() != item.size) {
      return detail::TensorAccess::state(item.tensor)
          .describe(item.tensor.info(),
                    io::plain_error(Errc::buffer_size, "the result has " + std::to_string(item.size) +
                                                           " bytes, the destination " +
                                                           std::to_string(item.destination.size())));
    }
    items.push_back(std::move(item));
    return {};
  }
};

ReadPlan::ReadPlan() noexcept = default;
ReadPlan::ReadPlan(ReadPlan&&) noexcept = default;
ReadPlan& ReadPlan::operator=(ReadPlan&&) noexcept = default;
ReadPlan::~ReadPlan() = default;

Status ReadPlan::add(const Tensor& tensor, const Destination& destination) noexcept {
  return io::guarded([&]() -> Status {
    if (!state_) state_ = std::make_unique<State>();
    return state_->add({tensor, std::nullopt, Shape(tensor.shape()), tensor.nbytes(), destination.bytes});
  });
}

Status ReadPlan::add(const Tensor& tensor, const Slice& slice, const Destination& destination) noexcept {
  return io::guarded([&]() -> Status {
    const Result<ResolvedSlice> resolved = slice.resolve(tensor.dtype(), tensor.shape());
    if (!resolved) return detail::TensorAccess::state(tensor).describe(tensor.info(), resolved.error());
    if (!state_) state_ = std::make_unique<State>();
    return state_->add({tensor, slice, Shape(resolved->shape()), resolved->nbytes(), destination.bytes});
  });
}

std::size_t ReadPlan::size() const noexcept {
  return state_ ? state_->items.size() : 0;
}

Result<ReadResult> ReadPlan::execute(const ReadOptions& options) const noexcept {
  return io::guarded([&]() -> Result<ReadResult> {
    ReadResult result;
    if (!state_) return result;
    api::Pieces pieces;
    result.arrays.reserve(size());
    for (const api::Item& item : state_->items) {
      Result<Array> array = api::make_array(item);
      if (!array) return std::move(array).error();
      result.arrays.push_back(*std::move(array));
      pieces.add(item, api::bytes_of(result.arrays.back()));
    }
    const unsigned threads = options.threads == 0 ? io::usable_processors() : options.threads;
    if (Status status = io::run_parallel(pieces, pieces.size(), threads); !status) return std::move(status).error();
    return result;
  });
}

}  // namespace v0
}  // namespace safetensors
