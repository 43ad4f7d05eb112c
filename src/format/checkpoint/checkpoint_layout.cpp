// Splits the tensors of a model into files.
//
// First it decides which tensors go into which file, in one pass over the tensors. Then it builds the header of each
// file and the text of the index. Nothing depends on the time, on chance, or on a file: processes that make the layout
// from the same arguments agree on it without a message.
#include "format/checkpoint/checkpoint_layout.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "format/checkpoint/index_text.h"
#include "format/checkpoint/model_names.h"
#include "format/header/layout.h"
#include "format/header/new_header.h"

namespace safetensors {
inline namespace v0 {

struct CheckpointLayout::State {
  std::string index_name;
  std::vector<CheckpointFile> files;
  std::uint64_t total_size = 0;
  std::string index_text;

  // All tensors with the positions of their files, sorted by name. One file needs no list, because its header has an
  // index.
  std::vector<std::pair<std::string_view, std::uint32_t>> places;

  // Makes the list of places, after all files are there. Error: duplicate_name. Throws std::bad_alloc.
  Status sort_places(std::size_t count) {
    if (files.size() == 1) return {};
    places.reserve(count);
    for (std::uint32_t file = 0; file < files.size(); ++file) {
      for (const TensorInfo& tensor : files[file].header.tensors()) places.emplace_back(tensor.name, file);
    }
    std::ranges::sort(places);
    const auto twice = std::ranges::adjacent_find(places, {}, [](const auto& place) { return place.first; });
    if (twice == places.end()) return {};
    return base::make_error(Errc::duplicate_name, "two tensors are named `" + printable(twice->first) + "`");
  }
};

}  // namespace v0

namespace format {
namespace {

// The positions of tensors, file by file.
struct Split {
  std::vector<std::vector<std::size_t>> files;
  std::uint64_t total_size = 0;
};

Result<std::uint64_t> size_in_split(const CheckpointTensor& tensor) {
  std::uint64_t nbytes = 0;
  if (const Errc code = count_bytes(tensor.dtype, tensor.shape, nbytes); code != Errc::ok)
    return bytes_error(code, tensor.name, tensor.dtype, tensor.shape);
  return tensor.storage_bytes.value_or(nbytes);
}

class Splitter {
 public:
  Splitter(const TensorSequence& tensors, std::uint64_t max_size) : tensors_(tensors), max_(max_size) {}

  Result<Split> run() && {
    const bool chosen = tensors_.size != 0 && tensors_.at(0).file.has_value();
    for (std::size_t i = 0; i < tensors_.size; ++i) {
      const CheckpointTensor tensor = tensors_.at(i);
      if (tensor.file.has_value() != chosen)
        return base::make_error(Errc::invalid_argument, "some tensors have a file and others have none");
      if (shares_earlier(i, tensor)) continue;
      const Result<std::uint64_t> size = size_in_split(tensor);
      if (!size) return size.error();
      if (!base::add(split_.total_size, *size, split_.total_size))
        return base::make_error(Errc::size_overflow, "the tensors have more than 2^64-1 bytes");
      if (chosen)
        chosen_[*tensor.file].push_back(i);
      else
        place(i, *size);
    }
    for (auto& [number, file] : chosen_) split_.files.push_back(std::move(file));
    if (!current_.empty() || split_.files.empty()) split_.files.push_back(std::move(current_));
    place_sharing();
    return std::move(split_);
  }

 private:
  bool shares_earlier(std::size_t i, const CheckpointTensor& tensor) {
    if (tensor.storage == 0 && !has_no_memory(tensor)) return false;
    const auto [found, first] = group_of_.try_emplace(tensor.storage, groups_.size());
    if (first) groups_.emplace_back();
    groups_[found->second].push_back(i);
    return !first;
  }

  // Returns whether a tensor has no bytes, and the caller gives no storage for it. In torch, the storages of all such
  // tensors are equal, and huggingface_hub takes them for one storage.
  static bool has_no_memory(const CheckpointTensor& tensor) {
    return !tensor.file && !tensor.storage_bytes && std::ranges::find(tensor.shape, 0U) != tensor.shape.end();
  }

  void place(std::size_t i, std::uint64_t size) {
    if (size > max_) {
      split_.files.push_back({i});
      return;
    }
    if (size > max_ - current_size_) {
      split_.files.push_back(std::exchange(current_, {}));
      current_size_ = 0;
    }
    current_.push_back(i);
    current_size_ += size;
  }

  // The tensors of a group follow its first one, which has a file.
  void place_sharing() {
    if (groups_.empty()) return;
    std::vector<std::size_t> file_of(tensors_.size);
    for (std::size_t file = 0; file < split_.files.size(); ++file) {
      for (const std::size_t tensor : split_.files[file]) file_of[tensor] = file;
    }
    for (const std::vector<std::size_t>& group : groups_) {
      std::vector<std::size_t>& file = split_.files[file_of[group[0]]];
      file.insert(file.end(), group.begin() + 1, group.end());
    }
  }

  const TensorSequence& tensors_;
  const std::uint64_t max_;
  Split split_;
  std::vector<std::size_t> current_;
  std::uint64_t current_size_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> chosen_;  // by CheckpointTensor::file
  std::map<std::uint64_t, std::size_t> group_of_;           // storage to the position in groups_; 0: has_no_memory()
  std::vector<std::vector<std::size_t>> groups_;  // tensors that share a storage, in the order of the first of each
};

// Makes the headers of all files.
Result<std::vector<CheckpointFile>> make_files(const TensorSequence& tensors, const Split& split,
                                               const CheckpointLayoutOptions& options,
                                               const Result<std::string>& metadata, const ModelNames& names) {
  if (!metadata) return metadata.error();
  std::vector<CheckpointFile> files;
  const std::size_t count = split.files.size();
  for (std::size_t i = 0; i < count; ++i) {
    Result<std::vector<NewTensor>> chosen = new_tensors(split.files[i].size(), [&](std::size_t position) {
      const CheckpointTensor tensor = tensors.at(split.files[i][position]);
      return new_tensor(tensor.name, tensor.dtype, tensor.shape);
    });
    if (!chosen) return std::move(chosen).error();
    Result<NewHeaderText> text = new_header_text(*std::move(chosen), *metadata, options.layout);
    if (!text) return std::move(text).error();
    // One file of several is small, so the copy of its names does not raise the peak of the memory.
    Result<Header> header = new_header(*std::move(text), count > 1 ? KeptText::names : KeptText::all);
    if (!header) return std::move(header).error();
    files.push_back({names.file(i, count), *std::move(header)});
  }
  return files;
}

// Returns nothing if there is only one file, but checks the metadata of the index.
Result<std::string> make_index_text(const TensorSequence& tensors, const Split& split,
                                    const std::vector<CheckpointFile>& files, std::string_view metadata) {
  IndexText text;
  if (Status status = text.metadata(split.total_size, metadata); !status) return std::move(status).error();
  if (files.size() == 1) return std::string();
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const std::size_t tensor : split.files[i]) text.tensor(tensors.at(tensor).name, files[i].name);
  }
  return std::move(text).finish();
}

}  // namespace
}  // namespace format

inline namespace v0 {

CheckpointLayout::CheckpointLayout(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

namespace detail {

template <>
struct Access<CheckpointLayout> {
  static Result<CheckpointLayout> make(const format::TensorSequence& tensors, const CheckpointLayoutOptions& options,
                                       const Result<std::string>& metadata, const format::ModelNames* given) {
    if (Status status = format::check_stem(options.stem); !status) return std::move(status).error();
    const Result<format::Split> split = format::Splitter(tensors, options.max_shard_size).run();
    if (!split) return split.error();
    const format::ModelNames names = given != nullptr ? *given : format::ModelNames::of_stem(options.stem);
    Result<std::vector<CheckpointFile>> files = format::make_files(tensors, *split, options, metadata, names);
    if (!files) return std::move(files).error();
    const auto state = std::make_shared<CheckpointLayout::State>();
    state->index_name = names.index;
    state->files = *std::move(files);
    state->total_size = split->total_size;
    Result<std::string> text = format::make_index_text(tensors, *split, state->files, options.index_metadata);
    if (!text) return std::move(text).error();
    state->index_text = *std::move(text);
    if (Status status = state->sort_places(tensors.size); !status) return std::move(status).error();
    return CheckpointLayout(state);
  }
};

}  // namespace detail

Result<CheckpointLayout> CheckpointLayout::make(Span<const CheckpointTensor> tensors,
                                                const CheckpointLayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointLayout> {
    const bool present = options.metadata_present || !options.metadata.empty();
    return format::make_layout({tensors.size(), [&](std::size_t i) { return tensors[i]; }}, options,
                               present ? format::metadata_member(options.metadata) : std::string());
  });
}

Span<const CheckpointFile> CheckpointLayout::files() const& noexcept {
  return state_->files;
}

std::optional<std::size_t> CheckpointLayout::file_of(std::string_view tensor) const noexcept {
  const State& state = *state_;
  if (state.files.size() == 1)
    return state.files[0].header.find(tensor) != nullptr ? std::optional<std::size_t>(0) : std::nullopt;
  const auto found = std::ranges::lower_bound(state.places, tensor, {}, [](const auto& place) { return place.first; });
  const bool exists = found != state.places.end() && found->first == tensor;
  return exists ? std::optional<std::size_t>(found->second) : std::nullopt;
}

std::uint64_t CheckpointLayout::total_size() const noexcept {
  return state_->total_size;
}

std::string CheckpointLayout::index_name() const {
  return state_->index_name;
}

std::string_view CheckpointLayout::index_text() const& noexcept {
  return state_->index_text;
}

}  // namespace v0

namespace format {

std::string stem_of(const CheckpointLayout& layout) {
  return parse_index_name(layout.index_name())->stem();
}

Result<CheckpointLayout> make_layout(const TensorSequence& tensors, const CheckpointLayoutOptions& options,
                                     const Result<std::string>& metadata, const ModelNames* names) {
  return detail::Access<CheckpointLayout>::make(tensors, options, metadata, names);
}

}  // namespace format
}  // namespace safetensors
