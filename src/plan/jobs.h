// Cuts the items of a plan into jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "file/slice_reader.h"
#include "plan/item.h"

namespace safetensors::plan {

// Items with fewer bytes in the file are read together, through a staging buffer of the thread.
inline constexpr std::uint64_t kSmallItem = 256 << 10;

// A unit of work for one thread.
struct Job {
  enum class Kind : std::uint8_t {
    range,   // a range of the file: one item, or a range of one item
    batch,   // a range of the file that holds several small items completely
    pieces,  // pieces of an item that is a slice
  };
  Kind kind = Kind::range;
  std::size_t first = 0;          // position of the first item in the order of execution
  std::size_t count = 1;          // number of items
  std::uint64_t offset = 0;       // in the file; for a range or a batch
  std::uint64_t size = 0;         // bytes of the range; for pieces, the sum of their bytes
  std::uint64_t item_offset = 0;  // of the job's first byte, in all bytes that are read for the item
  file::PieceRange pieces = {};
};

// Hands out jobs in order. Not thread-safe.
class Jobs {
 public:
  // order: indices of items. chunk_bytes(item) is the maximum number of bytes that a job reads for an item. The spans
  // must outlive this.
  Jobs(std::span<const Item> items, std::span<const std::size_t> order,
       std::function<std::size_t(std::size_t item)> chunk_bytes)
      : items_(items), order_(order), chunk_bytes_(std::move(chunk_bytes)) {}

  enum class Next : std::uint8_t { job, wait, end };
  // Before the first job of an item, admit(item) is called until it returns true. While it returns false, the result is
  // `wait`, and a later call asks again.
  [[nodiscard]] Next next(Job& job, const std::function<bool(std::size_t item)>& admit);

 private:
  [[nodiscard]] const Item& item(std::size_t position) const noexcept { return items_[order_[position]]; }
  [[nodiscard]] Job range(const Item& item, std::size_t chunk);
  [[nodiscard]] Job pieces(const Item& item, std::size_t chunk);
  [[nodiscard]] bool batches(std::size_t position, std::size_t chunk) const noexcept;
  void extend(Job& batch, std::size_t chunk, const std::function<bool(std::size_t item)>& admit);

  std::span<const Item> items_;
  std::span<const std::size_t> order_;
  std::function<std::size_t(std::size_t item)> chunk_bytes_;
  std::size_t position_ = 0;  // in order_
  bool admitted_ = false;     // the item at position_ was admitted
  std::uint64_t done_ = 0;    // bytes of this item, as stored in the file, that were handed out
};

}  // namespace safetensors::plan
