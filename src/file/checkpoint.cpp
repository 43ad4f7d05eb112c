// Opens the files of a checkpoint, then puts their tensors into one index of names. It is an error if two tensors have
// the same name. The error names both files.
//
// The calling thread opens the files alone as long as each takes less than kQuickOpen: the headers are then small and
// in the page cache, and to start threads would take longer. At the first other file that takes longer, several threads
// open the rest.
#include "file/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "file/checkpoint_paths.h"
#include "file/did_you_mean.h"
#include "file/file.h"
#include "os/descriptor.h"
#include "os/parallel.h"
#include "os/path.h"

namespace safetensors {
namespace file {
namespace {

using detail::CheckpointState;

constexpr unsigned kThreads = 16;  // more than there are processors, because threads wait for the storage
constexpr std::chrono::microseconds kQuickOpen(100);
constexpr std::size_t kMaxTensors = format::NameIndex::kNone - 1;
constexpr std::size_t kTensorsPerCheck = 4096;  // between two checks for cancellation

// Names the index in the error of a shard that does not exist.
Error explained(const CheckpointPaths::Part& part, Error error) {
  if (part.index == nullptr || error.os_error != ENOENT) return error;
  const std::string& path = part.index->path;
  error.message += base::concat({" (a shard that `", printable(path.substr(path.rfind('/') + 1)),
                                 "` names: download it, or name the files that you have)"});
  return error;
}

// A file of a checkpoint that is being opened.
struct OpenedFile {
  File file;
  std::vector<const TensorInfo*> tensors;  // the visible ones, by offset
};

class OpenFiles {
 public:
  OpenFiles(const CheckpointPaths& paths, const OpenOptions& options, std::size_t descriptors,
            base::Cancellation& cancellation)
      : paths_(paths),
        options_(options),
        cancellation_(cancellation),
        between_(paths.size() <= descriptors ? os::Between::stays_open : os::Between::is_closed),
        opened_(paths.size()) {
    if (paths.size() > 1) options_.threads = 1;  // one thread reads the header of each file
  }

  [[nodiscard]] Status open_all(unsigned threads);

  // Puts the files and their visible tensors into the state, after all tasks have run. Errors: duplicate_name,
  // out_of_memory, cancelled. Throws std::bad_alloc.
  Status join(CheckpointState& state);

 private:
  Status open(std::size_t index);
  Status select(const CheckpointPaths::Part& part, OpenedFile& opened);

  const CheckpointPaths& paths_;
  OpenOptions options_;
  base::Cancellation& cancellation_;
  const os::Between between_;
  std::vector<std::unique_ptr<OpenedFile>> opened_;
};

Status OpenFiles::open_all(unsigned threads) {
  std::size_t begun = 0;
  while (begun < opened_.size()) {
    const auto start = std::chrono::steady_clock::now();
    if (Status status = open(begun++); !status) return status;
    // The first file does not count: in a new process it also waits for pages of the program.
    if (begun > 1 && std::chrono::steady_clock::now() - start >= kQuickOpen) break;
  }
  const auto open_rest = [&](std::size_t index) { return open(begun + index); };
  return os::run_parallel(opened_.size() - begun, threads, open_rest, &cancellation_);
}

Status OpenFiles::open(std::size_t index) {
  const CheckpointPaths::Part& part = paths_[index];
  Result<File> file = open_file(paths_.path(part), options_, between_, cancellation_);
  if (!file) return explained(part, std::move(file).error());
  opened_[index] = std::make_unique<OpenedFile>(OpenedFile{*std::move(file), {}});
  return select(part, *opened_[index]);
}

Status OpenFiles::select(const CheckpointPaths::Part& part, OpenedFile& opened) {
  if (part.index == nullptr) {
    opened.tensors.reserve(opened.file.header().size());
    for (const TensorInfo& tensor : opened.file.header().tensors()) opened.tensors.push_back(&tensor);
    return {};
  }
  const format::ShardIndex& index = *part.index->shards;
  const std::span<const std::uint32_t> wanted = index.of_shard(part.file);
  opened.tensors.reserve(wanted.size());
  std::size_t seen = 0;
  for (const TensorInfo& tensor : opened.file.header().tensors()) {
    if (++seen % kTensorsPerCheck == 0 && cancellation_.requested()) return base::opening_cancelled();
    const std::uint32_t entry = index.find(tensor.name);
    if (entry != index.kNone && index[entry].shard == part.file) opened.tensors.push_back(&tensor);
  }
  if (opened.tensors.size() == wanted.size()) return {};
  for (const std::uint32_t entry : wanted) {
    if (opened.file.header().find(index[entry].tensor) != nullptr) continue;
    Error error = base::make_error(Errc::invalid_index,
                                   {base::tensor_named(index[entry].tensor), " is not in `",
                                    printable(index.shard(part.file)), "`, where the index has it"},
                                   part.index->path);
    error.offset = index[entry].offset;
    return error;
  }
  return {};
}

Status OpenFiles::join(CheckpointState& state) {
  std::size_t count = 0;
  for (const auto& file : opened_) count += file->tensors.size();
  if (count > kMaxTensors) return base::out_of_memory();
  state.files.reserve(opened_.size());
  state.entries.reserve(count);
  for (auto& file : opened_) {
    for (const TensorInfo* tensor : file->tensors) {
      state.names.push(state.allocator, base::hash(tensor->name, state.hash_key), count);
      state.entries.push_back({tensor, static_cast<std::uint32_t>(state.files.size())});
    }
    state.files.push_back(std::move(file->file));
    file.reset();
    if (cancellation_.requested()) return base::opening_cancelled();
  }
  const auto name_at = [&](std::size_t i) { return state.entries[i].info->name; };
  const std::uint32_t twice = state.names.build(state.allocator, name_at, &cancellation_);
  if (cancellation_.stopped()) return base::opening_cancelled();
  if (twice == format::NameIndex::kNone) return {};
  std::size_t first = 0;
  while (name_at(first) != name_at(twice)) ++first;
  const auto path = [&](std::size_t i) {
    return base::concat({"`", printable(state.files[state.entries[i].file].path()), "`"});
  };
  return base::make_error(Errc::duplicate_name, {base::tensor_named(name_at(twice)), " is in two files: ", path(first),
                                                 " and ", path(twice)});
}

using Resolved = std::unique_ptr<const CheckpointPaths>;

Result<Resolved> resolve_paths(std::span<const std::string> paths, base::Cancellation& cancellation) {
  auto parts = std::make_unique<CheckpointPaths>(cancellation);
  for (const std::string& path : paths) {
    if (Status status = parts->add(path); !status) return std::move(status).error();
  }
  return Resolved(std::move(parts));
}

bool has_path(const CheckpointPaths& parts, std::string_view path) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (os::generic_path(parts.path(parts[i])) == path) return true;
  }
  return false;
}

Result<std::shared_ptr<CheckpointState>> open_resolved(const CheckpointPaths& parts, const OpenOptions& options,
                                                       std::size_t descriptors, base::Cancellation& cancellation) {
  auto state = std::make_shared<CheckpointState>();
  if (const IndexFile* const index = parts.index())
    state->index = {index->path.substr(index->folder.size()), index->shards->metadata()};
  // Every thread needs a descriptor.
  const std::size_t threads = std::min<std::size_t>(options.threads == 0 ? kThreads : options.threads, descriptors);
  const auto open_files = [&](std::size_t open_at_once, std::size_t at_work) {
    OpenFiles files(parts, options, open_at_once, cancellation);
    Status status = files.open_all(static_cast<unsigned>(at_work));
    return status ? files.join(*state) : status;
  };
  Status status = open_files(descriptors, threads);
  // The rest of the process may hold most descriptors. One free descriptor is enough to go on with one thread, if each
  // file is closed between two uses.
  if (!status && status.error().os_error == EMFILE && parts.size() > 1) status = open_files(0, 1);
  if (!status) return std::move(status).error();
  return state;
}

Error not_found(const detail::CheckpointState& state, std::string_view name) {
  DidYouMean similar(name);
  for (const auto& entry : state.entries) {
    if (!similar.offer(entry.info->name)) break;
  }
  return no_tensor(similar, count_of(state.files.size(), "file"), state.entries.size(), state.path);
}

}  // namespace

// A save may remove the old index and the old files after this call has read their names. So if one of them is gone,
// the call begins again, unless the paths still lead to it. It begins a limited number of times, because a program may
// save without end.
Result<std::shared_ptr<const CheckpointState>> open_checkpoint(std::span<const std::string> paths,
                                                               const OpenOptions& options,
                                                               std::size_t descriptors) noexcept {
  constexpr int kMaxAttempts = 16;
  return base::guarded([&]() -> Result<std::shared_ptr<const CheckpointState>> {
    if (paths.empty()) return base::make_error(Errc::invalid_argument, "no paths were given");
    base::Cancellation cancellation(options.parse.cancelled);
    Error gone;  // the error of the attempt before, which did not find a file
    for (int attempt = 1;; ++attempt) {
      const Result<Resolved> parts = resolve_paths(paths, cancellation);  // an index takes memory: one at a time
      if (attempt > 1 && parts && has_path(**parts, gone.path)) return gone;
      auto opened = parts ? open_resolved(**parts, options, descriptors, cancellation) : parts.error();
      if (opened && paths.size() == 1) (*opened)->path = paths[0];
      if (opened) return std::shared_ptr<const CheckpointState>(*std::move(opened));
      gone = std::move(opened).error();
      if (gone.os_error != ENOENT || attempt == kMaxAttempts) return gone;
    }
  });
}

}  // namespace file

inline namespace v0 {

std::size_t Tensors::size() const noexcept {
  if (file_ != nullptr) return file_->header.size();
  return checkpoint_ == nullptr ? 0 : checkpoint_->entries.size();
}

Tensor Tensors::operator[](std::size_t index) const noexcept {
  if (file_ != nullptr) return {file_->shared_from_this(), &file_->header.tensors()[index]};
  const detail::CheckpointState::Entry& entry = checkpoint_->entries[index];
  return detail::Access<Tensor>::make(checkpoint_->files[entry.file], *entry.info);
}

Result<Checkpoint> Checkpoint::open(PathView path, const OpenOptions& options) noexcept {
  return base::guarded([&]() -> Result<Checkpoint> {
    const std::string one(path);
    return open(std::span(&one, 1), options);
  });
}

Result<Checkpoint> Checkpoint::open(Span<const std::string> paths, const OpenOptions& options) noexcept {
  auto state = file::open_checkpoint(paths, options, os::descriptor_limit());
  if (!state) return std::move(state).error();
  return Checkpoint(*std::move(state));
}

Result<std::vector<std::string>> Checkpoint::find_files(PathView path) noexcept {
  return base::guarded([&]() -> Result<std::vector<std::string>> {
    base::Cancellation cancellation;
    file::CheckpointPaths paths(cancellation);
    if (Status status = paths.add(std::string(path)); !status) return std::move(status).error();
    std::vector<std::string> files;
    for (std::size_t i = 0; i < paths.size(); ++i) files.push_back(paths.path(paths[i]));
    return files;
  });
}

Result<Tensor> Checkpoint::tensor(std::string_view name) const noexcept {
  if (const std::uint32_t index = state_->find(name); index != format::NameIndex::kNone) return tensors()[index];
  return base::guarded([&]() -> Result<Tensor> { return file::not_found(*state_, name); });
}

bool Checkpoint::contains(std::string_view name) const noexcept {
  return state_->find(name) != format::NameIndex::kNone;
}

Span<const File> Checkpoint::files() const& noexcept {
  return state_->files;
}

std::string_view Checkpoint::index_name() const& noexcept {
  return state_->index && !state_->path.empty() ? std::string_view(state_->index->name) : std::string_view();
}

std::string_view Checkpoint::index_metadata() const& noexcept {
  return state_->index ? std::string_view(state_->index->metadata) : std::string_view();
}

}  // namespace v0
}  // namespace safetensors
