// Plans and writes the output of an edit.
//
// The plan is a CheckpointLayout, also for one file. The work is then a list of jobs: a whole tensor that is copied, or
// a chunk of a tensor that is cast. A few threads take the jobs in order. Writer and CheckpointWriter do the rest: they
// place the bytes, check that none is missing, and put the files in place together.
//
// The metadata of several files becomes a union, with a choice for keys that have several values.
#include "write/rewrite.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "file/file.h"
#include "format/checkpoint/checkpoint_layout.h"
#include "format/checkpoint/model_names.h"
#include "format/dtype/cast.h"
#include "format/header/header_writer.h"
#include "format/header/merged_metadata.h"
#include "format/header/new_header.h"
#include "os/parallel.h"
#include "os/path.h"
#include "write/file_head.h"
#include "write/old_files.h"

namespace safetensors {
namespace write {
namespace {

using RewriteItems = std::vector<RewriteTensor>;

std::string_view name_of(const RewriteTensor& item) noexcept {
  return item.name ? std::string_view(*item.name) : item.tensor.info().name;
}

Dtype dtype_of(const RewriteTensor& item) noexcept {
  return item.dtype.value_or(item.tensor.dtype());
}

bool is_cast(const RewriteTensor& item) noexcept {
  return dtype_of(item) != item.tensor.dtype();
}

Status check_cast(const RewriteTensor& item) {
  const Dtype from = item.tensor.dtype();
  const Dtype to = dtype_of(item);
  const std::string tensor = base::tensor_named(item.tensor.info().name);
  if (from == Dtype::UNKNOWN)
    return base::make_error(Errc::dtype_mismatch, tensor + ": has an unknown dtype, expected one of the format's");
  if (format::castable(from, to)) return {};
  std::string possible;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype))
      possible += (possible.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  const std::string casts = possible.empty() ? "there is no cast from this dtype" : "it can be cast to " + possible;
  return base::make_error(Errc::dtype_mismatch, tensor + ": cannot cast " + std::string(to_string(from)) + " to " +
                                                    std::string(to_string(to)) + ": " + casts);
}

// "`name` of `path`"
std::string origin(const RewriteTensor& item) {
  const File file = item.tensor.file();
  return "`" + printable(item.tensor.info().name) + "`" +
         (file.path().empty() ? "" : " of `" + printable(file.path()) + "`");
}

// Returns whether the tensors of every file are in the order of the writer. Ignores tensors without bytes.
bool in_writers_order(std::span<const File> files) {
  return std::ranges::all_of(files, [](const File& file) {
    const TensorInfo* before = nullptr;
    for (const TensorInfo& tensor : file.header().tensors()) {
      if (tensor.nbytes() == 0) continue;
      if (before != nullptr && !format::written_before(before->dtype, before->name, tensor.dtype, tensor.name))
        return false;
      before = &tensor;
    }
    return true;
  });
}

// The names of the files: those that the options choose, or those that the files of the input have in common.
format::ModelNames names_for(const RewriteOptions& options, std::span<const File> input) {
  if (!options.folder || options.stem) return format::ModelNames::of_stem(options.stem.value_or("model"));
  std::set<std::string> stems;
  std::vector<std::string> names;
  for (const File& file : options.names_of ? options.names_of->files() : Span<const File>(input)) {
    names.push_back(file.path().substr(file.path().rfind('/') + 1));
    stems.insert(format::stem_of(names.back()));
  }
  std::string index(options.names_of ? options.names_of->index_name() : std::string_view());
  if (const auto parts = format::parse_index_name(index)) stems = {parts->stem()};
  if (stems.size() != 1 || !format::check_stem(*stems.begin())) return format::ModelNames::of_stem("model");
  if (!format::is_index_name(index)) index = format::index_for(names[0]);
  return format::ModelNames::of_index(index, names);
}

// Errors: dtype_mismatch, duplicate_name.
Status check(const RewriteItems& items) {
  std::map<std::string_view, const RewriteTensor*> named;
  for (const RewriteTensor& item : items) {
    if (Status status = check_cast(item); !status) return status;
    const auto [first, added] = named.emplace(name_of(item), &item);
    if (!added)
      return base::make_error(Errc::duplicate_name, "two tensors get the name `" + printable(name_of(item)) +
                                                        "`: " + origin(*first->second) + " and " + origin(item));
  }
  return {};
}

// Call it after check(). Frees the metadata of the options. Errors: those of CheckpointLayout::make().
Result<CheckpointLayout> lay_out(const RewriteItems& items, RewriteOptions options) {
  std::vector<File> files;  // each once, in the order of their first tensors
  std::vector<std::size_t> file_of;
  std::map<const detail::FileState*, std::size_t> indexes;
  for (const RewriteTensor& item : items) {
    const auto [file, added] = indexes.emplace(&detail::Access<Tensor>::state(item.tensor), files.size());
    if (added) files.push_back(item.tensor.file());
    file_of.push_back(file->second);
  }
  const bool keep_files = options.folder && !options.max_shard_size;
  const auto describe = [&](std::size_t index) {
    const RewriteTensor& item = items[index];
    CheckpointTensor tensor = {.name = name_of(item), .dtype = dtype_of(item), .shape = item.tensor.shape()};
    if (keep_files) tensor.file = file_of[index];
    return tensor;
  };
  const format::ModelNames names = names_for(options, files);
  const Result<std::string> metadata = options.metadata ? format::metadata_member(*options.metadata) : std::string();
  options.metadata.reset();  // the pairs take several times the memory of the text
  return format::make_layout(
      {items.size(), describe},
      {.max_shard_size = options.folder ? options.max_shard_size.value_or(~std::uint64_t{0}) : ~std::uint64_t{0},
       .stem = options.stem.value_or("model"),
       .index_metadata = options.index_metadata,
       .layout = {.data_alignment = options.data_alignment,
                  .keep_order = options.keep_order.value_or(!in_writers_order(files))}},
      metadata, &names);
}

// Sorts the items by their offsets in the output, so that one thread writes each file from its first byte to its last.
void sort_by(const CheckpointLayout& layout, RewriteItems& items) {
  std::vector<std::tuple<std::size_t, std::uint64_t, std::size_t>> keys;  // the file, the offset, the item
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::size_t file = layout.file_of(name_of(items[i])).value_or(0);
    const TensorInfo* const tensor = layout.files()[file].header.find(name_of(items[i]));
    keys.emplace_back(file, tensor != nullptr ? tensor->begin : 0, i);
  }
  if (std::ranges::is_sorted(keys)) return;  // as in most cases
  std::ranges::sort(keys);
  RewriteItems sorted;
  sorted.reserve(items.size());
  for (const auto& key : keys) sorted.push_back(std::move(items[std::get<2>(key)]));
  items = std::move(sorted);
}

constexpr std::uint64_t kMaxChunk = std::uint64_t{1} << 20;  // bytes of a chunk that is cast, before or after the cast
constexpr unsigned kThreads = 4;

// Number of elements in a chunk of a tensor that is cast.
std::uint64_t chunk_elements(const RewriteTensor& item) {
  return kMaxChunk / (std::max(bits(item.tensor.dtype()), bits(dtype_of(item))) / 8);
}

// A job is a tensor that is copied, or one chunk of a tensor that is cast. The jobs of a tensor follow each other.
// `Output` is a Writer or a CheckpointWriter.
template <class Output>
class RewriteTasks {
 public:
  RewriteTasks(const RewriteItems& items, Output& output) : items_(items), output_(output) {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      first_jobs_.push_back(count_);
      count_ += is_cast(items_[i]) ? add_cast(i) : 1;
    }
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] RewriteReport report() && { return std::move(report_); }

  [[nodiscard]] Status run(std::size_t index) {
    // A cast tensor without elements has no job. The next tensor has the same first job, and comes later.
    const auto next = std::ranges::upper_bound(first_jobs_, index);
    const auto number = static_cast<std::size_t>(next - first_jobs_.begin()) - 1;
    const RewriteTensor& item = items_[number];
    if (!is_cast(item)) return output_.copy(name_of(item), item.tensor);
    return cast_chunk(number, (index - first_jobs_[number]) * chunk_elements(item));
  }

 private:
  // Returns the number of chunks.
  std::size_t add_cast(std::size_t number) {
    const RewriteTensor& item = items_[number];
    const std::uint64_t numel = item.tensor.numel();
    cast_items_.push_back(number);
    report_.casts.push_back({.name = name_of(item), .from = item.tensor.dtype(), .to = dtype_of(item), .numel = numel});
    const std::uint64_t step = chunk_elements(item);
    return static_cast<std::size_t>(numel / step + (numel % step == 0 ? 0 : 1));
  }

  Status cast_chunk(std::size_t number, std::uint64_t first) {
    const RewriteTensor& item = items_[number];
    const TensorInfo& info = item.tensor.info();
    const Dtype to = dtype_of(item);
    const auto count = static_cast<std::size_t>(std::min(chunk_elements(item), info.numel() - first));
    const std::size_t from_size = bits(info.dtype) / 8;
    const std::size_t to_size = bits(to) / 8;
    std::vector<std::byte> in(count * from_size);
    std::vector<std::byte> out(count * to_size);
    const detail::FileState& file = detail::Access<Tensor>::state(item.tensor);
    if (Status status = file.read(info, info.file_offset + first * from_size, in); !status) return status;
    const std::size_t done = format::try_cast(info.dtype, in.data(), to, out.data(), count);
    if (done != count) {
      const std::uint64_t index = first + done;
      return file.failed(info, info.file_offset + index * from_size,
                         format::out_of_range(info.dtype, in.data() + done * from_size, to, index, info.shape));
    }
    add_losses(number, format::count_cast_losses(info.dtype, in.data(), to, count));
    return output_.write(name_of(item), first * to_size, out);
  }

  void add_losses(std::size_t number, const format::CastLosses& losses) {
    const std::lock_guard lock(mutex_);
    const auto cast = std::ranges::lower_bound(cast_items_, number) - cast_items_.begin();
    report_.casts[static_cast<std::size_t>(cast)].losses += losses;
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
  return options.durability == Durability::none && files == 1 && std::ranges::none_of(items, is_cast) ? 1 : kThreads;
}

template <class Output>
Result<RewriteReport> write_all(const RewriteItems& items, unsigned threads, Result<Output> output) {
  if (!output) return std::move(output).error();
  RewriteTasks<Output> tasks(items, *output);
  Status status = os::run_parallel(tasks.count(), threads, [&](std::size_t index) { return tasks.run(index); });
  if (status) status = output->commit();
  if (!status) return std::move(status).error();
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

Result<Rewrite> Rewrite::plan(std::vector<RewriteTensor> tensors, RewriteOptions options) noexcept {
  return base::guarded([&]() -> Result<Rewrite> {
    const bool folder = options.folder;
    const auto items = std::make_shared<std::vector<RewriteTensor>>(std::move(tensors));
    if (Status status = write::check(*items); !status) return std::move(status).error();
    Result<CheckpointLayout> layout = write::lay_out(*items, std::move(options));
    if (!layout) return std::move(layout).error();
    write::sort_by(*layout, *items);
    return Rewrite(items, *layout, folder);
  });
}

Status Rewrite::check_old_files(PathView output, const Checkpoint& input) const noexcept {
  return base::guarded([&]() -> Status {
    return folder_ ? write::check_old_files(os::generic_path(output), layout_, input) : Status();
  });
}

Result<RewriteReport> Rewrite::write(PathView output, const CheckpointWriteOptions& options) const noexcept {
  Result<RewriteReport> result = write::with_path(output, [&]() -> Result<RewriteReport> {
    if (options.shared) return base::make_error(Errc::unsupported, "a rewrite is the work of one process", output);
    const unsigned threads = write::threads_for(*items_, layout_.files().size(), options.write);
    if (folder_) return write::write_all(*items_, threads, CheckpointWriter::create(output, layout_, options));
    WriteOptions file = options.write;
    file.new_file = file.new_file || options.new_folder;
    return write::write_all(*items_, threads, Writer::create(output, layout_.files()[0].header, file));
  });
  if (result) result->names = items_;
  return result;
}

namespace {

using Pair = format::MergedMetadata::Pair;

constexpr std::size_t kShown = 60;  // bytes of a key or a value

Error conflict_error(std::span<const File> files, const Pair& first, const Pair& second) {
  return base::make_error(Errc::invalid_argument, "metadata key " + base::shown_name(first.key, kShown) + " is " +
                                                      base::shown_name(first.value, kShown) + " in `" +
                                                      printable(files[first.header].path()) + "` and " +
                                                      base::shown_name(second.value, kShown) + " in `" +
                                                      printable(files[second.header].path()) + "`");
}

Result<std::optional<MetadataPairs>> merge(std::span<const File> files, MetadataConflict conflict) {
  std::vector<Metadata> headers;
  bool present = false;
  for (const File& file : files) {
    headers.push_back(file.metadata());
    present = present || file.metadata().present();
  }
  if (!present) return std::optional<MetadataPairs>();
  const format::MergedMetadata merged(std::move(headers));
  MetadataPairs pairs;
  std::size_t keys = 0;
  for (std::size_t i = 0; i < merged.size(); i = merged.next_key(i)) ++keys;
  pairs.reserve(keys);  // a list that grows would take twice the memory
  for (std::size_t i = 0, next = 0; i < merged.size(); i = next) {
    next = merged.next_key(i);
    for (std::size_t other = i + 1; conflict == MetadataConflict::refuse && other < next; ++other)
      if (merged[other].value != merged[i].value) return conflict_error(files, merged[i], merged[other]);
    const Pair chosen = merged[conflict == MetadataConflict::last ? next - 1 : i];
    pairs.emplace_back(chosen.key, chosen.value);
  }
  return std::optional(std::move(pairs));
}

}  // namespace

Result<std::optional<MetadataPairs>> merge_metadata(Span<const File> files, MetadataConflict conflict) noexcept {
  return base::guarded([&] { return merge(files, conflict); });
}

}  // namespace v0
}  // namespace safetensors
