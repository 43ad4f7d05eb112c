// Makes and checks indexes. Only headers are read, one file after the other, and no file stays open. The shards of a
// model are the files that its index names, and those in the folder that the numbers in their names tell of.
#include "write/checkpoint_index.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "base/cancellation.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "file/checkpoint_paths.h"
#include "format/checkpoint/index_text.h"
#include "format/checkpoint/model_names.h"
#include "format/checkpoint/shard_index.h"
#include "io/atomic_file.h"
#include "os/directory.h"
#include "os/path.h"
#include "write/file_head.h"

namespace safetensors {
namespace write {
namespace {

using format::ShardIndex;
using Names = std::vector<std::string>;

std::string quoted_name(std::string_view name) {
  return "`" + printable(name) + "`";
}

// Error: not_found, if a number is missing.
Status check_numbers(const format::ShardSet& set, std::string_view folder) {
  if (set.complete()) return {};
  return base::make_error(Errc::not_found, "the folder has " + set.missing_text(), folder);
}

// Returns the names of the files of the folder, or of `below` in it, which is empty or ends with a separator.
Result<Names> files_in(const std::string& folder, const std::string& below = {}) {
  const std::string path = below.empty() ? folder : os::join_path(folder, below);
  Result<Names> names = os::list_directory(path.empty() ? "." : path);
  if (names) {
    std::erase_if(*names, [&](const std::string& name) {
      return !name.ends_with(format::kShardExtension) ||
             os::kind_of(os::join_path(path, name)) == os::PathKind::directory;
    });
    for (std::string& name : *names) name.insert(0, below);
  }
  return names;
}

// The files beside those that belong to a model for sure.
struct OtherFiles {
  Names shards;                        // of the same sets, in the folder
  Names stray;                         // all others in the folder
  std::vector<format::ShardSet> sets;  // with the shards
};

// names: relative to the folder. They may or may not exist.
Result<OtherFiles> other_files(const std::string& folder, const Names& names) {
  std::set<std::string> folders = {""};  // of files of the model, in the folder
  for (const std::string& name : names) folders.insert(name.substr(0, name.rfind('/') + 1));
  Names listed;
  for (const std::string& below : folders) {
    Result<Names> found = files_in(folder, below);
    if (!found && below.empty()) return std::move(found).error();
    if (found) std::ranges::move(*found, std::back_inserter(listed));
  }
  const std::set<std::string_view> known(names.begin(), names.end());
  OtherFiles others;
  for (std::string& name : listed) {
    if (!known.contains(name)) others.stray.push_back(std::move(name));
  }
  Names all = names;
  all.insert(all.end(), others.stray.begin(), others.stray.end());
  for (format::ShardSet& set : format::shard_sets(all)) {
    const auto is_known = [&](const std::string& name) { return known.contains(name); };
    if (std::ranges::none_of(set.names, is_known)) continue;
    std::ranges::remove_copy_if(set.names, std::back_inserter(others.shards), is_known);
    others.sets.push_back(std::move(set));
  }
  std::erase_if(others.stray,
                [&](const std::string& name) { return std::ranges::find(others.shards, name) != others.shards.end(); });
  return others;
}

// Readers refuse an index with a name that is not printable everywhere, or that leads elsewhere on some system.
Status check_names(const Names& names, const std::string& folder) {
  for (const std::string& name : names) {
    const char* why = format::check_shard_name(name);
    if (why == nullptr && !base::check_utf8("name", name, name)) why = "it is not valid UTF-8";
    if (why != nullptr)
      return base::make_error(Errc::invalid_argument,
                              "no index may name the file " + quoted_name(name) + ": " + why + "; rename it", folder);
  }
  return {};
}

// An index that is about to be made.
class IndexMaker {
 public:
  IndexMaker(std::string folder, const std::optional<std::string>& stem) : folder_(std::move(folder)), stem_(stem) {}

  Result<CheckpointIndex> make() {
    Status status = stem_ ? format::check_stem(*stem_) : Status();
    if (status) status = find_old();
    if (status) status = choose_files();
    if (status) status = check_names(index_.files, folder_);
    if (status) status = read_headers();
    if (status) status = check_old_tensors();
    if (status) status = write_text();
    if (!status) return std::move(status).error();
    return std::move(index_);
  }

 private:
  Status find_old() {
    if (folder_.ends_with(".json") && os::kind_of(folder_) != os::PathKind::directory) {
      const std::string path = std::exchange(folder_, folder_.substr(0, folder_.rfind('/') + 1));
      return read_old(path);
    }
    const Result<Names> names = os::list_directory(folder_);
    for (std::size_t i = 0; stem_ && names && i < names->size(); ++i) {
      const auto parts = format::parse_index_name((*names)[i]);
      if (parts && parts->stem() == *stem_) return read_old(os::join_path(folder_, (*names)[i]));
    }
    if (stem_) return {};
    file::CheckpointPaths paths(cancellation_);
    const Status status = paths.add(folder_);
    if (status) return paths.index() == nullptr ? Status() : read_old(paths.index()->path);
    if (status.error().code == Errc::invalid_index) return read_old(status.error().path);
    return names && std::ranges::any_of(*names, format::is_index_name) ? status : Status();
  }

  // An index that cannot be parsed has only a name.
  Status read_old(const std::string& path) {
    if (os::kind_of(path) == os::PathKind::nothing) return {};
    auto index = file::read_index(path, cancellation_);
    if (!index && index.error().code != Errc::invalid_index) return base::with_path(std::move(index).error(), path);
    index_.name = path.substr(path.rfind('/') + 1);
    if (index) old_ = *std::move(index);
    return {};
  }

  // Takes the files of the old index and the other shards of the model. If a file of the old index is missing, or if
  // there is no old index, takes the numbered files, or else all files. It also takes the other files of the old index.
  Status choose_files() {
    for (std::uint32_t i = 0; old_ && i < old_->shard_count(); ++i) index_.files.emplace_back(old_->shard(i));
    const auto exists = [&](const std::string& name) {
      return os::kind_of(os::join_path(folder_, name)) != os::PathKind::nothing;
    };
    if (index_.files.empty() || !std::ranges::all_of(index_.files, exists)) {
      std::set<std::string> files;
      std::ranges::copy_if(index_.files, std::inserter(files, files.end()), exists);
      if (Status status = choose_numbered(); !status) {
        Error lost = std::move(status).error();
        // As if the file of the index were opened.
        if (lost.code == Errc::not_found && !index_.files.empty()) lost.os_error = ENOENT;
        return lost;
      }
      files.insert(index_.files.begin(), index_.files.end());
      index_.files.assign(files.begin(), files.end());
      return {};
    }
    Result<OtherFiles> others = other_files(folder_, index_.files);
    if (!others) return std::move(others).error();
    std::ranges::move(others->shards, std::back_inserter(index_.files));
    std::ranges::sort(index_.files);
    for (const format::ShardSet& set : others->sets) {
      if (Status status = check_numbers(set, folder_); !status) return status;
    }
    return {};
  }

  Status choose_numbered() {
    Result<Names> names = files_in(folder_);
    if (!names) return std::move(names).error();
    if (names->empty()) return base::make_error(Errc::not_found, "a folder without a safetensors file", folder_);
    Names numbered;
    std::ranges::copy_if(*names, std::back_inserter(numbered), [&](const std::string& name) {
      return format::parse_shard_name(name) && (!stem_ || format::stem_of(name) == *stem_);
    });
    std::vector<format::ModelFiles> models = format::models_of(numbered);
    std::erase_if(models, [](const format::ModelFiles& model) { return model.shards.names.empty(); });
    if (models.size() > 1) {
      std::string message = "a folder with numbered files of " + std::to_string(models.size()) + " models:";
      for (const format::ModelFiles& model : models) message += " " + quoted_name(model.shards.names[0]);
      return base::make_error(Errc::ambiguous_checkpoint, std::move(message), folder_);
    }
    const std::string stem = models.empty() ? stem_.value_or("model") : models[0].stem;
    Status status = models.empty() ? Status() : check_numbers(models[0].shards, folder_);
    if (status) status = format::check_stem(stem);
    if (!status) return base::with_path(std::move(status).error(), folder_);
    index_.files = models.empty() ? *std::move(names) : std::move(models[0].shards.names);
    if (!index_.name.empty()) return {};
    index_.name = models.empty() ? format::ModelNames::of_stem(stem).index : format::index_for(index_.files[0]);
    return read_old(os::join_path(folder_, index_.name));
  }

  Status read_headers() {
    for (std::size_t i = 0; i < index_.files.size(); ++i) {
      const Result<File> file = File::open(os::join_path(folder_, index_.files[i]), {.access = Access::read});
      if (!file) return file.error();
      headers_.push_back(file->header());
      for (const TensorInfo& tensor : headers_.back().tensors()) {
        const auto [home, added] = holders_.emplace(tensor.name, i);
        if (added || is_indexed(tensor.name, home->second)) continue;
        if (!is_indexed(tensor.name, i))
          return base::make_error(Errc::duplicate_name,
                                  base::tensor_named(tensor.name) + " is in two files: " +
                                      quoted_name(index_.files[home->second]) + " and " + quoted_name(index_.files[i]),
                                  folder_);
        home->second = i;
      }
    }
    return {};
  }

  // Returns whether the old index has a tensor in a file. If several files have the tensor, this one counts.
  [[nodiscard]] bool is_indexed(std::string_view tensor, std::size_t file) const {
    const std::uint32_t entry = old_ ? old_->find(tensor) : ShardIndex::kNone;
    return entry != ShardIndex::kNone && old_->shard((*old_)[entry].shard) == index_.files[file];
  }

  // A new index without a tensor would hide that its bytes are lost.
  Status check_old_tensors() const {
    for (std::size_t i = 0; old_ && i < old_->size(); ++i) {
      const ShardIndex::Entry entry = (*old_)[i];
      if (holders_.contains(entry.tensor)) continue;
      const std::string_view file = old_->shard(entry.shard);
      return base::make_error(
          Errc::not_found,
          base::tensor_named(entry.tensor) + " is in no file of the model, the index has it in " + quoted_name(file),
          os::join_path(folder_, index_.name));
    }
    return {};
  }

  Status write_text() {
    index_.tensors = holders_.size();
    for (const auto& [name, file] : holders_) {
      if (!base::add(index_.total_size, headers_[file].find(name)->nbytes(), index_.total_size))
        return base::make_error(Errc::size_overflow, "the tensors have more than 2^64-1 bytes", folder_);
    }
    format::IndexText text;
    if (!text.metadata(index_.total_size, old_ ? old_->metadata() : std::string()))
      return base::make_error(Errc::invalid_index, "metadata has two members of one name: remove one of them",
                              os::join_path(folder_, index_.name));
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      for (const TensorInfo& tensor : headers_[i].tensors()) {
        if (holders_.find(tensor.name)->second == i) text.tensor(tensor.name, index_.files[i]);
      }
    }
    index_.text = std::move(text).finish();
    return {};
  }

  std::string folder_;
  const std::optional<std::string>& stem_;
  base::Cancellation cancellation_;
  std::unique_ptr<const ShardIndex> old_;
  std::vector<Header> headers_;
  std::map<std::string_view, std::size_t> holders_;  // the files of the tensors
  CheckpointIndex index_;
};

constexpr std::size_t kMaxOfAKind = 100'000;  // problems; a hostile index would have millions

// Compares the files of a path with its index, or with each other, and collects the problems.
class IndexChecker {
 public:
  IndexChecker(const file::CheckpointPaths& paths, const CheckIndexOptions& options)
      : paths_(paths),
        options_(options),
        index_(index_of_all(paths)),
        folder_(index_ != nullptr ? paths.index()->folder : folder_of(paths.path(paths[0]))) {}

  Result<IndexCheck> run() {
    check_.files = paths_.size();
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const std::string path = paths_.path(paths_[i]);
      if (Status status = open(path, index_ != nullptr ? std::string(index_->shard(paths_[i].file)) : path); !status)
        return std::move(status).error();
    }
    if (Status status = look_beside(); !status) return std::move(status).error();
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (index_ != nullptr && i < check_.files) check_entries(i);
      check_tensors(i);
    }
    if (index_ != nullptr) {
      check_.path = paths_.index()->path;
      check_.total_size = index_->total_size();
      check_.other_members = index_->other_members();
      check_total_size();
    }
    return std::move(check_);
  }

 private:
  struct Checked {
    std::string name;              // as in the index; without an index, the path
    std::optional<Header> header;  // nullopt: the file cannot be opened
  };

  // Returns null if a file of a pattern is not in the index.
  static const ShardIndex* index_of_all(const file::CheckpointPaths& paths) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (paths[i].index == nullptr || paths[i].index != paths.index()) return nullptr;
    }
    return paths.index()->shards.get();
  }
  static std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

  void add(IndexProblemKind kind, bool is_error, std::string_view tensor, std::string_view file, std::string message) {
    if (++counts_[static_cast<int>(kind)] > kMaxOfAKind) return;
    check_.problems.push_back({kind, is_error, std::string(tensor), std::string(file), std::move(message)});
  }

  Status open(const std::string& path, std::string name) {
    const Result<File> file = File::open(path, {.access = Access::read, .parse = options_.parse});
    if (!file && (file.error().code == Errc::out_of_memory || file.error().code == Errc::cancelled))
      return file.error();
    if (options_.visit) options_.visit(path, file);
    files_.push_back({std::move(name), std::nullopt});
    const std::string& kept = files_.back().name;
    if (file) {
      files_.back().header = file->header();
      for (const TensorInfo& tensor : files_.back().header->tensors()) holders_.emplace(tensor.name, files_.size() - 1);
    } else if (file.error().os_error == ENOENT) {
      add(IndexProblemKind::missing_file, true, {}, kept, "file " + quoted_name(kept) + " does not exist");
    } else {
      add(IndexProblemKind::invalid_file, true, {}, kept, "file " + quoted_name(kept) + ": " + file.error().message);
    }
    return {};
  }

  // Looks for the other files of the folder. A part of the numbered files without an index was chosen by somebody.
  Status look_beside() {
    Names names;
    for (const Checked& file : files_) {
      if (index_ == nullptr && folder_of(file.name) != folder_) return {};
      names.push_back(index_ == nullptr ? file.name.substr(folder_.size()) : file.name);
    }
    Result<OtherFiles> others = other_files(folder_, names);
    if (!others) return std::move(others).error();
    if (index_ == nullptr && !others->shards.empty()) return {};
    const std::size_t& lost = counts_[static_cast<int>(IndexProblemKind::missing_file)];
    for (std::size_t i = 0; i < others->sets.size() && lost < kMaxOfAKind; ++i)
      for (const std::string& name : others->sets[i].missing())
        add(IndexProblemKind::missing_file, index_ == nullptr, {}, index_ == nullptr ? folder_ + name : name,
            "file " + quoted_name(name) + " does not exist, but the names of the others tell of it");
    if (index_ == nullptr) return {};
    for (const std::string& name : others->shards) {
      if (Status status = open(os::join_path(folder_, name), name); !status) return status;
      add(IndexProblemKind::unindexed_file, true, {}, name,
          "file " + quoted_name(name) + " belongs to the model, but is not in the index");
    }
    for (const std::string& name : others->stray)
      add(IndexProblemKind::stray_file, false, {}, name, "file " + quoted_name(name) + " is not in the index");
    return {};
  }

  // Looks for the tensors that the index has in a file. A file that cannot be opened is a problem already, but a tensor
  // of it that is in another file is one more.
  void check_entries(std::size_t file) {
    const bool opened = files_[file].header.has_value();
    const std::string name = quoted_name(files_[file].name);
    for (const std::uint32_t entry : index_->of_shard(paths_[file].file)) {
      const std::string_view tensor = (*index_)[entry].tensor;
      if (opened && files_[file].header->find(tensor) != nullptr) continue;
      const auto holder = holders_.find(tensor);
      const bool held = holder != holders_.end();
      if (!held && !opened) continue;
      const std::string other = held ? quoted_name(files_[holder->second].name) : "";
      std::string message = base::tensor_named(tensor);
      if (!opened)
        message += " is in " + other + ", the index has it in " + name;
      else
        message += " is not in " + name + (held ? ", but in " + other : "");
      add(held ? IndexProblemKind::wrong_file : IndexProblemKind::missing_tensor, true, tensor, files_[file].name,
          std::move(message));
    }
  }

  // Looks for the tensors of a file in the index and in the other files.
  void check_tensors(std::size_t file) {
    if (!files_[file].header) return;
    const std::string& name = files_[file].name;
    for (const TensorInfo& tensor : files_[file].header->tensors()) {
      const std::uint32_t entry = index_ != nullptr ? index_->find(tensor.name) : ShardIndex::kNone;
      const bool unindexed = index_ != nullptr && entry == ShardIndex::kNone;
      if (unindexed && file < check_.files)
        add(IndexProblemKind::unindexed_tensor, false, tensor.name, name,
            base::tensor_named(tensor.name) + " of " + quoted_name(name) + " is not in the index, loaders skip it");
      const std::size_t home = home_of(tensor.name, entry);
      if (home != file) {
        add(IndexProblemKind::duplicate_tensor, index_ == nullptr, tensor.name, name,
            base::tensor_named(tensor.name) + " is in two files: " + quoted_name(files_[std::min(home, file)].name) +
                " and " + quoted_name(files_[std::max(home, file)].name));
      } else if (!unindexed) {
        ++check_.tensors;
        if (!base::add(check_.nbytes, tensor.nbytes(), check_.nbytes)) check_.nbytes = ~std::uint64_t{0};
      }
    }
  }

  // Returns the file where loaders find a tensor: that of its entry in the index, if it is there, otherwise the first
  // one. The tensor must be in a file that could be opened.
  [[nodiscard]] std::size_t home_of(std::string_view tensor, std::uint32_t entry) const {
    if (entry != ShardIndex::kNone) {
      const std::uint32_t indexed = (*index_)[entry].shard;
      if (files_[indexed].header && files_[indexed].header->find(tensor) != nullptr) return indexed;
    }
    return holders_.find(tensor)->second;
  }

  void check_total_size() {
    // Tensors of a file that cannot be opened would add to the size.
    const bool all = std::ranges::all_of(files_, [](const Checked& file) { return file.header.has_value(); });
    const std::optional<std::uint64_t>& says = check_.total_size;
    if (says && (all ? *says == check_.nbytes : *says >= check_.nbytes)) return;
    const char* const none = index_->has_total_size() ? "not an integer from 0 to 2^64-1" : "missing";
    add(IndexProblemKind::total_size, false, {}, {},
        "total_size is " + (says ? std::to_string(*says) : std::string(none)) +
            (all ? ", the tensors have " : ", the tensors of the files that can be opened have ") +
            std::to_string(check_.nbytes) + " bytes");
  }

  const file::CheckpointPaths& paths_;
  const CheckIndexOptions& options_;
  const ShardIndex* const index_;  // null: the files have none
  const std::string folder_;       // empty, or ends with a separator
  std::vector<Checked> files_;     // in the order of `paths_`, then the shards that the index does not name
  std::map<std::string_view, std::size_t> holders_;  // the first file that has a tensor
  std::map<int, std::size_t> counts_;  // of the problems, by kind: GCC shows templates over enumerations of ours
  IndexCheck check_;
};

}  // namespace
}  // namespace write

inline namespace v0 {

Result<CheckpointIndex> make_index(PathView path, const MakeIndexOptions& options) noexcept {
  return base::guarded([&] { return write::IndexMaker(os::generic_path(path), options.stem).make(); });
}

Result<IndexCheck> check_index(PathView path, const CheckIndexOptions& options) noexcept {
  return base::guarded([&]() -> Result<IndexCheck> {
    base::Cancellation cancellation(options.parse.cancelled);
    file::CheckpointPaths paths(cancellation);
    if (Status status = paths.add(os::generic_path(path)); !status) return std::move(status).error();
    return write::IndexChecker(paths, options).run();
  });
}

Status write_index(PathView folder, const CheckpointIndex& index, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Status {
    const std::string path = os::join_path(os::generic_path(folder), index.name);
    if (Status status = write::check_index_size(index.text.size(), path); !status) return status;
    io::AtomicFileOptions atomic = write::to_atomic_file_options(options);
    if (!options.new_file) atomic.links = io::Links::replace;  // links of a cache lead to files that others share
    const auto file = io::AtomicFile::create(path, index.text.size(), atomic);
    if (!file) return file.error();
    if (Status status = (*file)->file().write_at(0, write::bytes_of(index.text)); !status) return status;
    return (*file)->commit();
  });
}

}  // namespace v0
}  // namespace safetensors
