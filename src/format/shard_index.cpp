// Reads an index in one pass over its text: each entry is a range of the text and the number of a run of equal shards.
// When all are known, names are indexed, the runs' shards are sorted, and entries are grouped by shard. All lists are
// ranges of 32 bits that grow by chunks or are made exactly as large as they must be: nothing doubles.
#include "format/shard_index.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "format/printable.h"
#include "json/reader.h"

namespace safetensors::format {
namespace {

constexpr std::string_view kExtension = ".safetensors";
constexpr std::size_t kShortestEntry = 18;  // "":".safetensors",
constexpr std::size_t kOwnBlocks = 0;       // each chunk is a block of the arena: nothing of it stays empty

// `..`, also as Windows reads it: dots and spaces at the end of a component count for nothing there.
bool leads_up(std::string_view component) noexcept {
  return component.starts_with("..") && component.find_first_not_of(". ") == std::string_view::npos;
}

// The characters of a path, without what changes nothing in it: `./` and a second `/`.
class PathCharacters {
 public:
  explicit PathCharacters(std::string_view path) noexcept : rest_(path) { skip(); }
  // -1 at the end.
  int next() noexcept {
    if (rest_.empty()) return -1;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    if (c == '/') skip();
    return static_cast<unsigned char>(c);
  }

 private:
  void skip() noexcept {
    while (rest_.starts_with('/') || rest_.starts_with("./")) rest_.remove_prefix(rest_[0] == '/' ? 1 : 2);
  }
  std::string_view rest_;
};

bool is_plain(std::string_view path) noexcept {
  return path.find("//") == path.npos && path.find("./") == path.npos;
}

std::string shown(std::string_view name) {
  constexpr std::size_t kShown = 200;
  return "`" + printable(name.substr(0, kShown)) + (name.size() > kShown ? "...`" : "`");
}

}  // namespace

const char* check_shard_name(std::string_view name) noexcept {
  constexpr std::string_view kSeparators = "/\\";
  if (name.empty()) return "it is empty";
  if (name.find('\0') != name.npos) return "it holds a zero byte";
  if (kSeparators.find(name[0]) != kSeparators.npos) return "it begins with a separator";
  if (name.find(':') != name.npos) return "it holds a colon";
  if (has_invisible(name)) return "it holds a control or invisible character";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find_first_of(kSeparators, begin), name.size());
    if (leads_up(name.substr(begin, end - begin))) return "it leads out of a folder";
    begin = end + 1;
  }
  return name.ends_with(kExtension) ? nullptr : "it does not end in `.safetensors`";
}

bool shard_less(std::string_view a, std::string_view b) noexcept {
  if (is_plain(a) && is_plain(b)) return a < b;
  PathCharacters left(a);
  PathCharacters right(b);
  for (;;) {
    const int x = left.next();
    const int y = right.next();
    if (x != y) return x < y;
    if (x < 0) return false;
  }
}

class IndexParser {
 public:
  IndexParser(ShardIndex& index, std::size_t size, base::Cancellation* cancellation) noexcept
      : index_(index),
        cancellation_(cancellation),
        reader_(index.text_.get(), size, cancellation),
        most_(size / kShortestEntry + 1),
        runs_arena_(index.arena_.upstream(), kOwnBlocks) {}

  [[nodiscard]] bool parse();
  // After parse().
  [[nodiscard]] bool make_index();
  [[nodiscard]] Error failure() const;

 private:
  bool weight_map();
  bool entry();
  bool number_shards();
  void group_by_shard();
  bool cancelled() { return reader_.fail(Errc::cancelled, 0, base::kOpeningCancelled); }
  bool fail(std::size_t at, std::string detail) {
    detail_ = std::move(detail);
    return reader_.fail(Errc::invalid_index, at, "");
  }

  ShardIndex& index_;
  base::Cancellation* cancellation_;
  json::Reader reader_;
  const std::size_t most_;  // entries
  base::BumpAllocator runs_arena_;
  base::ChunkedVector<ShardIndex::TextRange> runs_;  // shards as they follow each other in the text
  std::string_view tensor_;
  bool in_entry_ = false;
  std::string detail_;
};

bool IndexParser::parse() {
  bool seen = false;
  if (!reader_.open('{', "an index must be an object")) return false;
  for (bool more = !reader_.consume('}'); more;) {
    std::string_view key;
    std::size_t at = 0;
    if (!reader_.key(key, at)) return false;
    if (key != "weight_map") {
      if (!reader_.skip_value(1)) return false;
    } else if (seen) {
      return fail(at, "a second weight_map");
    } else {
      seen = true;
      if (!weight_map()) return false;
    }
    if (!reader_.next('}', more)) return false;
  }
  if (!reader_.end()) return false;
  return seen || fail(0, "it has no weight_map");
}

bool IndexParser::weight_map() {
  if (!reader_.open('{', "weight_map must be an object")) return false;
  for (bool more = !reader_.consume('}'); more;) {
    if (!entry()) return false;
    if (!reader_.next('}', more)) return false;
  }
  return true;
}

bool IndexParser::entry() {
  std::size_t at = 0;
  if (!reader_.key(tensor_, at)) return false;
  in_entry_ = true;
  std::string_view shard;
  (void)reader_.peek();
  const std::size_t shard_at = reader_.offset();
  if (!reader_.string(shard)) return false;
  if (runs_.empty() || index_.view(runs_[runs_.size() - 1]) != shard) {
    if (const char* why = check_shard_name(shard))
      return fail(shard_at, "no file of tensor " + shown(tensor_) + " may be called " + shown(shard) + ": " + why);
    runs_.push(runs_arena_, most_) = index_.range(shard);
  }
  in_entry_ = false;
  index_.names_.push(index_.arena_, base::hash(tensor_, index_.hash_key_), most_);
  index_.entries_.push(index_.arena_, most_) = {index_.range(tensor_), static_cast<std::uint32_t>(runs_.size() - 1)};
  return true;
}

bool IndexParser::make_index() {
  const auto key_at = [this](std::size_t i) { return index_[i].tensor; };
  const std::uint32_t twice = index_.names_.build(index_.arena_, key_at, cancellation_);
  if (cancellation_ != nullptr && cancellation_->requested()) return cancelled();
  if (twice != ShardIndex::kNone)
    return fail(index_[twice].at, "tensor " + shown(key_at(twice)) + " is in weight_map twice");
  if (!number_shards()) return cancelled();
  group_by_shard();
  return true;
}

// Entries have the number of a run until now. false: cancelled.
bool IndexParser::number_shards() {
  const std::size_t count = runs_.size();
  const auto order = std::make_unique_for_overwrite<std::uint32_t[]>(count);  // runs by the names of their shards
  std::iota(order.get(), order.get() + count, 0U);
  const auto name = [this](std::uint32_t run) { return index_.view(runs_[run]); };
  const auto less = [&](std::uint32_t a, std::uint32_t b) { return shard_less(name(a), name(b)); };
  if (!base::sort(order.get(), order.get() + count, less, cancellation_)) return false;

  const auto numbers = std::make_unique_for_overwrite<std::uint32_t[]>(count);  // of each run's shard
  std::uint32_t last = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && less(order[i - 1], order[i])) ++last;
    numbers[order[i]] = last;
  }
  index_.shard_count_ = count == 0 ? 0 : last + 1;
  index_.shards_ = std::make_unique_for_overwrite<ShardIndex::TextRange[]>(index_.shard_count_);
  for (std::size_t i = count; i-- > 0;) index_.shards_[numbers[i]] = runs_[i];  // the first spelling counts
  for (std::size_t i = 0; i < index_.entries_.size(); ++i) index_.entries_[i].shard = numbers[index_.entries_[i].shard];
  return true;
}

void IndexParser::group_by_shard() {
  const std::size_t count = index_.entries_.size();
  const std::size_t shards = index_.shard_count_;
  index_.begin_ = std::make_unique<std::uint32_t[]>(shards + 1);
  const auto begin = index_.begin_.get();
  for (std::size_t i = 0; i < count; ++i) ++begin[index_.entries_[i].shard + 1];
  std::partial_sum(begin, begin + shards + 1, begin);
  index_.by_shard_ = std::make_unique_for_overwrite<std::uint32_t[]>(count);
  // Backwards from each shard's end, which leaves every begin where it belongs but one place early.
  for (std::size_t i = count; i-- > 0;)
    index_.by_shard_[--begin[index_.entries_[i].shard + 1]] = static_cast<std::uint32_t>(i);
  for (std::size_t i = 1; i < shards; ++i) begin[i] = begin[i + 1];
  begin[shards] = static_cast<std::uint32_t>(count);
  begin[0] = 0;
}

Error IndexParser::failure() const {
  const json::Failure& failure = reader_.failure();
  Error error;
  if (failure.code == Errc::cancelled) {
    error.code = failure.code;
    error.message = failure.what;
    return error;
  }
  error.code = Errc::invalid_index;
  error.offset = failure.at;
  if (failure.code == Errc::invalid_utf8)
    error.message = std::string("invalid UTF-8 in index: ") + failure.what;
  else if (failure.code == Errc::invalid_index)
    error.message = "invalid index: " + detail_;
  else
    error.message =
        "invalid JSON in index: " + (in_entry_ ? "tensor " + shown(tensor_) + ": " : std::string()) + failure.what;
  return error;
}

ShardIndex::ShardIndex(std::unique_ptr<char[]> text) noexcept
    : text_(std::move(text)), arena_(std::pmr::new_delete_resource(), kOwnBlocks) {}

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
