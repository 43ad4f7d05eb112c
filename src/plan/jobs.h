// Cuts the items of a plan into jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "file/slice_reader.h"
#include "plan/execution_state.h"
#include "plan/item.h"

namespace safetensors::plan {

// Items with fewer bytes in the file are read together, through a staging buffer of the thread.
inline constexpr std::uint64_t kSmallItem = 256 << 10;

// A unit of work for one thread: pieces of an item that is a slice, or a range of the file. The range is one item, a
// range of one item, or it holds several small items completely.
struct Job {
  std::size_t first = 0;          // position of the first item in the order of execution
  std::size_t count = 1;          // number of items
  std::uint64_t offset = 0;       // in the file, of the range
  std::uint64_t size = 0;         // bytes of the range; for pieces, the sum of their bytes
  std::uint64_t item_offset = 0;  // of the job's first byte, in all bytes that are read for the first item
  file::PieceRange pieces = {};   // none for a range
};

// Hands out jobs in order. Not thread-safe.
class Jobs {
 public:
  explicit Jobs(const ExecutionState& run) : run_(run) {}

  // Before the first job of an item, admit(item) is called until it returns true. While it returns false, there is no
  // job, and a later call asks again.
  [[nodiscard]] bool next(Job& job, const std::function<bool(std::size_t item)>& admit);
  // Returns whether all jobs were handed out.
  [[nodiscard]] bool ended() const noexcept { return position_ == run_.order.size(); }

 private:
  [[nodiscard]] const Item& item(std::size_t position) const noexcept { return run_.items[run_.order[position]]; }
  [[nodiscard]] Job range(const Item& item, std::size_t chunk);
  [[nodiscard]] Job pieces(const Item& item, std::size_t chunk);
  [[nodiscard]] bool batches(std::size_t position, std::size_t chunk) const noexcept;
  void extend(Job& batch, std::size_t chunk, const std::function<bool(std::size_t item)>& admit);

  const ExecutionState& run_;
  std::size_t position_ = 0;  // in the order of execution
  bool admitted_ = false;     // the item at position_ was admitted
  std::uint64_t done_ = 0;    // bytes of this item, as stored in the file, that were handed out
};

}  // namespace safetensors::plan
