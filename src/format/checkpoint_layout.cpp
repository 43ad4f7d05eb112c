// Splits the tensors of a model into files.
//
// First it decides which tensors go into which file, in one pass over the tensors. Then it builds the header of each
// file and the text of the index. Nothing depends on the time, on chance, or on a file: processes that make the layout
// from the same arguments agree on it without a message.
#include <safetensors/checkpoint_layout.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "format/index_text.h"
#include "format/layout.h"
#include "format/printable.h"
#include "format/shard_index.h"

namespace safetensors {
inline namespace v0 {

struct CheckpointLayout::State {
  std::string stem;
  std::vector<CheckpointFile> files;
  std::map<std::string_view, std::size_t> file_of;  // an ordered map: nobody can choose names that collide in it
  std::uint64_t total_size = 0;
  std::string index_text;
};

}  // namespace v0

namespace format {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::string_view kIndexExtension = ".safetensors.index.json";

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
  Splitter(std::span<const CheckpointTensor> tensors, std::uint64_t max_size) : tensors_(tensors), max_(max_size) {}

  Result<Split> run() && {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].file.has_value() != tensors_[0].file.has_value())
        return base::make_error(Errc::invalid_argument, "some tensors have a file and others have none");
      if (shares_earlier(i)) continue;
      const Result<std::uint64_t> size = size_in_split(tensors_[i]);
      if (!size) return size.error();
      if (!base::add(split_.total_size, *size, split_.total_size))
        return base::make_error(Errc::size_overflow, "the tensors have more than 2^64-1 bytes");
      if (tensors_[i].file)
        chosen_[*tensors_[i].file].push_back(i);
      else
        place(i, *size);
    }
    for (auto& [number, file] : chosen_) split_.files.push_back(std::move(file));
    if (!current_.empty() || split_.files.empty()) split_.files.push_back(std::move(current_));
    place_sharing();
    return std::move(split_);
  }

 private:
  bool shares_earlier(std::size_t i) {
    if (tensors_[i].storage == 0) return false;
    const auto [found, first] = group_of_.try_emplace(tensors_[i].storage, groups_.size());
    if (first) groups_.emplace_back();
    groups_[found->second].push_back(i);
    return !first;
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
    std::vector<std::size_t> file_of(tensors_.size());
    for (std::size_t file = 0; file < split_.files.size(); ++file) {
      for (const std::size_t tensor : split_.files[file]) file_of[tensor] = file;
    }
    for (const std::vector<std::size_t>& group : groups_) {
      std::vector<std::size_t>& file = split_.files[file_of[group[0]]];
      file.insert(file.end(), group.begin() + 1, group.end());
    }
  }

  std::span<const CheckpointTensor> tensors_;
  const std::uint64_t max_;
  Split split_;
  std::vector<std::size_t> current_;
  std::uint64_t current_size_ = 0;
  std::map<std::size_t, std::vector<std::size_t>> chosen_;  // by CheckpointTensor::file
  std::map<std::uint64_t, std::size_t> group_of_;           // storage to the position in groups_
  std::vector<std::vector<std::size_t>> groups_;  // tensors that share a storage, in the order of the first of each
};

std::string file_name(std::string_view stem, std::size_t index, std::size_t count) {
  std::string name(stem);
  if (count > 1) {
    char number[48];
    std::snprintf(number, sizeof number, "-%05zu-of-%05zu", index + 1, count);
    name += number;
  }
  return name += kExtension;
}

Result<Header> header_of_file(std::span<const CheckpointTensor> tensors, const std::vector<std::size_t>& chosen,
                              const CheckpointLayoutOptions& options) {
  HeaderBuilder builder;
  for (const std::size_t i : chosen) {
    Status status = builder.add(tensors[i].name, tensors[i].dtype, tensors[i].shape);
    if (!status) return std::move(status).error();
  }
  if (options.metadata_present) {
    if (Status status = builder.metadata_present(); !status) return std::move(status).error();
  }
  for (const auto& [key, value] : options.metadata) {
    if (Status status = builder.metadata(key, value); !status) return std::move(status).error();
  }
  return builder.build(options.layout);
}

}  // namespace
}  // namespace format

inline namespace v0 {

CheckpointLayout::CheckpointLayout(std::shared_ptr<const State> state) noexcept : state_(std::move(state)) {}

Result<CheckpointLayout> CheckpointLayout::make(std::span<const CheckpointTensor> tensors,
                                                const CheckpointLayoutOptions& options) noexcept {
  return base::guarded([&]() -> Result<CheckpointLayout> {
    if (Status status = format::check_stem(options.stem); !status) return std::move(status).error();
    const Result<format::Split> split = format::Splitter(tensors, options.max_shard_size).run();
    if (!split) return split.error();
    const auto state = std::make_shared<State>();
    state->stem = options.stem;
    state->total_size = split->total_size;
    const std::size_t count = split->files.size();
    for (std::size_t i = 0; i < count; ++i) {
      Result<Header> header = format::header_of_file(tensors, split->files[i], options);
      if (!header) return std::move(header).error();
      state->files.push_back({format::file_name(options.stem, i, count), *std::move(header)});
    }
    format::IndexText text;
    if (Status status = text.metadata(state->total_size, options.index_metadata); !status)
      return std::move(status).error();
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t tensor : split->files[i]) {
        const std::string_view name = state->files[i].header.find(tensors[tensor].name)->name;
        if (!state->file_of.emplace(name, i).second)
          return base::make_error(Errc::duplicate_name, "two tensors are named `" + printable(name) + "`");
        text.tensor(name, state->files[i].name);
      }
    }
    if (count > 1) state->index_text = std::move(text).finish();
    return CheckpointLayout(state);
  });
}

std::span<const CheckpointFile> CheckpointLayout::files() const& noexcept {
  return state_->files;
}

std::optional<std::size_t> CheckpointLayout::file_of(std::string_view tensor) const noexcept {
  const auto found = state_->file_of.find(tensor);
  return found == state_->file_of.end() ? std::nullopt : std::optional(found->second);
}

std::uint64_t CheckpointLayout::total_size() const noexcept {
  return state_->total_size;
}

std::string_view CheckpointLayout::stem() const& noexcept {
  return state_->stem;
}

std::string CheckpointLayout::index_name() const {
  return state_->stem + std::string(format::kIndexExtension);
}

std::string_view CheckpointLayout::index_text() const& noexcept {
  return state_->index_text;
}

}  // namespace v0
}  // namespace safetensors
