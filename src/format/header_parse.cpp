// Rules 4 and 5: from text to entries. Rules 6 to 10 are in header_layout.cpp.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/utf8.h"
#include "format/header.h"
#include "format/layout.h"
#include "json/reader.h"

namespace safetensors::format {
namespace {

using detail::HeaderState;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kNowhere = ~std::size_t{0};
// The fewest bytes of text that one of each needs: what bounds the memory for them.
constexpr std::size_t kLeastEntry = 50;  // "":{"dtype":"U8","shape":[],"data_offsets":[0,0]},
constexpr std::size_t kLeastPair = 6;    // "":"",
constexpr std::size_t kLeastField = 5;   // "":0,
constexpr unsigned kOpenInEntry = 2;     // the header's object and the entry's

// Recognizes a text without looking at more than it needs; each step is false where it does not match. The NUL behind
// the text matches nothing.
class Matcher {
 public:
  // A dtype's name with its closing quote, as the first bytes of a 64-bit number. The first of all matches nothing.
  struct KnownDtype {
    std::uint64_t name = 1;
    std::uint64_t mask = 0;
    std::size_t size = 0;
    Dtype dtype = Dtype::U8;
  };
  using KnownDtypes = std::array<KnownDtype, 2>;

  explicit Matcher(char* at) noexcept : at_(at) {}
  template <std::size_t Size>
  bool literal(const char (&expected)[Size]) noexcept {
    if (!same<Size - 1>(at_, expected)) return false;
    at_ += Size - 1;
    return true;
  }
  bool integer(std::uint64_t& value) noexcept {
    const char* start = at_;
    value = 0;
    for (; *at_ >= '0' && *at_ <= '9'; ++at_) value = value * 10 + static_cast<unsigned char>(*at_ - '0');
    const auto digits = at_ - start;
    return digits == 1 || (digits > 1 && digits < 20 && *start != '0');
  }
  // known: names seen before, with the closing quote: most often the next is one of them.
  bool dtype(KnownDtypes& known, Dtype& dtype) noexcept {
    const std::uint64_t bytes = base::load_u64(reinterpret_cast<const std::byte*>(at_));
    for (const KnownDtype& each : known) {
      if ((bytes & each.mask) != each.name) continue;
      dtype = each.dtype;
      at_ += each.size;
      return true;
    }
    constexpr std::size_t kLongest = 11;
    std::size_t length = 1;
    while (length <= kLongest && at_[length] != '"') ++length;
    const std::optional<Dtype> parsed = parse_dtype({at_, length});
    if (!parsed) return false;
    dtype = *parsed;
    at_ += length;
    if (length < sizeof bytes) {
      const std::uint64_t mask = ~std::uint64_t{0} >> (56 - 8 * length);
      std::swap(known[0], known[1]);
      known[0] = {bytes & mask, mask, length, dtype};
    }
    return true;
  }
  bool one(char c) noexcept {
    if (*at_ != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] char* at() const noexcept { return at_; }

 private:
  // memcmp, without the call that compilers make of it for more than 8 bytes.
  template <std::size_t Size>
  static bool same(const char* a, const char* b) noexcept {
    if constexpr (Size > 8) {
      return same<8>(a, b) && same<Size - 8>(a + 8, b + 8);
    } else {
      return std::memcmp(a, b, Size) == 0;
    }
  }

  char* at_;
};

class Parser {
 public:
  Parser(HeaderState& state, base::Cancellation& cancellation) noexcept
      : state_(state), cancellation_(cancellation), reader_(state.text.data(), state.text.size(), &cancellation) {}

  [[nodiscard]] Status run(const ParseOptions& options);
  // Whether each tensor began where the one before it ended, and whether each has the size it should have.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }
  [[nodiscard]] bool sizes_fit() const noexcept { return sizes_fit_; }
  [[nodiscard]] const ParseWork& work() const noexcept { return work_; }

 private:
  enum Field : unsigned { kUnknown = 0, kDtype = 1, kShape = 2, kOffsets = 4, kAll = 7 };

  bool document(const ParseOptions& options);
  bool member();
  bool metadata(std::string_view name);
  bool metadata_pairs(base::ChunkedVector<MetadataPair>& pairs, NameIndex& keys);
  bool entry(std::string_view name);
  bool entry_fields(TensorInfo& info);
  bool field(std::string_view key, TensorInfo& info, unsigned& seen);
  bool canonical_entry(TensorInfo& info);
  bool dtype(TensorInfo& info);
  bool shape(TensorInfo& info);
  bool offsets(TensorInfo& info);
  void add(const TensorInfo& info);
  bool missing(unsigned seen);
  void repeated(std::string_view key) noexcept {
    const std::size_t start = static_cast<std::size_t>(key.data() - state_.text.data()) - 1;
    if (start >= repeated_) return;
    repeated_ = start;
    repeated_key_ = key;
  }
  template <class KeyAt>
  void find_repeated(NameIndex& index, const KeyAt& key_at);
  [[nodiscard]] Error failure() const;
  [[nodiscard]] std::string where() const;
  [[nodiscard]] std::string found() const;

  HeaderState& state_;
  base::Cancellation& cancellation_;
  json::Reader reader_;
  std::string_view name_;  // of the entry being read
  bool in_entry_ = false;
  std::string detail_;  // replaces the failure's text
  NameIndex unknown_index_;
  base::ChunkedVector<TextRange> unknown_;         // keys of the entry that are none of ours
  base::ChunkedVector<MetadataPair> pairs_again_;  // of a __metadata__ that is repeated
  NameIndex keys_again_;
  std::size_t repeated_ = kNowhere;  // the repeated key with the lowest offset
  std::string_view repeated_key_;
  bool metadata_seen_ = false;
  const TensorInfo* last_ = nullptr;
  Matcher::KnownDtypes known_dtypes_;
  bool in_order_ = true;
  bool sizes_fit_ = true;
  ParseWork work_;
};

Status Parser::run(const ParseOptions& options) {
  if (!document(options)) return failure();
  find_repeated(state_.names, [this](std::size_t i) { return state_.tensors[i].name; });
  if (cancellation_.stopped()) return base::opening_cancelled();
  if (repeated_ == kNowhere) return {};
  Error error;
  error.code = Errc::duplicate_key;
  error.offset = 8 + repeated_;
  error.message = "invalid JSON in header: the key `" + printable(repeated_key_.substr(0, 200)) + "` is repeated";
  return error;
}

bool Parser::document(const ParseOptions& options) {
  const char first = state_.text.size() == 0 ? '\0' : *reader_.at();
  if (first == ' ' || first == '\t' || first == '\n' || first == '\r') {
    if (!options.allow_leading_whitespace) {
      return reader_.fail(Errc::json_leading_whitespace, 0, "white space before the { that a header begins with");
    }
    state_.leading_whitespace = true;
  }
  if (!reader_.open('{', "the header must be an object")) return false;
  bool more = !reader_.consume('}');
  while (more) {
    if (!member() || !reader_.next('}', more)) return false;
  }
  return reader_.end();
}

bool Parser::member() {
  std::string_view name;
  std::size_t start = 0;
  if (!reader_.plain_key(name) && !reader_.key(name, start)) return false;
  return name == kMetadataKey ? metadata(name) : entry(name);
}

bool Parser::metadata(std::string_view name) {
  const bool again = std::exchange(metadata_seen_, true);
  if (again) repeated(name);
  if (reader_.peek() == 'n') return reader_.null();
  if (again) {  // checked as the first is, then forgotten
    pairs_again_.clear();
    keys_again_.clear();
    return metadata_pairs(pairs_again_, keys_again_);
  }
  state_.metadata_present = true;
  if (!metadata_pairs(state_.metadata, state_.keys)) return false;
  // With a repeated key it is never asked for, and would be over the bound for memory.
  if (repeated_ == kNowhere) state_.metadata_order = state_.arena.allocate<std::uint32_t>(state_.metadata.size());
  return true;
}

bool Parser::metadata_pairs(base::ChunkedVector<MetadataPair>& pairs, NameIndex& keys) {
  if (!reader_.open('{', "__metadata__ must be an object or null")) return false;
  bool more = !reader_.consume('}');
  while (more) {
    std::string_view key;
    std::string_view value;
    std::size_t start = 0;
    if (!reader_.key(key, start)) return false;
    if (reader_.peek() != '"') return reader_.fail_type("a value of __metadata__ must be a string");
    if (!reader_.string(value)) return false;
    const std::size_t most = reader_.left() / kLeastPair + 1;
    keys.push(state_.arena, base::hash(key, state_.hash_key), most);
    pairs.push(state_.arena, most) = {state_.stretch(key), state_.stretch(value)};
    if (!reader_.next('}', more)) return false;
  }
  find_repeated(keys, [&](std::size_t i) { return state_.view(pairs[i].key); });
  return true;
}

template <class KeyAt>
void Parser::find_repeated(NameIndex& index, const KeyAt& key_at) {
  const std::uint64_t before = index.probes();
  const std::uint32_t again = index.build(state_.arena, key_at, &cancellation_);
  work_.entries += index.size();
  work_.probes += index.probes() - before;
  if (again != NameIndex::kNone) repeated(key_at(again));
}

bool Parser::entry(std::string_view name) {
  name_ = name;
  in_entry_ = true;
  TensorInfo info;
  info.name = name;
  if (!canonical_entry(info) && !entry_fields(info)) return false;
  in_entry_ = false;
  info.file_offset = 8 + state_.text.size() + info.begin;  // may wrap for hostile offsets, which rule 10 then refuses
  add(info);
  return true;
}

void Parser::add(const TensorInfo& info) {
  const std::size_t most = reader_.left() / kLeastEntry + 1;
  state_.names.push(state_.arena, base::hash(info.name, state_.hash_key), most);
  TensorInfo& added = state_.tensors.push(state_.arena, most);
  added = info;
  in_order_ = in_order_ && follows(last_, added);
  sizes_fit_ = sizes_fit_ && size_fits(added);
  last_ = &added;
}

// The object of an entry, its fields in any order.
bool Parser::entry_fields(TensorInfo& info) {
  unknown_.clear();
  unsigned seen = 0;
  if (!reader_.open('{', "a tensor's entry must be an object")) return false;
  bool more = !reader_.consume('}');
  while (more) {
    std::string_view key;
    std::size_t start = 0;
    if (!reader_.key(key, start) || !field(key, info, seen) || !reader_.next('}', more)) return false;
  }
  if (unknown_.size() > 1) {
    unknown_index_.clear();
    const std::size_t most = state_.text.size() / kLeastField;
    for (std::size_t i = 0; i < unknown_.size(); ++i) {
      unknown_index_.push(state_.arena, base::hash(state_.view(unknown_[i]), state_.hash_key), most);
    }
    find_repeated(unknown_index_, [this](std::size_t i) { return state_.view(unknown_[i]); });
  }
  return seen == kAll || missing(seen);
}

bool Parser::field(std::string_view key, TensorInfo& info, unsigned& seen) {
  const Field which = key == "dtype" ? kDtype : key == "shape" ? kShape : key == "data_offsets" ? kOffsets : kUnknown;
  if (which == kUnknown) {
    unknown_.push(state_.arena, reader_.left() / kLeastField + 1) = state_.stretch(key);
    return reader_.skip_value(kOpenInEntry);
  }
  if ((seen & which) != 0) repeated(key);
  seen |= which;
  return which == kDtype ? dtype(info) : which == kShape ? shape(info) : offsets(info);
}

bool Parser::missing(unsigned seen) {
  const char* const field = (seen & kDtype) == 0 ? "dtype" : (seen & kShape) == 0 ? "shape" : "data_offsets";
  detail_ = std::string("missing field `") + field + "`";
  bool draft = false;
  for (std::size_t i = 0; i < unknown_.size(); ++i) draft = draft || state_.view(unknown_[i]) == "offsets";
  if (draft && (seen & kOffsets) == 0)
    detail_ += " (`offsets` is the name of `data_offsets` in an early draft of the format)";
  return reader_.fail(Errc::missing_field, reader_.offset() - 1, "");
}

bool Parser::dtype(TensorInfo& info) {
  if (reader_.peek() != '"') return reader_.fail_type("dtype must be a string");
  const std::size_t start = reader_.offset();
  std::string_view name;
  if (!reader_.string(name)) return false;
  const std::optional<Dtype> known = parse_dtype(name);
  if (known) {
    info.dtype = *known;
    return true;
  }
  detail_ = "unknown dtype `" + printable(name.substr(0, 40)) + "`";
  if (name == "float16") detail_ += " (the name of `F16` in an early draft of the format)";
  detail_ += ", it must be one of";
  for (const Dtype each : all_dtypes()) detail_.append(" ").append(to_string(each));
  return reader_.fail(Errc::unknown_dtype, start, "");
}

bool Parser::shape(TensorInfo& info) {
  if (!reader_.open('[', "shape must be an array")) return false;
  if (reader_.consume(']')) {
    info.shape = {};
    return true;
  }
  // Counted first, so that the memory is exact: an integer needs no bracket, and two bytes with its comma.
  std::size_t count = 1;
  const char* stop = reader_.at();
  for (; *stop != ']' && *stop != '\0' && *stop != '"' && *stop != '['; ++stop) count += *stop == ',';
  count = std::min(count, static_cast<std::size_t>(stop - reader_.at()) / 2 + 1);
  std::uint64_t* dims = state_.arena.allocate<std::uint64_t>(count);
  bool more = true;
  std::size_t rank = 0;
  while (more) {
    std::uint64_t dim = 0;
    if (!reader_.integer(dim) || !reader_.next(']', more)) return false;
    dims[rank++] = dim;
  }
  info.shape = {dims, rank};
  return true;
}

bool Parser::offsets(TensorInfo& info) {
  constexpr const char* kTwo = "data_offsets must be an array of two integers";
  if (!reader_.open('[', kTwo)) return false;
  if (reader_.peek() == ']') return reader_.fail(Errc::json_type, reader_.offset(), kTwo);
  if (!reader_.integer(info.begin)) return false;
  if (reader_.peek() == ']') return reader_.fail(Errc::json_type, reader_.offset(), kTwo);
  if (!reader_.consume(',')) return reader_.fail_here("expected , or ]");
  if (!reader_.integer(info.end)) return false;
  if (reader_.peek() == ',') return reader_.fail(Errc::json_type, reader_.offset(), kTwo);
  return reader_.consume(']') || reader_.fail_here("expected , or ]");
}

// An entry exactly as writers write it, at a fraction of the time; false, with nothing read, for any other.
bool Parser::canonical_entry(TensorInfo& info) {
  constexpr std::size_t kMostDims = 8;
  Matcher match(reader_.at());
  if (!match.literal("{\"dtype\":\"") || !match.dtype(known_dtypes_, info.dtype)) return false;
  std::uint64_t dims[kMostDims];
  std::size_t rank = 0;
  if (!match.literal("\",\"shape\":[")) return false;
  if (!match.one(']')) {
    do {
      if (rank == kMostDims || !match.integer(dims[rank++])) return false;
    } while (match.one(','));
    if (!match.one(']')) return false;
  }
  if (!match.literal(",\"data_offsets\":[") || !match.integer(info.begin) || !match.one(',') ||
      !match.integer(info.end) || !match.literal("]}")) {
    return false;
  }
  std::uint64_t* kept = state_.arena.allocate<std::uint64_t>(rank);
  for (std::size_t i = 0; i < rank; ++i) kept[i] = dims[i];
  info.shape = {kept, rank};
  reader_.move_to(match.at());
  return true;
}

std::string Parser::where() const {
  if (!in_entry_) return {};
  return "tensor `" + printable(name_.substr(0, 200)) + "`: ";
}

// What stands where something else was expected. What has been unescaped in place lies before it.
std::string Parser::found() const {
  const json::Failure& failure = reader_.failure();
  const std::string_view rest = std::string_view(state_.text.data(), state_.text.size()).substr(failure.at);
  if (rest.empty()) return {};
  if (failure.code == Errc::json_type) {
    static constexpr std::string_view kFirst = "{[\"tfn-0123456789";
    static constexpr const char* kKinds[] = {"an object", "an array", "a string", "true", "false", "null", "a number"};
    const std::size_t kind = kFirst.find(rest[0]);
    return kind == kFirst.npos ? std::string() : std::string(", found ") + kKinds[std::min<std::size_t>(kind, 6)];
  }
  std::size_t size = 0;
  if (failure.code == Errc::json_integer || failure.code == Errc::json_number) {
    size = rest.find_first_not_of("+-.0123456789Ee");
  } else if (failure.code != Errc::json_syntax) {
    return {};
  } else if (rest.starts_with("\\u") && rest.find_first_not_of("0123456789abcdefABCDEF", 2) >= 6) {  // a surrogate
    return ", found `" + std::string(rest.substr(0, 6)) + "`";
  } else {
    size = base::utf8_sequence_length(rest);
  }
  constexpr std::size_t kShown = 24;
  const std::string_view token = rest.substr(0, size);
  return ", found `" + printable(token.substr(0, kShown)) + (token.size() > kShown ? "...`" : "`");
}

Error Parser::failure() const {
  const json::Failure& failure = reader_.failure();
  if (failure.code == Errc::cancelled) return base::opening_cancelled();
  Error error;
  error.code = failure.code;
  error.offset = 8 + failure.at;
  if (failure.code == Errc::invalid_utf8) {
    const auto byte = static_cast<unsigned char>(state_.text.data()[failure.at]);
    error.message = "invalid UTF-8 in header: 0x" + std::string{"0123456789abcdef"[byte >> 4]} +
                    "0123456789abcdef"[byte & 0xF] + ", byte " + std::to_string(failure.at) + " of the header's " +
                    std::to_string(state_.text.size()) + ", begins no valid sequence";
    return error;
  }
  error.message = "invalid JSON in header: " + where() + (detail_.empty() ? failure.what + found() : detail_);
  return error;
}

}  // namespace

Result<Header> parse_header(HeaderBuffer text, std::uint64_t data_size, const ParseOptions& options, ParseWork* work,
                            base::Cancellation* given) {
  base::Cancellation never{std::function<bool()>()};
  base::Cancellation& cancellation = given != nullptr ? *given : never;
  if (cancellation.requested()) return base::opening_cancelled();
  const auto state = std::make_shared<HeaderState>(std::move(text), data_size);
  Parser parser(*state, cancellation);
  Status status = parser.run(options);
  if (work != nullptr) *work = parser.work();
  if (!status) return std::move(status).error();
  status = check_layout(*state, parser.in_order(), parser.sizes_fit(), cancellation);
  if (!status) return std::move(status).error();
  return HeaderState::make(state);
}

}  // namespace safetensors::format
