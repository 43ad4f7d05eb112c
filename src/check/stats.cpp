// Computes statistics of tensors. The tensors are cut into chunks of 768 KiB, and threads take the chunks in order.
// Sums depend on the order of additions, so the statistics of chunks are merged in the order of the chunks: a thread
// that is early leaves its statistics in a list. Chunks begin in order, so this list stays short.
#include <safetensors/stats.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "check/summary.h"
#include "file/file.h"
#include "io/progress.h"
#include "os/parallel.h"

namespace safetensors {
namespace check {
namespace {

// 3/4 MiB: whole elements also for F6, and less than the usual L2 cache.
constexpr std::uint64_t kStatsChunkBytes = std::uint64_t{3} << 18;

class Statistics final : public os::Tasks {
 public:
  explicit Statistics(const StatsOptions& options) : options_(options) {}

  void add(const Tensor& tensor) {
    if (tensor.nbytes() > 0) {
      parts_.push_back({chunks_, found_.size()});
      chunks_ += (tensor.nbytes() - 1) / kStatsChunkBytes + 1;
      bytes_ += tensor.nbytes();
    }
    found_.push_back({.tensor = tensor});
    summaries_.emplace_back();
  }

  Result<std::vector<TensorStats>> run_all() {
    meter_.emplace(options_.progress, bytes_, 0, std::string_view(), std::this_thread::get_id());
    const unsigned wanted = options_.threads == 0 ? os::usable_processors() : options_.threads;
    const auto threads = static_cast<unsigned>(std::min<std::uint64_t>(wanted, chunks_));
    if (Status status = os::run_parallel(*this, threads, threads); !status) return std::move(status).error();
    if (Status status = meter_->finish(); !status) return std::move(status).error();
    for (std::size_t i = 0; i < found_.size(); ++i) complete(found_[i], summaries_[i]);
    return std::move(found_);
  }

  // Takes chunks until no chunk is left. The argument is the number of the thread.
  Status run(std::size_t) noexcept override {
    return base::guarded([&]() -> Status {
      Summarizer summarizer(options_.histogram);
      std::vector<std::byte> buffer;
      for (std::uint64_t chunk = next_++; chunk < chunks_ && !failed_; chunk = next_++) {
        if (Status status = summarize(chunk, summarizer, buffer); !status) {
          failed_ = true;
          return status;
        }
      }
      return {};
    });
  }

 private:
  // A tensor with bytes.
  struct Part {
    std::uint64_t first_chunk;  // of all tensors
    std::size_t index;          // of found_
  };

  [[nodiscard]] const Part& part_of(std::uint64_t chunk) const {
    return *std::prev(std::ranges::upper_bound(parts_, chunk, {}, &Part::first_chunk));
  }

  Status summarize(std::uint64_t chunk, Summarizer& summarizer, std::vector<std::byte>& buffer) {
    const Part& part = part_of(chunk);
    const TensorInfo& info = found_[part.index].tensor.info();
    const std::uint64_t begin = (chunk - part.first_chunk) * kStatsChunkBytes;
    buffer.resize(static_cast<std::size_t>(std::min(kStatsChunkBytes, info.nbytes() - begin)));
    const detail::FileState& file = detail::Access<Tensor>::state(found_[part.index].tensor);
    if (Status status = file.read(info, info.file_offset + begin, buffer); !status) return status;
    Summary summary;
    summarizer.add(info.dtype, buffer.data(), buffer.size(), summary);
    {
      const std::lock_guard lock(mutex_);
      if (options_.histogram) summarizer.exponents().move_to(found_[part.index].histogram);
      waiting_.emplace(chunk, summary);
      for (auto first = waiting_.begin(); first != waiting_.end() && first->first == merged_; ++merged_) {
        summaries_[part_of(merged_).index].add(first->second);
        first = waiting_.erase(first);
      }
    }
    return meter_->add(buffer.size());
  }

  static void complete(TensorStats& found, const Summary& summary) {
    found.count = summary.finite + summary.nan + summary.positive_infinity + summary.negative_infinity;
    found.nan = summary.nan;
    found.positive_infinity = summary.positive_infinity;
    found.negative_infinity = summary.negative_infinity;
    found.zeros = summary.zeros;
    found.min = summary.min;
    found.max = summary.max;
    if (summary.finite == 0) return;
    found.mean = summary.mean();
    found.standard_deviation = summary.standard_deviation();
  }

  const StatsOptions& options_;
  std::vector<Part> parts_;
  std::vector<TensorStats> found_;
  std::vector<Summary> summaries_;  // of the chunks before merged_
  std::uint64_t chunks_ = 0;
  std::uint64_t bytes_ = 0;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::optional<io::ProgressMeter> meter_;
  std::mutex mutex_;  // guards the histograms, summaries_ and the members below
  std::map<std::uint64_t, Summary> waiting_;
  std::uint64_t merged_ = 0;  // number of chunks that are merged
};

}  // namespace
}  // namespace check

inline namespace v0 {

Result<std::vector<TensorStats>> stats(Tensors tensors, const StatsOptions& options) noexcept {
  return base::guarded([&]() -> Result<std::vector<TensorStats>> {
    check::Statistics statistics(options);
    for (const Tensor& tensor : tensors) {
      if (options.select && !options.select(tensor)) continue;
      if (tensor.dtype() == Dtype::UNKNOWN)
        return detail::Access<Tensor>::state(tensor).describe(
            tensor.info(), base::make_error(Errc::dtype_mismatch, "a tensor of unknown dtype has no numbers"));
      statistics.add(tensor);
    }
    return statistics.run_all();
  });
}

}  // namespace v0
}  // namespace safetensors
