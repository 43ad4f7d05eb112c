// Reads the index of a model in one pass over its text. Consecutive entries mostly name the same shard, so the parser
// stores each such sequence of equal shards once, and per entry a range of the text and the index of its sequence.
// It copies `metadata`. After the last entry it hashes the tensor names, sorts the shards, and groups the entries by
// shard.
//
// Memory is the reason: a hostile index of 256 MiB must not take more than about 1 GiB. All lists have 32-bit elements.
// They grow by chunks or are allocated at their exact size, so no list ever doubles.
#include "format/checkpoint/shard_index.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/printable.h"
#include "format/checkpoint/model_names.h"
#include "json/copy.h"
#include "json/reader.h"
#include "json/writer.h"

namespace safetensors::format {
namespace {

constexpr std::size_t kMinEntryText = 18;  // bytes: "":".safetensors",
constexpr std::size_t kOwnBlocks = 0;  // block size of the allocators: each chunk is a block, so no memory is unused

bool is_torch_file(std::string_view name) noexcept {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth");
}

// Recognizes `..` also in the forms of Windows, which ignores dots and spaces at the end of a component.
bool leads_up(std::string_view component) noexcept {
  return component.starts_with("..") && component.find_first_not_of(". ") == std::string_view::npos;
}

}  // namespace

const char* check_shard_name(std::string_view name) noexcept {
  constexpr std::string_view kSeparators = "/\\";
  if (name.empty()) return "it is empty";
  if (name.find('\0') != name.npos) return "it holds a zero byte";
  if (kSeparators.find(name[0]) != kSeparators.npos) return "it begins with a separator";
  if (name.find(':') != name.npos) return "it holds a colon";
  if (base::has_invisible(name)) return "it holds a control or invisible character";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of(kSeparators, begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (leads_up(component)) return "it leads out of a folder";
    if (component == "." || (component.empty() && end != name.size())) return "a shorter path leads to this file";
    begin = end + 1;
  }
  return name.ends_with(kShardExtension) ? nullptr : "it does not end in `.safetensors`";
}

class IndexParser {
 public:
  IndexParser(ShardIndex& index, std::size_t size, base::Cancellation* cancellation) noexcept
      : index_(index),
        cancellation_(cancellation),
        reader_(index.text_.get(), size, cancellation),
        max_entries_(size / kMinEntryText + 1),
        allocator_(index.allocator_.upstream(), kOwnBlocks) {}

  [[nodiscard]] bool parse();
  // Must run after parse().
  [[nodiscard]] bool make_index();
  [[nodiscard]] Error failure() const;

 private:
  bool metadata();
  bool entry(std::string_view tensor);
  bool number_shards();
  void group_by_shard();
  bool cancelled() { return reader_.fail(Errc::cancelled, 0, base::kOpeningCancelled); }
  bool fail(std::size_t offset, std::string detail) {
    detail_ = std::move(detail);
    return reader_.fail(Errc::invalid_index, offset, "");
  }

  ShardIndex& index_;
  base::Cancellation* cancellation_;
  json::Reader reader_;
  const std::size_t max_entries_;
  base::BumpAllocator allocator_;          // for groups_
  base::ChunkedVector<TextRange> groups_;  // the shard of each sequence of entries with the same shard
  std::string_view tensor_;
  bool in_entry_ = false;
  std::string detail_;
};

bool IndexParser::parse() {
  bool seen = false;
  const auto member = [&](std::string_view key, std::size_t start) {
    if (key == "metadata") return metadata();
    if (key != "weight_map") return ++index_.other_members_, reader_.skip_value(1);
    if (std::exchange(seen, true)) return fail(start, "a second weight_map");
    const auto map = [this](std::string_view tensor, std::size_t) { return entry(tensor); };
    return reader_.members("weight_map must be an object", map);
  };
  if (!reader_.members("an index must be an object", member) || !reader_.end()) return false;
  return seen ||
         fail(0, "it has no weight_map (a configuration? open the model's folder, its index or a .safetensors file)");
}

// Copies the text, because its strings may hold escapes, which the reader replaces in place.
bool IndexParser::metadata() {
  std::string& text = index_.metadata_;
  text.clear();
  index_.total_size_.reset();
  index_.has_total_size_ = false;
  if (reader_.peek() != '{') return reader_.skip_value(1);
  text = '{';
  const auto copy = [&](std::string_view key, std::size_t) {
    if (text.size() > 1) text += ',';
    json::append_string(text, key);
    text += ':';
    const std::size_t value = text.size();
    if (!json::copy_value(reader_, 2, &text)) return false;
    if (key == "total_size") {
      index_.has_total_size_ = true;
      index_.total_size_ = base::to_integer(std::string_view(text).substr(value));
    }
    return true;
  };
  if (!reader_.members("", copy)) return false;
  text += '}';
  text.shrink_to_fit();
  return true;
}

bool IndexParser::entry(std::string_view tensor) {
  tensor_ = tensor;
  in_entry_ = true;
  std::string_view shard;
  (void)reader_.peek();  // skips white space, so that the offset is that of the opening quote
  const std::size_t shard_offset = reader_.offset();
  if (!reader_.string(shard)) return false;
  if (groups_.empty() || index_.view(groups_[groups_.size() - 1]) != shard) {
    if (const char* why = check_shard_name(shard))
      return fail(shard_offset,
                  base::concat({"no file of tensor ", base::shown_name(tensor_), " may be called ",
                                base::shown_name(shard), ": ", why,
                                (is_torch_file(shard) ? " (the index of a PyTorch model? convert the model)" : "")}));
    groups_.push(allocator_, max_entries_) = index_.range(shard);
  }
  in_entry_ = false;
  index_.names_.push(index_.allocator_, base::hash(tensor_, index_.hash_key_), max_entries_);
  index_.entries_.push(index_.allocator_, max_entries_) = {index_.range(tensor_),
                                                           static_cast<std::uint32_t>(groups_.size() - 1)};
  return true;
}

bool IndexParser::make_index() {
  const auto key_at = [this](std::size_t i) { return index_[i].tensor; };
  const std::uint32_t repeated = index_.names_.build(index_.allocator_, key_at, cancellation_);
  if (cancellation_ != nullptr && cancellation_->requested()) return cancelled();
  if (repeated != ShardIndex::kNone)
    return fail(index_[repeated].offset,
                base::concat({"tensor ", base::shown_name(key_at(repeated)), " is in weight_map twice"}));
  if (!number_shards()) return cancelled();
  group_by_shard();
  return true;
}

// Replaces the group index of each entry by the index of its shard. Shards get their indexes in the order of
// their names. Returns false if the call is cancelled.
bool IndexParser::number_shards() {
  const std::size_t count = groups_.size();
  const auto order = std::make_unique_for_overwrite<std::uint32_t[]>(count);  // groups in the order of their shards
  std::iota(order.get(), order.get() + count, 0U);
  const auto name = [this](std::uint32_t group) { return index_.view(groups_[group]); };
  const auto less = [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); };
  if (!base::sort(order.get(), order.get() + count, less, cancellation_)) return false;

  const auto shards = std::make_unique_for_overwrite<std::uint32_t[]>(count);  // the shard of each group
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && less(order[i - 1], order[i])) ++last;
    shards[order[i]] = last;
  }
  index_.shard_count_ = count == 0 ? 0 : last + 1;
  index_.shards_ = std::make_unique_for_overwrite<TextRange[]>(index_.shard_count_);
  for (std::size_t i = 0; i < count; ++i) index_.shards_[shards[i]] = groups_[i];
  for (std::size_t i = 0; i < index_.entries_.size(); ++i) index_.entries_[i].shard = shards[index_.entries_[i].shard];
  return true;
}

// A counting sort of the entries by shard. It needs no memory beyond the two result arrays.
void IndexParser::group_by_shard() {
  const std::size_t count = index_.entries_.size();
  const std::size_t shards = index_.shard_count_;
  index_.begin_ = std::make_unique<std::uint32_t[]>(shards + 1);
  const auto begin = index_.begin_.get();
  for (std::size_t i = 0; i < count; ++i) ++begin[index_.entries_[i].shard];
  std::partial_sum(begin, begin + shards + 1, begin);
  index_.by_shard_ = std::make_unique_for_overwrite<std::uint32_t[]>(count);
  // Fills each shard backwards from its end, which becomes its begin.
  for (std::size_t i = count; i-- > 0;)
    index_.by_shard_[--begin[index_.entries_[i].shard]] = static_cast<std::uint32_t>(i);
}

Error IndexParser::failure() const {
  const json::Failure& failure = reader_.failure();
  if (failure.code == Errc::cancelled) return base::make_error(failure.code, failure.what);
  Error error{.code = Errc::invalid_index, .offset = failure.offset, .message = "invalid JSON in index: "};
  if (failure.code == Errc::invalid_utf8)
    error.message = "invalid UTF-8 in index: ";
  else if (failure.code == Errc::invalid_index)
    error.message = "invalid index: " + detail_;
  else if (in_entry_)
    error.message += "tensor " + base::shown_name(tensor_) + ": ";
  error.message += failure.what;
  return error;
}

ShardIndex::ShardIndex(std::unique_ptr<char[]> text) noexcept
    : text_(std::move(text)), allocator_(base::heap(), kOwnBlocks) {}

Result<std::unique_ptr<const ShardIndex>> ShardIndex::parse(std::unique_ptr<char[]> text, std::size_t size,
                                                            base::Cancellation* cancellation) {
  std::unique_ptr<ShardIndex> index(new ShardIndex(std::move(text)));
  IndexParser parser(*index, size, cancellation);
  if (!parser.parse() || !parser.make_index()) return parser.failure();
  return std::unique_ptr<const ShardIndex>(std::move(index));
}

std::uint32_t ShardIndex::find(std::string_view tensor) const noexcept {
  return names_.find(tensor, base::hash(tensor, hash_key_), [this](std::size_t i) { return (*this)[i].tensor; });
}

}  // namespace safetensors::format
