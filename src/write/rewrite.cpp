// Plans and writes the output of an edit.
//
// The plan is a CheckpointLayout, also for one file. The work is then a list of jobs: a whole tensor that is copied, or
// a chunk of a tensor that is cast. A few threads take the jobs in order. Writer and CheckpointWriter do the rest: they
// place the bytes, check that none is missing, and put the files in place together.
#include <safetensors/edit.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "file/file.h"
#include "format/cast.h"
#include "format/cast_losses.h"
#include "format/header_writer.h"
#include "format/printable.h"
#include "format/shard_index.h"
#include "os/parallel.h"
#include "write/old_files.h"

namespace safetensors {
inline namespace v0 {

struct Rewrite::State {
  State(std::span<const RewriteTensor> given, const CheckpointLayout& made, bool to_folder)
      : tensors(given.begin(), given.end()), layout(made), folder(to_folder) {}

  const std::vector<RewriteTensor> tensors;
  const CheckpointLayout layout;
  const bool folder;
};

}  // namespace v0

namespace write {
namespace {

constexpr std::uint64_t kMaxChunk = std::uint64_t{1} << 20;  // bytes of a chunk that is cast, before or after the cast
constexpr unsigned kThreads = 4;
constexpr std::string_view kExtension = ".safetensors";

std::string_view new_name(const RewriteTensor& tensor) {
  return tensor.name ? std::string_view(*tensor.name) : tensor.tensor.name();
}

Dtype new_dtype(const RewriteTensor& tensor) {
  return tensor.dtype.value_or(tensor.tensor.dtype());
}

bool is_cast(const RewriteTensor& tensor) {
  return new_dtype(tensor) != tensor.tensor.dtype();
}

Status check_cast(const RewriteTensor& tensor) {
  const Dtype from = tensor.tensor.dtype();
  const Dtype to = new_dtype(tensor);
  if (format::castable(from, to)) return {};
  std::string possible;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype))
      possible += (possible.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  const std::string casts = possible.empty() ? "there is no cast from this dtype" : "it can be cast to " + possible;
  return base::make_error(Errc::dtype_mismatch, format::tensor_named(tensor.tensor.name()) + ": cannot cast " +
                                                    std::string(to_string(from)) + " to " + std::string(to_string(to)) +
                                                    ": " + casts);
}

// "`name` of `path`"
std::string origin(const Tensor& tensor) {
  const File file = tensor.file();
  const std::string& path = file.path();
  return "`" + printable(tensor.name()) + "`" + (path.empty() ? "" : " of `" + printable(path) + "`");
}

Status check_rewrite(std::span<const RewriteTensor> tensors) {
  std::map<std::string_view, const Tensor*> seen;
  for (const RewriteTensor& tensor : tensors) {
    if (Status status = check_cast(tensor); !status) return status;
    const auto [first, added] = seen.emplace(new_name(tensor), &tensor.tensor);
    if (added) continue;
    return base::make_error(Errc::duplicate_name, "two tensors get the name `" + printable(new_name(tensor)) +
                                                      "`: " + origin(*first->second) + " and " + origin(tensor.tensor));
  }
  return {};
}

// The files of the tensors, each once, in the order of their first tensors.
class InputFiles {
 public:
  explicit InputFiles(std::span<const RewriteTensor> tensors) {
    for (const RewriteTensor& tensor : tensors) {
      const auto [place, added] = indexes_.emplace(state_of(tensor), files_.size());
      if (added) files_.push_back(place->first);
    }
  }

  [[nodiscard]] std::size_t index_of(const RewriteTensor& tensor) const { return indexes_.at(state_of(tensor)); }

  // Whether the tensors of every file are in the order of the writer. Tensors without bytes have no place.
  [[nodiscard]] bool in_writers_order() const {
    return std::ranges::all_of(files_, [](const detail::FileState* file) {
      const TensorInfo* before = nullptr;
      for (const TensorInfo& tensor : file->header.tensors()) {
        if (tensor.nbytes() == 0) continue;
        if (before != nullptr && !format::written_before(before->dtype, before->name, tensor.dtype, tensor.name))
          return false;
        before = &tensor;
      }
      return true;
    });
  }

  // The stem that all files have, or `model`.
  [[nodiscard]] std::string stem() const {
    std::set<std::string_view> stems;
    for (const detail::FileState* file : files_) stems.insert(stem_of(file->path));
    const bool usable = stems.size() == 1 && !stems.begin()->empty() && (*stems.begin())[0] != '.' &&
                        format::check_shard_name(std::string(*stems.begin()) + std::string(kExtension)) == nullptr;
    return usable ? std::string(*stems.begin()) : std::string("model");
  }

 private:
  static const detail::FileState* state_of(const RewriteTensor& tensor) {
    return &detail::Access<Tensor>::state(tensor.tensor);
  }
  static std::string_view stem_of(std::string_view path) {
    std::string_view name = path.substr(path.rfind('/') + 1);
    if (const auto shard = format::parse_numbered_shard(name)) return shard->stem;
    return name.ends_with(kExtension) ? name.substr(0, name.size() - kExtension.size()) : std::string_view();
  }

  std::map<const detail::FileState*, std::size_t> indexes_;
  std::vector<const detail::FileState*> files_;
};

Result<CheckpointLayout> lay_out_rewrite(std::span<const RewriteTensor> tensors, const RewriteOptions& options) {
  const InputFiles files(tensors);
  const bool keep_files = options.folder && !options.max_shard_size;
  std::vector<CheckpointTensor> described;
  described.reserve(tensors.size());
  for (const RewriteTensor& tensor : tensors) {
    described.push_back({.name = new_name(tensor), .dtype = new_dtype(tensor), .shape = tensor.tensor.shape()});
    if (keep_files) described.back().file = files.index_of(tensor);
  }
  const std::string stem = !options.folder ? "model" : options.stem ? *options.stem : files.stem();
  const TensorOrder kept = files.in_writers_order() ? TensorOrder::writer : TensorOrder::given;
  return CheckpointLayout::make(
      described,
      {.max_shard_size = options.folder ? options.max_shard_size.value_or(~std::uint64_t{0}) : ~std::uint64_t{0},
       .stem = stem,
       .metadata = options.metadata.value_or(MetadataPairs()),
       .metadata_present = options.metadata.has_value(),
       .index_metadata = options.index_metadata,
       .layout = {.data_alignment = options.data_alignment, .order = options.order.value_or(kept)}});
}

// A tensor that is copied, or some elements of a tensor that is cast.
struct Job {
  std::size_t tensor;       // index in the list of tensors
  std::uint64_t first = 0;  // element
  std::uint64_t count = 0;  // elements; 0: the whole tensor
  std::size_t report = 0;   // index of the CastReport
};

// `Output` is a Writer or a CheckpointWriter.
template <class Output>
class RewriteTasks final : public os::Tasks {
 public:
  RewriteTasks(std::span<const RewriteTensor> tensors, Output& output) : tensors_(tensors), output_(output) {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (is_cast(tensors_[i])) {
        add_chunks(i);
      } else {
        jobs_.push_back({.tensor = i});
      }
    }
  }

  [[nodiscard]] std::size_t count() const { return jobs_.size(); }
  [[nodiscard]] RewriteReport report() && { return std::move(report_); }

  [[nodiscard]] Status run(std::size_t index) noexcept override {
    return base::guarded([&]() -> Status {
      const Job& job = jobs_[index];
      const RewriteTensor& tensor = tensors_[job.tensor];
      return is_cast(tensor) ? cast_chunk(job, tensor) : output_.copy(new_name(tensor), tensor.tensor);
    });
  }

 private:
  void add_chunks(std::size_t index) {
    const RewriteTensor& tensor = tensors_[index];
    const Dtype from = tensor.tensor.dtype();
    const Dtype to = new_dtype(tensor);
    const std::uint64_t numel = tensor.tensor.numel();
    report_.casts.push_back({.name = std::string(new_name(tensor)), .from = from, .to = to, .numel = numel});
    const std::uint64_t step = kMaxChunk / (std::max(bits(from), bits(to)) / 8);
    for (std::uint64_t first = 0; first < numel; first += std::min(step, numel - first))
      jobs_.push_back({index, first, std::min(step, numel - first), report_.casts.size() - 1});
  }

  Status cast_chunk(const Job& job, const RewriteTensor& tensor) {
    const Dtype from = tensor.tensor.dtype();
    const Dtype to = new_dtype(tensor);
    const auto count = static_cast<std::size_t>(job.count);
    const std::size_t from_size = bits(from) / 8;
    const std::size_t to_size = bits(to) / 8;
    std::vector<std::byte> in(count * from_size);
    std::vector<std::byte> out(count * to_size);
    const TensorInfo& info = tensor.tensor.info();
    Status status =
        detail::Access<Tensor>::state(tensor.tensor).read(info, info.file_offset + job.first * from_size, in);
    if (!status) return status;
    format::cast(from, in.data(), to, out.data(), count);
    const format::CastLosses losses = format::count_cast_losses(from, in.data(), to, count);
    {
      const std::lock_guard lock(mutex_);
      CastReport& report = report_.casts[job.report];
      report.overflow += losses.overflow;
      report.underflow += losses.underflow;
      report.nan += losses.nan;
    }
    return output_.write(new_name(tensor), job.first * to_size, out);
  }

  std::span<const RewriteTensor> tensors_;
  Output& output_;
  std::vector<Job> jobs_;
  std::mutex mutex_;  // guards report_ while tasks run
  RewriteReport report_;
};

// The system lets one thread at a time write to a file through the page cache. So more threads only gain if they have
// more to do than to copy: if they cast, write to several files, or write past the cache, which durable files do.
unsigned threads_for(std::span<const RewriteTensor> tensors, std::size_t files, Durability durability) {
  return durability == Durability::none && files == 1 && std::ranges::none_of(tensors, is_cast) ? 1 : kThreads;
}

template <class Output>
Result<RewriteReport> write_all(std::span<const RewriteTensor> tensors, unsigned threads, Result<Output> output) {
  if (!output) return std::move(output).error();
  RewriteTasks<Output> tasks(tensors, *output);
  if (Status status = os::run_parallel(tasks, tasks.count(), threads); !status) return std::move(status).error();
  if (Status status = output->commit(); !status) return std::move(status).error();
  return std::move(tasks).report();
}

}  // namespace
}  // namespace write

inline namespace v0 {

Rewrite::Rewrite(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

Result<Rewrite> Rewrite::plan(std::span<const RewriteTensor> tensors, const RewriteOptions& options) noexcept {
  return base::guarded([&]() -> Result<Rewrite> {
    if (Status status = write::check_rewrite(tensors); !status) return std::move(status).error();
    const Result<CheckpointLayout> layout = write::lay_out_rewrite(tensors, options);
    if (!layout) return layout.error();
    return Rewrite(std::make_shared<const State>(tensors, *layout, options.folder));
  });
}

const CheckpointLayout& Rewrite::layout() const& noexcept {
  return state_->layout;
}

bool Rewrite::folder() const noexcept {
  return state_->folder;
}

Status Rewrite::check_old_files(PathView output, const Checkpoint& input) const noexcept {
  return base::guarded([&]() -> Status {
    return state_->folder ? write::check_old_files(std::string(output), state_->layout, input) : Status();
  });
}

Result<RewriteReport> Rewrite::write(PathView output, const CheckpointWriteOptions& options) const noexcept {
  Result<RewriteReport> result = base::guarded([&]() -> Result<RewriteReport> {
    if (options.shared) return base::make_error(Errc::unsupported, "a rewrite is the work of one process", output);
    const unsigned threads =
        write::threads_for(state_->tensors, state_->layout.files().size(), options.write.durability);
    if (state_->folder)
      return write::write_all(state_->tensors, threads, CheckpointWriter::create(output, state_->layout, options));
    WriteOptions file = options.write;
    file.new_file = file.new_file || options.new_folder;
    return write::write_all(state_->tensors, threads, Writer::create(output, state_->layout.files()[0].header, file));
  });
  if (result) return result;
  return base::guarded([&]() -> Result<RewriteReport> { return base::with_path(std::move(result).error(), output); });
}

}  // namespace v0
}  // namespace safetensors
