// Plans and writes the output of an edit.
//
// The plan is a CheckpointLayout, also for one file. The work is then a list of jobs: a whole tensor that is copied, or
// a chunk of a tensor that is cast. A few threads take the jobs in order. Writer and CheckpointWriter do the rest: they
// place the bytes, check that none is missing, and put the files in place together.
#include <safetensors/edit.h>

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "file/file.h"
#include "format/dtype/cast.h"
#include "format/dtype/cast_losses.h"
#include "os/parallel.h"
#include "os/path.h"
#include "write/old_files.h"
#include "write/rewrite_items.h"

namespace safetensors {
inline namespace v0 {

struct Rewrite::State {
  State(const std::vector<RewriteTensor>& tensors, bool to_folder) : items(tensors), folder(to_folder) {}

  write::RewriteItems items;               // const after plan()
  std::optional<CheckpointLayout> layout;  // plan() sets it
  const bool folder;
};

}  // namespace v0

namespace write {
namespace {

constexpr std::uint64_t kMaxChunk = std::uint64_t{1} << 20;  // bytes of a chunk that is cast, before or after the cast
constexpr unsigned kThreads = 4;

// Number of elements in a chunk of a tensor that is cast.
std::uint64_t chunk_elements(const RewriteItem& item) {
  return kMaxChunk / (std::max(bits(item.from->dtype), bits(item.dtype)) / 8);
}

// A job is a tensor that is copied, or one chunk of a tensor that is cast. The jobs of a tensor follow each other.
// `Output` is a Writer or a CheckpointWriter.
template <class Output>
class RewriteTasks final : public os::Tasks {
 public:
  RewriteTasks(const RewriteItems& items, Output& output) : items_(items), output_(output) {
    first_jobs_.reserve(items_.size());
    const std::size_t casts = items_.count_casts();
    cast_items_.reserve(casts);
    report_.casts.reserve(casts);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      first_jobs_.push_back(count_);
      count_ += items_[i].is_cast() ? add_cast(i) : 1;
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] RewriteReport report() && { return std::move(report_); }

  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&]() -> Status {
      // A cast tensor without elements has no job. The next tensor has the same first job, and comes later.
      const auto next = std::ranges::upper_bound(first_jobs_, index);
      const auto number = static_cast<std::size_t>(next - first_jobs_.begin()) - 1;
      const RewriteItem& item = items_[number];
      if (!item.is_cast()) return output_.copy(item.name, items_.tensor(item));
      return cast_chunk(number, (index - first_jobs_[number]) * chunk_elements(item));
    });
  }

 private:
  // Returns the number of chunks.
  std::size_t add_cast(std::size_t number) {
    const RewriteItem& item = items_[number];
    const std::uint64_t numel = item.from->numel();
    cast_items_.push_back(number);
    report_.casts.push_back({.name = item.name, .from = item.from->dtype, .to = item.dtype, .numel = numel});
    const std::uint64_t step = chunk_elements(item);
    return static_cast<std::size_t>(numel / step + (numel % step == 0 ? 0 : 1));
  }

  Status cast_chunk(std::size_t number, std::uint64_t first) {
    const RewriteItem& item = items_[number];
    const TensorInfo& info = *item.from;
    const auto count = static_cast<std::size_t>(std::min(chunk_elements(item), info.numel() - first));
    const std::size_t from_size = bits(info.dtype) / 8;
    const std::size_t to_size = bits(item.dtype) / 8;
    std::vector<std::byte> in(count * from_size);
    std::vector<std::byte> out(count * to_size);
    const detail::FileState& file = *detail::Access<File>::state(items_.file(item));
    if (Status status = file.read(info, info.file_offset + first * from_size, in); !status) return status;
    const std::size_t done = format::try_cast(info.dtype, in.data(), item.dtype, out.data(), count);
    if (done != count) {
      const std::uint64_t index = first + done;
      return file.failed(info, info.file_offset + index * from_size,
                         format::out_of_range(info.dtype, in.data() + done * from_size, item.dtype, index, info.shape));
    }
    add_losses(number, format::count_cast_losses(info.dtype, in.data(), item.dtype, count));
    return output_.write(item.name, first * to_size, out);
  }

  void add_losses(std::size_t number, const format::CastLosses& losses) {
    const std::lock_guard lock(mutex_);
    const auto cast = std::ranges::lower_bound(cast_items_, number) - cast_items_.begin();
    CastReport& report = report_.casts[static_cast<std::size_t>(cast)];
    report.overflow += losses.overflow;
    report.underflow += losses.underflow;
    report.nan += losses.nan;
  }

  const RewriteItems& items_;
  Output& output_;
  std::vector<std::size_t> first_jobs_;  // index of the first job of each item
  std::vector<std::size_t> cast_items_;  // the items of report_.casts
  std::size_t count_ = 0;
  std::mutex mutex_;  // guards report_ while tasks run
  RewriteReport report_;
};

// The system lets one thread at a time write to a file through the page cache. So more threads help only if they do
// more than copy: if they cast, write to several files, or bypass the page cache, as for durable files. A file system
// that cannot rename may want a file from its first to its last byte.
unsigned threads_for(const RewriteItems& items, std::size_t files, const WriteOptions& options) {
  if (options.in_place_if_no_rename) return 1;
  return options.durability == Durability::none && files == 1 && items.count_casts() == 0 ? 1 : kThreads;
}

template <class Output>
Result<RewriteReport> write_all(const RewriteItems& items, unsigned threads, Result<Output> output) {
  if (!output) return std::move(output).error();
  RewriteTasks<Output> tasks(items, *output);
  if (Status status = os::run_parallel(tasks, tasks.count(), threads); !status) return std::move(status).error();
  if (Status status = output->commit(); !status) return std::move(status).error();
  RewriteReport report = std::move(tasks).report();
  if constexpr (std::is_same_v<Output, CheckpointWriter>) {
    Result<std::vector<std::string>> names = output->file_names();
    if (!names) return std::move(names).error();
    report.files = *std::move(names);
  }
  return report;
}

}  // namespace
}  // namespace write

inline namespace v0 {

Rewrite::Rewrite(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

Result<Rewrite> Rewrite::plan(std::vector<RewriteTensor> tensors, RewriteOptions options) noexcept {
  return base::guarded([&]() -> Result<Rewrite> {
    const auto state = std::make_shared<State>(tensors, options.folder);
    std::vector<RewriteTensor>().swap(tensors);
    if (Status status = state->items.check(); !status) return std::move(status).error();
    Result<CheckpointLayout> layout = state->items.lay_out(std::move(options));
    if (!layout) return std::move(layout).error();
    state->layout = *std::move(layout);
    state->items.sort_by(*state->layout);
    return Rewrite(state);
  });
}

const CheckpointLayout& Rewrite::layout() const& noexcept {
  return *state_->layout;
}

bool Rewrite::folder() const noexcept {
  return state_->folder;
}

Status Rewrite::check_old_files(PathView output, const Checkpoint& input) const noexcept {
  return base::guarded([&]() -> Status {
    return state_->folder ? write::check_old_files(os::generic_path(output), *state_->layout, input) : Status();
  });
}

Result<RewriteReport> Rewrite::write(PathView output, const CheckpointWriteOptions& options) const noexcept {
  Result<RewriteReport> result = base::guarded([&]() -> Result<RewriteReport> {
    if (options.shared) return base::make_error(Errc::unsupported, "a rewrite is the work of one process", output);
    const write::RewriteItems& items = state_->items;
    const CheckpointLayout& layout = *state_->layout;
    const unsigned threads = write::threads_for(items, layout.files().size(), options.write);
    if (state_->folder) return write::write_all(items, threads, CheckpointWriter::create(output, layout, options));
    WriteOptions file = options.write;
    file.new_file = file.new_file || options.new_folder;
    return write::write_all(items, threads, Writer::create(output, layout.files()[0].header, file));
  });
  if (result) result->names = state_;
  if (result) return result;
  return base::guarded([&]() -> Result<RewriteReport> { return base::with_path(std::move(result).error(), output); });
}

}  // namespace v0
}  // namespace safetensors
