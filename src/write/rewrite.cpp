// Plans and writes the output of an edit.
//
// The plan is a CheckpointLayout, also for one file. The work is then a list of jobs: a whole tensor that is copied, or
// a chunk of a tensor that is cast. A few threads take the jobs in order. Writer and CheckpointWriter do the rest: they
// place the bytes, check that none is missing, and put the files in place together.
//
// A model may have 100,000 small tensors, so a tensor takes 32 bytes here (RewriteItem), and not the 72 bytes of a
// RewriteTensor. Names that do not change stay in the header of their file. CheckpointLayout asks for one tensor at a
// time, so there is no second list of them.
//
// The metadata of several files becomes a union, with a choice for keys that have several values.
#include "write/rewrite.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bump_allocator.h"
#include "base/error.h"
#include "base/exceptions.h"
#include "base/memory_resource.h"
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
#include "write/old_files.h"

namespace safetensors {
namespace write {
struct RewriteItem {
  const TensorInfo* from;  // the tensor of the input
  std::string_view name;   // in the output
  std::uint32_t file;      // index of the file of `from`
  Dtype dtype;             // in the output

  [[nodiscard]] bool is_cast() const noexcept { return dtype != from->dtype; }
};

namespace {

Status check_cast(const RewriteItem& item) {
  const Dtype from = item.from->dtype;
  if (from == Dtype::UNKNOWN)
    return base::make_error(Errc::dtype_mismatch, base::tensor_named(item.from->name) +
                                                      ": has an unknown dtype, expected one of the format's");
  if (format::castable(from, item.dtype)) return {};
  std::string possible;
  for (const Dtype dtype : all_dtypes()) {
    if (dtype != from && format::castable(from, dtype))
      possible += (possible.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  const std::string casts = possible.empty() ? "there is no cast from this dtype" : "it can be cast to " + possible;
  return base::make_error(Errc::dtype_mismatch, base::tensor_named(item.from->name) + ": cannot cast " +
                                                    std::string(to_string(from)) + " to " +
                                                    std::string(to_string(item.dtype)) + ": " + casts);
}

}  // namespace

// Keeps the files of the tensors open. Call const functions from any thread.
class RewriteItems {
 public:
  // Throws std::bad_alloc.
  explicit RewriteItems(std::span<const RewriteTensor> tensors);

  [[nodiscard]] std::size_t size() const noexcept { return items_.size(); }
  [[nodiscard]] const RewriteItem& operator[](std::size_t index) const noexcept { return items_[index]; }
  [[nodiscard]] const File& file(const RewriteItem& item) const noexcept { return files_[item.file]; }
  [[nodiscard]] Tensor tensor(const RewriteItem& item) const noexcept;
  [[nodiscard]] std::size_t count_casts() const noexcept;

  // Errors: dtype_mismatch, duplicate_name.
  [[nodiscard]] Status check() const;
  // Call it after check(). Frees the metadata of the options. Errors: those of CheckpointLayout::make().
  [[nodiscard]] Result<CheckpointLayout> lay_out(RewriteOptions options) const;
  // Sorts the items by their place in the output, so that one thread writes each file from its first byte to its last.
  void sort_by(const CheckpointLayout& layout);

 private:
  std::string_view keep(std::string_view name);
  [[nodiscard]] Error duplicate(const RewriteItem& item) const;
  [[nodiscard]] std::string origin(const RewriteItem& item) const;
  // Returns whether the tensors of every file are in the order of the writer. Ignores tensors without bytes.
  [[nodiscard]] bool in_writers_order() const;
  // The names of the files: those that the options choose, or those that the files of the input have in common.
  [[nodiscard]] format::ModelNames names(const RewriteOptions& options) const;

  std::vector<File> files_;                                         // each once, in the order of their first tensors
  base::BumpAllocator names_{base::heap(), std::size_t{64} << 10};  // the new names
  std::vector<RewriteItem> items_;
};

RewriteItems::RewriteItems(std::span<const RewriteTensor> tensors) {
  if (tensors.size() >= ~std::uint32_t{0}) base::raise(std::bad_alloc());  // indexes have 32 bits
  std::map<const detail::FileState*, std::uint32_t> indexes;
  items_.reserve(tensors.size());
  for (const RewriteTensor& tensor : tensors) {
    const auto next = static_cast<std::uint32_t>(files_.size());
    const auto [file, added] = indexes.emplace(&detail::Access<Tensor>::state(tensor.tensor), next);
    if (added) files_.push_back(tensor.tensor.file());
    const TensorInfo& from = tensor.tensor.info();
    const bool renamed = tensor.name && *tensor.name != from.name;
    items_.push_back({.from = &from,
                      .name = renamed ? keep(*tensor.name) : from.name,
                      .file = file->second,
                      .dtype = tensor.dtype.value_or(from.dtype)});
  }
}

std::string_view RewriteItems::keep(std::string_view name) {
  char* const copy = names_.allocate<char>(name.size());
  std::ranges::copy(name, copy);
  return {copy, name.size()};
}

Tensor RewriteItems::tensor(const RewriteItem& item) const noexcept {
  return detail::Access<Tensor>::make(file(item), *item.from);
}

std::size_t RewriteItems::count_casts() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(items_, &RewriteItem::is_cast));
}

Status RewriteItems::check() const {
  // Indexes, sorted by name, take a tenth of the memory of a set of names.
  std::vector<std::uint32_t> sorted(items_.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, {}, [this](std::uint32_t i) { return std::pair(items_[i].name, i); });
  std::size_t repeated = items_.size();  // the first item with the name of an earlier one
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (items_[sorted[i - 1]].name == items_[sorted[i]].name) repeated = std::min<std::size_t>(repeated, sorted[i]);
  }
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (Status status = check_cast(items_[i]); !status) return status;
    if (i == repeated) return duplicate(items_[i]);
  }
  return {};
}

Error RewriteItems::duplicate(const RewriteItem& item) const {
  const auto first = std::ranges::find(items_, item.name, &RewriteItem::name);
  return base::make_error(Errc::duplicate_name, "two tensors get the name `" + printable(item.name) +
                                                    "`: " + origin(*first) + " and " + origin(item));
}

// "`name` of `path`"
std::string RewriteItems::origin(const RewriteItem& item) const {
  const std::string& path = file(item).path();
  return "`" + printable(item.from->name) + "`" + (path.empty() ? "" : " of `" + printable(path) + "`");
}

bool RewriteItems::in_writers_order() const {
  return std::ranges::all_of(files_, [](const File& file) {
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

format::ModelNames RewriteItems::names(const RewriteOptions& options) const {
  if (!options.folder || options.stem) return format::ModelNames::of_stem(options.stem.value_or("model"));
  std::set<std::string> stems;
  std::vector<std::string> names;
  for (const File& file : options.names_of ? options.names_of->files() : Span<const File>(files_)) {
    names.push_back(file.path().substr(file.path().rfind('/') + 1));
    stems.insert(format::stem_of(names.back()));
  }
  std::string index(options.names_of ? options.names_of->index_name() : std::string_view());
  if (const auto parts = format::parse_index_name(index)) stems = {parts->stem()};
  if (stems.size() != 1 || !format::check_stem(*stems.begin())) return format::ModelNames::of_stem("model");
  if (!format::is_index_name(index)) index = format::index_for(names[0]);
  return format::ModelNames::of_index(index, names);
}

Result<CheckpointLayout> RewriteItems::lay_out(RewriteOptions options) const {
  const bool keep_files = options.folder && !options.max_shard_size;
  const auto describe = [&](std::size_t index) {
    const RewriteItem& item = items_[index];
    CheckpointTensor tensor = {.name = item.name, .dtype = item.dtype, .shape = item.from->shape};
    if (keep_files) tensor.file = item.file;
    return tensor;
  };
  const format::ModelNames names = this->names(options);
  const auto metadata = [&]() -> Result<std::string> {
    // The pairs take several times the memory of the text.
    const std::optional<MetadataPairs> pairs = std::exchange(options.metadata, std::nullopt);
    return pairs ? format::metadata_member(*pairs) : std::string();
  };
  return format::make_layout(
      {items_.size(), describe},
      {.max_shard_size = options.folder ? options.max_shard_size.value_or(~std::uint64_t{0}) : ~std::uint64_t{0},
       .stem = options.stem.value_or("model"),
       .index_metadata = options.index_metadata,
       .layout = {.data_alignment = options.data_alignment,
                  .keep_order = options.keep_order.value_or(!in_writers_order())}},
      metadata, &names);
}

void RewriteItems::sort_by(const CheckpointLayout& layout) {
  struct Place {  // 16 bytes
    std::uint64_t offset;
    std::uint32_t file;
    std::uint32_t item;  // its index; the last key, so that tensors without bytes keep their order
  };
  const auto key = [](const Place& place) { return std::tuple(place.file, place.offset, place.item); };
  const auto place_of = [&](std::uint32_t index) {
    const std::string_view name = items_[index].name;
    const std::size_t file = layout.file_of(name).value_or(0);
    const TensorInfo* const tensor = layout.files()[file].header.find(name);
    return Place{tensor != nullptr ? tensor->begin : 0, static_cast<std::uint32_t>(file), index};
  };
  const auto size = static_cast<std::uint32_t>(items_.size());
  std::uint32_t sorted = 0;
  for (Place before{}; sorted < size; ++sorted) {
    const Place here = place_of(sorted);
    if (key(here) < key(std::exchange(before, here))) break;
  }
  if (sorted == size) return;  // as in most cases, and without memory
  std::vector<Place> places;
  places.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) places.push_back(place_of(i));
  std::ranges::sort(places, {}, key);
  // Each round moves the items of one cycle. places[i].item is i when items_[i] is final.
  for (std::uint32_t first = 0; first < size; ++first) {
    const RewriteItem kept = items_[first];
    std::uint32_t at = first;
    while (places[at].item != first) {
      const std::uint32_t from = std::exchange(places[at].item, at);
      items_[at] = items_[from];
      at = from;
    }
    places[at].item = at;
    items_[at] = kept;
  }
}

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
class RewriteTasks {
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

  [[nodiscard]] Status run(std::size_t index) {
    // A cast tensor without elements has no job. The next tensor has the same first job, and comes later.
    const auto next = std::ranges::upper_bound(first_jobs_, index);
    const auto number = static_cast<std::size_t>(next - first_jobs_.begin()) - 1;
    const RewriteItem& item = items_[number];
    if (!item.is_cast()) return output_.copy(item.name, items_.tensor(item));
    return cast_chunk(number, (index - first_jobs_[number]) * chunk_elements(item));
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
  return options.durability == Durability::none && files == 1 && items.count_casts() == 0 ? 1 : kThreads;
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
    const auto items = std::make_shared<write::RewriteItems>(tensors);
    std::vector<RewriteTensor>().swap(tensors);
    if (Status status = items->check(); !status) return std::move(status).error();
    Result<CheckpointLayout> layout = items->lay_out(std::move(options));
    if (!layout) return std::move(layout).error();
    items->sort_by(*layout);
    return Rewrite(items, *layout, folder);
  });
}

Status Rewrite::check_old_files(PathView output, const Checkpoint& input) const noexcept {
  return base::guarded([&]() -> Status {
    return folder_ ? write::check_old_files(os::generic_path(output), layout_, input) : Status();
  });
}

Result<RewriteReport> Rewrite::write(PathView output, const CheckpointWriteOptions& options) const noexcept {
  Result<RewriteReport> result = base::guarded([&]() -> Result<RewriteReport> {
    if (options.shared) return base::make_error(Errc::unsupported, "a rewrite is the work of one process", output);
    const unsigned threads = write::threads_for(*items_, layout_.files().size(), options.write);
    if (folder_) return write::write_all(*items_, threads, CheckpointWriter::create(output, layout_, options));
    WriteOptions file = options.write;
    file.new_file = file.new_file || options.new_folder;
    return write::write_all(*items_, threads, Writer::create(output, layout_.files()[0].header, file));
  });
  if (result) result->names = items_;
  if (result) return result;
  return base::guarded([&]() -> Result<RewriteReport> { return base::with_path(std::move(result).error(), output); });
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
  std::size_t keys = 0;
  // The two values of a conflict. If several keys conflict, the conflict in the earliest file is reported.
  std::optional<std::pair<Pair, Pair>> found;
  for (std::size_t i = 0; i < merged.size(); i = merged.next_key(i), ++keys) {
    for (std::size_t other = i + 1; other < merged.next_key(i); ++other) {
      const bool earlier = !found || merged[other].header < found->second.header;
      if (earlier && merged[other].value != merged[i].value) found = {merged[i], merged[other]};
    }
  }
  if (found && conflict == MetadataConflict::refuse) return conflict_error(files, found->first, found->second);
  MetadataPairs pairs;
  pairs.reserve(keys);
  for (std::size_t i = 0; i < merged.size();) {
    const std::size_t next = merged.next_key(i);
    const Pair chosen = merged[conflict == MetadataConflict::last ? next - 1 : i];
    pairs.emplace_back(chosen.key, chosen.value);
    i = next;
  }
  return std::optional(std::move(pairs));
}

}  // namespace

Result<std::optional<MetadataPairs>> merge_metadata(Span<const File> files, MetadataConflict conflict) noexcept {
  return base::guarded([&] { return merge(files, conflict); });
}

}  // namespace v0
}  // namespace safetensors
