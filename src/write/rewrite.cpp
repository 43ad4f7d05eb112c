// Plans and writes the output of an edit.
//
// The plan is a CheckpointLayout, also for one file. write_inputs() copies and casts the tensors.
//
// The metadata of several files becomes a union, with a choice for keys that have several values.
#include "write/rewrite.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <thread>
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
#include "os/path.h"
#include "write/file_head.h"
#include "write/input.h"
#include "write/old_files.h"
#include "write/tensor_file.h"

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

// Returns the inputs of each file, and adds the casts to the report. The report must outlive them.
std::vector<std::vector<Input>> inputs_for(const RewriteItems& items, const CheckpointLayout& layout,
                                           RewriteReport& report) {
  const auto name = [](const RewriteTensor* item) { return name_of(*item); };
  std::vector<const RewriteTensor*> named;  // sorted
  named.reserve(items.size());
  for (const RewriteTensor& item : items) named.push_back(&item);
  std::ranges::sort(named, {}, name);
  report.casts.reserve(static_cast<std::size_t>(std::ranges::count_if(items, is_cast)));  // for pointers into it
  std::vector<std::vector<Input>> inputs;
  for (const CheckpointFile& file : layout.files()) {
    inputs.emplace_back().reserve(file.header.size());  // a list that grows would take twice the memory
    for (const TensorInfo& planned : file.header.tensors()) {
      const RewriteTensor& item = **std::ranges::lower_bound(named, planned.name, {}, name);
      Input& input = inputs.back().emplace_back(item.tensor, planned);
      if (!is_cast(item)) continue;
      report.casts.push_back({name_of(item), item.tensor.dtype(), planned.dtype, item.tensor.numel()});
      input.losses = &report.casts.back().losses;
    }
  }
  return inputs;
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
    return Rewrite(items, *layout, folder);
  });
}

Status Rewrite::check_old_files(PathView output, const Checkpoint& input) const noexcept {
  return base::guarded([&]() -> Status {
    return folder_ ? write::check_old_files(os::generic_path(output), layout_, input) : Status();
  });
}

Result<RewriteReport> Rewrite::write(PathView output, const CheckpointWriteOptions& options) const noexcept {
  return write::with_path(output, [&]() -> Result<RewriteReport> {
    if (options.shared) return base::make_error(Errc::unsupported, "a rewrite is the work of one process", output);
    RewriteReport report{{}, {}, items_};
    auto inputs = write::inputs_for(*items_, layout_, report);
    WriteOptions file = options.write;
    file.new_file = file.new_file || (!folder_ && options.new_folder);
    write::WriteSession session(file, output, layout_.files(), false, std::this_thread::get_id());
    Status status = folder_ ? session.create_model(output, layout_, options)
                            : session.create_file(output, layout_.files()[0].header, file);
    if (status) status = write::write_inputs(session, inputs, file);
    if (!status) return std::move(status).error();
    if (folder_) report.files = session.folder->names();
    return report;
  });
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

}  // namespace

Result<std::optional<MetadataPairs>> merge_metadata(Span<const File> files, MetadataConflict conflict) noexcept {
  return base::guarded([&]() -> Result<std::optional<MetadataPairs>> {
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
  });
}

}  // namespace v0
}  // namespace safetensors
