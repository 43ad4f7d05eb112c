// Makes, checks and fixes indexes. Only headers are read, one file after the other, and no file stays open.
#include <safetensors/checkpoint_index.h>

#include <algorithm>
#include <cerrno>
#include <map>
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

constexpr std::string_view kFileEnd = ".safetensors";

std::string quoted_name(std::string_view name) {
  return "`" + printable(name) + "`";
}

// ": `model-00003-of-00006.safetensors` is missing". An empty text: nothing is.
std::string missing_text(const std::vector<std::string>& missing) {
  constexpr std::size_t kNamed = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(missing.size(), kNamed); ++i)
    text += (i == 0 ? ": " : ", ") + quoted_name(missing[i]);
  if (missing.size() > kNamed) text += " and " + std::to_string(missing.size() - kNamed) + " more";
  return text.empty() ? text : text + (missing.size() == 1 ? " is missing" : " are missing");
}

// Error: not_found, if a number is missing.
Status check_numbers(const format::ShardSet& set, std::string_view folder) {
  const std::vector<std::string> missing = set.missing();
  if (missing.empty()) return {};
  return base::make_error(Errc::not_found,
                          "the folder has " + std::to_string(set.names.size()) + " of the " +
                              std::to_string(set.count) + " files `" + printable(set.pattern) + "`" +
                              missing_text(missing),
                          folder);
}

struct ChosenFiles {
  std::string stem;
  std::vector<std::string> names;
};

Result<ChosenFiles> choose_files(const std::string& folder, const std::optional<std::string>& stem) {
  Result<std::vector<std::string>> names = os::list_directory(folder);
  if (!names) return std::move(names).error();
  std::erase_if(*names, [](const std::string& name) { return !name.ends_with(kFileEnd); });
  std::vector<format::ShardSet> groups = format::shard_sets(*names);
  if (stem) std::erase_if(groups, [&](const format::ShardSet& group) { return group.stem != *stem; });
  if (groups.size() > 1) {
    std::string message = "a folder with numbered files of " + std::to_string(groups.size()) + " models:";
    for (const format::ShardSet& group : groups) message += " " + quoted_name(group.names[0]);
    return base::make_error(Errc::ambiguous_checkpoint, std::move(message), folder);
  }
  if (groups.size() == 1) {
    if (Status status = check_numbers(groups[0], folder); !status) return std::move(status).error();
    return ChosenFiles{std::move(groups[0].stem), std::move(groups[0].names)};
  }
  if (names->empty()) return base::make_error(Errc::not_found, "a folder without a safetensors file", folder);
  return ChosenFiles{stem.value_or("model"), *std::move(names)};
}

// Readers refuse an index with a name that is not printable everywhere, or that leads elsewhere on some system.
Status check_names(const std::vector<std::string>& names, const std::string& folder) {
  for (const std::string& name : names) {
    const char* why = format::check_shard_name(name);
    if (why == nullptr && !base::check_utf8("name", name, name)) why = "it is not valid UTF-8";
    if (why != nullptr)
      return base::make_error(Errc::invalid_argument,
                              "no index may name the file " + quoted_name(name) + ": " + why + "; rename it", folder);
  }
  return {};
}

// names: of the files in the folder, in the order of the index.
Result<CheckpointIndex> index_of(const std::string& folder, std::string index_name, std::vector<std::string> names,
                                 std::string_view metadata) {
  CheckpointIndex index{.name = std::move(index_name), .text = {}, .files = std::move(names)};
  std::vector<Header> headers;
  std::map<std::string_view, std::size_t> seen;
  if (Status status = check_names(index.files, folder); !status) return std::move(status).error();
  for (std::size_t i = 0; i < index.files.size(); ++i) {
    const Result<File> file = File::open(os::join_path(folder, index.files[i]), {.access = Access::read});
    if (!file) return file.error();
    headers.push_back(file->header());
    for (const TensorInfo& tensor : headers.back().tensors()) {
      const auto [first, added] = seen.emplace(tensor.name, i);
      if (!added)
        return base::make_error(Errc::duplicate_name,
                                base::tensor_named(tensor.name) + " is in two files: " +
                                    quoted_name(index.files[first->second]) + " and " + quoted_name(index.files[i]),
                                folder);
      if (!base::add(index.total_size, tensor.nbytes(), index.total_size))
        return base::make_error(Errc::size_overflow, "the tensors have more than 2^64-1 bytes", folder);
      ++index.tensors;
    }
  }
  format::IndexText text;
  if (Status status = text.metadata(index.total_size, metadata); !status) return std::move(status).error();
  for (std::size_t i = 0; i < headers.size(); ++i) {
    for (const TensorInfo& tensor : headers[i].tensors()) text.tensor(tensor.name, index.files[i]);
  }
  index.text = std::move(text).finish();
  return index;
}

Result<CheckpointIndex> make_index_of(const std::string& folder, const MakeIndexOptions& options) {
  if (options.stem) {
    if (Status status = format::check_stem(*options.stem); !status) return std::move(status).error();
  }
  Result<ChosenFiles> chosen = choose_files(folder, options.stem);
  if (!chosen) return std::move(chosen).error();
  if (Status status = format::check_stem(chosen->stem); !status)
    return base::with_path(std::move(status).error(), folder);
  return index_of(folder, format::ModelNames::of_stem(chosen->stem).index, std::move(chosen->names),
                  options.index_metadata);
}

Result<std::string> find_index(const std::string& path) {
  if (os::kind_of(path) != os::PathKind::directory) {
    if (path.ends_with(".json")) return path;
    return base::make_error(Errc::invalid_argument, "is neither a folder nor an index (a file that ends in .json)",
                            path);
  }
  Result<std::vector<std::string>> names = os::list_directory(path);
  if (!names) return std::move(names).error();
  std::erase_if(*names, [](const std::string& name) { return !format::is_index_name(name); });
  const std::string first = format::ModelNames::of_stem("model").index;
  if (std::ranges::find(*names, first) != names->end()) return os::join_path(path, first);
  if (names->size() == 1) return os::join_path(path, names->front());
  if (names->empty()) return base::make_error(Errc::not_found, "a folder without an index", path);
  return base::make_error(Errc::ambiguous_checkpoint,
                          "a folder with " + std::to_string(names->size()) + " indexes: name one of them", path);
}

// Compares an index with its files, and collects the problems.
class IndexChecker {
 public:
  IndexChecker(std::string folder, const format::ShardIndex& index, const ParseOptions& parse)
      : folder_(std::move(folder)), index_(index), options_{.access = Access::read, .parse = parse} {}

  Status run() {
    for (std::uint32_t i = 0; i < index_.shard_count(); ++i) {
      if (Status status = open(i); !status) return status;
    }
    for (std::uint32_t i = 0; i < index_.shard_count(); ++i) {
      check_entries(i);
      check_tensors(i);
    }
    check_total_size();
    return add_stray_files();
  }

  [[nodiscard]] bool all_files_exist() const { return all_exist_; }
  [[nodiscard]] std::vector<IndexProblem> take_problems() { return std::move(problems_); }

 private:
  void add(IndexProblemKind kind, std::string_view tensor, std::string_view file, std::string message) {
    problems_.push_back({kind, std::string(tensor), std::string(file), std::move(message)});
  }

  Status open(std::uint32_t shard) {
    const std::string_view name = index_.shard(shard);
    headers_.emplace_back();
    const Result<File> file = File::open(os::join_path(folder_, name), options_);
    if (file) {
      headers_.back() = file->header();
      for (const TensorInfo& tensor : headers_.back()->tensors()) holders_.emplace(tensor.name, shard);
      return {};
    }
    if (file.error().code == Errc::out_of_memory || file.error().code == Errc::cancelled) return file.error();
    const bool missing = file.error().os_error == ENOENT;
    all_exist_ = all_exist_ && !missing;
    if (missing)
      add(IndexProblemKind::missing_file, {}, name, "file " + quoted_name(name) + " does not exist");
    else
      add(IndexProblemKind::invalid_file, {}, name, "file " + quoted_name(name) + ": " + file.error().message);
    return {};
  }

  // Looks for the tensors that the index has in a file. A file that cannot be opened is a problem already, but a tensor
  // of it that is in another file is one more.
  void check_entries(std::uint32_t shard) {
    const bool opened = headers_[shard].has_value();
    const std::string name = quoted_name(index_.shard(shard));
    for (const std::uint32_t entry : index_.of_shard(shard)) {
      const std::string_view tensor = index_[entry].tensor;
      if (opened && headers_[shard]->find(tensor) != nullptr) continue;
      const auto holder = holders_.find(tensor);
      const bool held = holder != holders_.end();
      if (!held && !opened) continue;
      const std::string other = held ? quoted_name(index_.shard(holder->second)) : "";
      std::string message = base::tensor_named(tensor);
      if (!opened)
        message += " is in " + other + ", the index has it in " + name;
      else
        message += " is not in " + name + (held ? ", but in " + other : "");
      add(held ? IndexProblemKind::wrong_file : IndexProblemKind::missing_tensor, tensor, index_.shard(shard),
          std::move(message));
    }
  }

  // Looks for the tensors of a file in the index and in the other files. Adds the sizes of those that have their home
  // in this file, so a tensor in two files counts once.
  void check_tensors(std::uint32_t shard) {
    if (!headers_[shard]) return;
    const std::string_view name = index_.shard(shard);
    for (const TensorInfo& tensor : headers_[shard]->tensors()) {
      const std::uint32_t entry = index_.find(tensor.name);
      if (entry == index_.kNone)
        add(IndexProblemKind::unindexed_tensor, tensor.name, name,
            base::tensor_named(tensor.name) + " of " + quoted_name(name) + " is not in the index");
      const std::uint32_t home = home_of(tensor.name, entry);
      if (home != shard)
        add(IndexProblemKind::duplicate_tensor, tensor.name, name,
            base::tensor_named(tensor.name) + " is in two files: " + quoted_name(index_.shard(std::min(home, shard))) +
                " and " + quoted_name(index_.shard(std::max(home, shard))));
      else if (!base::add(size_, tensor.nbytes(), size_))
        size_ = ~std::uint64_t{0};
    }
  }

  // Returns the file where loaders find a tensor: that of its entry in the index, if it is there, otherwise the first
  // one. The tensor must be in a file that could be opened.
  [[nodiscard]] std::uint32_t home_of(std::string_view tensor, std::uint32_t entry) const {
    if (entry != index_.kNone) {
      const std::uint32_t indexed = index_[entry].shard;
      if (headers_[indexed] && headers_[indexed]->find(tensor) != nullptr) return indexed;
    }
    return holders_.find(tensor)->second;
  }

  void check_total_size() {
    // Tensors of a file that cannot be opened would add to the size.
    const bool all = std::ranges::all_of(headers_, [](const auto& header) { return header.has_value(); });
    const std::optional<std::uint64_t> says = index_.total_size();
    if (says && (all ? *says == size_ : *says >= size_)) return;
    const char* const none = index_.has_total_size() ? "not an integer from 0 to 2^64-1" : "missing";
    add(IndexProblemKind::total_size, {}, {},
        "total_size is " + (says ? std::to_string(*says) : std::string(none)) +
            (all ? ", the tensors have " : ", the tensors of the files that can be opened have ") +
            std::to_string(size_) + " bytes");
  }

  Status add_stray_files() {
    const Result<std::vector<std::string>> names = os::list_directory(folder_.empty() ? "." : folder_);
    if (!names) return names.error();
    for (const std::string& name : *names) {
      if (!name.ends_with(kFileEnd)) continue;
      if (!names_file(name))
        add(IndexProblemKind::stray_file, {}, name, "file " + quoted_name(name) + " is not in the index");
    }
    return {};
  }

  // The shards are in the order of shard_less().
  [[nodiscard]] bool names_file(std::string_view name) const {
    std::uint32_t low = 0;
    for (std::uint32_t high = index_.shard_count(); low < high;) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (format::shard_less(index_.shard(middle), name))
        low = middle + 1;
      else
        high = middle;
    }
    return low < index_.shard_count() && !format::shard_less(name, index_.shard(low));
  }

  const std::string folder_;
  const format::ShardIndex& index_;
  const OpenOptions options_;
  std::vector<std::optional<Header>> headers_;         // by shard; nullopt: the file cannot be opened
  std::map<std::string_view, std::uint32_t> holders_;  // the first file that has a tensor
  std::uint64_t size_ = 0;                             // of the tensors in all files, each counted once
  bool all_exist_ = true;
  std::vector<IndexProblem> problems_;
};

// metadata: of the index at `path`. Error: invalid_index, if it has two members of one name.
Status check_metadata(const std::string& metadata, const std::string& path) {
  format::IndexText text;
  if (text.metadata(0, metadata)) return {};
  return base::make_error(Errc::invalid_index, "metadata has two members of one name: remove one of them", path);
}

Result<IndexCheck> check_index_of(const std::string& path, const ParseOptions& parse, bool fix) {
  const Result<std::string> found = find_index(path);
  if (!found) return found.error();
  base::Cancellation cancellation(parse.cancelled);
  const auto index = file::read_index(*found, cancellation);
  if (!index) return base::with_path(Error(index.error()), *found);
  const std::size_t name_begin = found->rfind('/') + 1;
  const std::string folder = found->substr(0, name_begin);
  IndexChecker checker(folder, **index, parse);
  if (Status status = checker.run(); !status) return std::move(status).error();
  IndexCheck check{.path = *found, .problems = checker.take_problems(), .other_members = (*index)->other_members()};
  if (!fix) return check;
  if (Status status = check_metadata((*index)->metadata(), *found); !status) return std::move(status).error();
  std::vector<std::string> files;
  for (std::uint32_t i = 0; i < (*index)->shard_count(); ++i) files.emplace_back((*index)->shard(i));
  if (!checker.all_files_exist() || files.empty()) {
    Result<ChosenFiles> chosen = choose_files(folder.empty() ? "." : folder, std::nullopt);
    if (!chosen) return std::move(chosen).error();
    files = std::move(chosen->names);
  }
  Result<CheckpointIndex> fixed = index_of(folder, found->substr(name_begin), std::move(files), (*index)->metadata());
  if (!fixed) return std::move(fixed).error();
  check.fixed = *std::move(fixed);
  return check;
}

}  // namespace
}  // namespace write

inline namespace v0 {

Result<CheckpointIndex> make_index(PathView folder, const MakeIndexOptions& options) noexcept {
  return base::guarded([&] { return write::make_index_of(os::generic_path(folder), options); });
}

Result<IndexCheck> check_index(PathView path, const ParseOptions& parse) noexcept {
  return base::guarded([&] { return write::check_index_of(os::generic_path(path), parse, false); });
}

Result<IndexCheck> fix_index(PathView path) noexcept {
  return base::guarded([&] { return write::check_index_of(os::generic_path(path), {}, true); });
}

Status write_index(PathView folder, const CheckpointIndex& index, const WriteOptions& options) noexcept {
  return base::guarded([&]() -> Status {
    const std::string path = os::join_path(os::generic_path(folder), index.name);
    if (index.text.size() > format::kMaxIndexBytes)
      return base::make_error(Errc::invalid_argument,
                              "the index would have " + std::to_string(index.text.size()) + " bytes, readers accept " +
                                  std::to_string(format::kMaxIndexBytes),
                              path);
    const auto file = io::AtomicFile::create(path, index.text.size(), write::to_atomic_file_options(options));
    if (!file) return file.error();
    if (Status status = (*file)->write_at(0, write::bytes_of(index.text)); !status) return status;
    return (*file)->commit();
  });
}

}  // namespace v0
}  // namespace safetensors
