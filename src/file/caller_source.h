// A Source of the caller, as the library calls it.
#pragma once

#include <safetensors/source.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/exceptions.h"

namespace safetensors::file {

// Forwards to the Source of a caller. Every File over such a Source reads through an object of this class, so the rest
// of the library sees a Source that never throws, and the wishes of the caller are met in one place:
// - exceptions become errors;
// - if the Source is not concurrent, one thread at a time calls it;
// - a request is at most request_bytes() long.
class CallerSource final : public Source {
 public:
  explicit CallerSource(std::shared_ptr<const Source> source) noexcept
      : source_(std::move(source)), concurrent_(source_->concurrent()), request_bytes_(source_->request_bytes()) {}

  [[nodiscard]] Result<std::uint64_t> size() const noexcept override {
    return base::called(
        [&] {
          const std::unique_lock lock = locked();
          return source_->size();
        },
        Errc::read_failed, "size() of the source");
  }

  [[nodiscard]] Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    if (request_bytes_ != 0 && destination.size() > request_bytes_)
      destination = destination.first(static_cast<std::size_t>(request_bytes_));
    Result<std::size_t> count = base::called(
        [&] {
          const std::unique_lock lock = locked();
          return source_->read_at(offset, destination);
        },
        Errc::read_failed, "read_at() of the source", offset);
    if (!count || *count <= destination.size()) return count;
    return base::guarded([&]() -> Result<std::size_t> {
      return base::make_error(Errc::read_failed, "source returned " + std::to_string(*count) + " bytes, " +
                                                     std::to_string(destination.size()) + " were asked for");
    });
  }

  // Without the memory, the library reads the bytes.
  [[nodiscard]] Memory memory(std::uint64_t offset, std::uint64_t size) const noexcept override {
    return base::caught_all(
        [&] {
          const std::unique_lock lock = locked();
          return source_->memory(offset, size);
        },
        [] { return Memory{}; });
  }

  [[nodiscard]] bool concurrent() const noexcept override { return concurrent_; }
  [[nodiscard]] std::uint64_t request_bytes() const noexcept override { return request_bytes_; }

 private:
  [[nodiscard]] std::unique_lock<std::mutex> locked() const {
    return concurrent_ ? std::unique_lock<std::mutex>() : std::unique_lock(mutex_);
  }

  const std::shared_ptr<const Source> source_;
  const bool concurrent_;
  const std::uint64_t request_bytes_;
  mutable std::mutex mutex_;
};

}  // namespace safetensors::file
