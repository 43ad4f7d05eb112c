// The items of a plan cut into what one thread does at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "file/slice_reader.h"
#include "plan/plan_item.h"

namespace safetensors::plan {

// Items of fewer bytes in the file are read together, through memory of the thread's.
inline constexpr std::uint64_t kSmallItem = 256 << 10;

struct PlanJob {
  enum class Kind : std::uint8_t {
    stretch,  // bytes of one item, one behind the other in the file
    batch,    // whole items that lie near each other, read at once
    pieces,   // of an item that is a slice
  };
  Kind kind = Kind::stretch;
  std::size_t first = 0;     // in the order of execution
  std::size_t count = 1;     // items
  std::uint64_t offset = 0;  // of the file, of a stretch and a batch
  std::uint64_t size = 0;    // bytes of the file; of pieces, of the result as it is in the file
  std::uint64_t at = 0;      // where they go: bytes of the item as it is in the file
  file::PieceRange pieces = {};
};

// Hands out jobs one after the other. Not thread-safe.
class PlanJobs {
 public:
  // order: numbers of items in the order in which they are to be read. chunk: of each item, the most bytes that a job
  // reads. Both must outlive this.
  PlanJobs(std::span<const PlanItem> items, std::span<const std::size_t> order,
           std::function<std::size_t(std::size_t item)> chunk)
      : items_(items), order_(order), chunk_(std::move(chunk)) {}

  enum class Next : std::uint8_t { job, wait, end };
  // admit(item) is asked once for each item, in order, before anything of it is handed out, until it says yes; wait: it
  // said no.
  [[nodiscard]] Next next(PlanJob& job, const std::function<bool(std::size_t item)>& admit);

 private:
  [[nodiscard]] const PlanItem& item(std::size_t at) const noexcept { return items_[order_[at]]; }
  [[nodiscard]] PlanJob stretch(const PlanItem& item, std::size_t chunk);
  [[nodiscard]] PlanJob pieces(const PlanItem& item, std::size_t chunk);
  [[nodiscard]] bool batches(std::size_t at, std::size_t chunk) const noexcept;
  void extend(PlanJob& batch, std::size_t chunk, const std::function<bool(std::size_t item)>& admit);

  std::span<const PlanItem> items_;
  std::span<const std::size_t> order_;
  std::function<std::size_t(std::size_t item)> chunk_;
  std::size_t at_ = 0;      // in order_
  bool admitted_ = false;   // the item there
  std::uint64_t done_ = 0;  // bytes of it, as they are in the file, that were handed out
};

}  // namespace safetensors::plan
