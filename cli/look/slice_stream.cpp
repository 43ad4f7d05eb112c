// A slice with short pieces would need a system call per piece. So a piece that starts near the last one fills a window
// of 1 MiB, from which the next pieces are copied. The window lies before the piece if the slice runs backwards.
#include "slice_stream.h"

#include <algorithm>
#include <cstring>

namespace safetensors::cli {
namespace {

constexpr std::uint64_t kWindow = 1 << 20;
constexpr std::uint64_t kLongRun = 64 << 10;
// Pieces with a larger distance are read one by one: reading the bytes between them would cost more.
constexpr std::uint64_t kNear = 16 << 10;

}  // namespace

SliceStream::SliceStream(const File& file, const TensorInfo& tensor, const ResolvedSlice& slice)
    : source_(file.source()),
      tensor_offset_(tensor.file_offset),
      tensor_size_(tensor.nbytes()),
      runs_(slice.runs()),
      remaining_(slice.nbytes()) {}

ByteRun SliceStream::take(std::uint64_t max) {
  if (run_.size == 0 && !runs_.next(run_)) return {};
  const ByteRun part{run_.offset, std::min(run_.size, max)};
  run_.offset += part.size;
  run_.size -= part.size;
  remaining_ -= part.size;
  return part;
}

Status SliceStream::read(std::span<std::byte> destination) {
  while (!destination.empty()) {
    const ByteRun part = take(destination.size());
    const auto size = static_cast<std::size_t>(part.size);
    if (size == 0) return Error{.code = Errc::invalid_argument, .path = {}, .message = "read past the slice's end"};
    if (Status status = fetch(part.offset, destination.first(size)); !status) return status;
    destination = destination.subspan(size);
  }
  return {};
}

void SliceStream::skip(std::uint64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t taken = take(bytes).size;
    if (taken == 0) return;
    bytes -= taken;
  }
}

Status SliceStream::fetch(std::uint64_t offset, std::span<std::byte> destination) {
  if (destination.size() >= kLongRun) return read_exactly(offset, destination);
  const auto inside = [&] {
    return offset >= window_offset_ && offset - window_offset_ < window_.size() &&
           destination.size() <= window_.size() - (offset - window_offset_);
  };
  if (!inside()) {
    const bool forward = offset >= last_offset_;
    const std::uint64_t distance = forward ? offset - last_offset_ : last_offset_ - offset;
    const std::uint64_t end = offset + destination.size();
    std::uint64_t first = offset;
    std::uint64_t last = end;
    if (distance <= kNear && forward) last = offset + std::min(kWindow, tensor_size_ - offset);
    if (distance <= kNear && !forward) first = end - std::min(kWindow, end);
    window_.resize(static_cast<std::size_t>(last - first));
    window_offset_ = first;
    if (Status status = read_exactly(first, window_); !status) return status;
  }
  last_offset_ = offset;
  std::memcpy(destination.data(), window_.data() + (offset - window_offset_), destination.size());
  return {};
}

Status SliceStream::read_exactly(std::uint64_t offset, std::span<std::byte> destination) const {
  while (!destination.empty()) {
    const Result<std::size_t> got = source_.read_at(tensor_offset_ + offset, destination);
    if (!got) return got.error();
    if (*got == 0) {
      return Error{.code = Errc::file_truncated,
                   .offset = tensor_offset_ + offset,
                   .path = {},
                   .message = "the file became shorter while it was read"};
    }
    offset += *got;
    destination = destination.subspan(*got);
  }
  return {};
}

}  // namespace safetensors::cli
