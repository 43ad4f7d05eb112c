// Checks rules 4 and 5: parses a header's text into tensors and metadata. Rules 6 to 10 are in layout.cpp.
//
// Each entry is first compared with the exact text that writers produce, which takes a fraction of the time. Only an
// entry that differs goes through the general JSON reader. Names are hashed while they are read, and repeated names are
// found afterwards in one pass, when the number of names is known.
#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/little_endian.h"
#include "base/printable.h"
#include "base/utf8.h"
#include "format/dtype/dtype.h"
#include "format/header/header.h"
#include "format/header/layout.h"
#include "json/reader.h"

namespace safetensors::format {
namespace {

using detail::HeaderState;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kNowhere = ~std::size_t{0};
// The minimum number of bytes of text per tensor, metadata pair and ignored field. The bytes that remain, divided by
// these, bound the number of elements to come, and so the memory for them.
constexpr std::size_t kMinEntryBytes = 48;  // "":{"dtype":"","shape":[],"data_offsets":[0,0]},
constexpr std::size_t kMinPairBytes = 6;    // "":"",
constexpr std::size_t kMinFieldBytes = 5;   // "":0,
constexpr unsigned kOpenInEntry = 2;        // open containers: the header's object and the entry's

// Compares text with expected tokens. Each function returns false if the text does not match. A match needs no bounds
// check: the NUL after the text matches nothing, and the padding after it can be read.
class Matcher {
 public:
  // A dtype's name with its closing quote, as the first bytes of a 64-bit number. The default value matches nothing.
  struct KnownDtype {
    std::uint64_t name = 1;
    std::uint64_t mask = 0;
    std::size_t size = 0;
    Dtype dtype = Dtype::U8;
  };
  using KnownDtypes = std::array<KnownDtype, 2>;

  explicit Matcher(char* position) noexcept : position_(position) {}
  template <std::size_t Size>
  bool literal(const char (&expected)[Size]) noexcept {
    if (!same<Size - 1>(position_, expected)) return false;
    position_ += Size - 1;
    return true;
  }
  bool integer(std::uint64_t& value) noexcept {
    const char* start = position_;
    value = 0;
    for (; *position_ >= '0' && *position_ <= '9'; ++position_)
      value = value * 10 + static_cast<unsigned char>(*position_ - '0');
    const auto digits = position_ - start;
    // Up to 19 digits cannot overflow 64 bits. Longer numbers, and leading zeros, are for the JSON reader.
    return digits == 1 || (digits > 1 && digits < 20 && *start != '0');
  }
  // known: the last two names seen. The next name is most often one of them, and then one comparison of 8 bytes is
  // enough.
  bool dtype(KnownDtypes& known, Dtype& dtype) noexcept {
    const std::uint64_t bytes = base::load_u64(reinterpret_cast<const std::byte*>(position_));
    for (const KnownDtype& each : known) {
      if ((bytes & each.mask) != each.name) continue;
      dtype = each.dtype;
      position_ += each.size;
      return true;
    }
    std::size_t length = 1;
    while (length <= kMaxDtypeName && position_[length] != '"') ++length;
    const std::optional<Dtype> parsed = parse_dtype({position_, length});
    if (!parsed) return false;
    dtype = *parsed;
    position_ += length;
    if (length < sizeof bytes) {
      const std::uint64_t mask = ~std::uint64_t{0} >> (56 - 8 * length);
      std::swap(known[0], known[1]);
      known[0] = {bytes & mask, mask, length, dtype};
    }
    return true;
  }
  bool one(char c) noexcept {
    if (*position_ != c) return false;
    ++position_;
    return true;
  }
  [[nodiscard]] char* position() const noexcept { return position_; }

 private:
  // Like memcmp, in pieces of 8 bytes: compilers turn a longer memcmp into a function call.
  template <std::size_t Size>
  static bool same(const char* a, const char* b) noexcept {
    if constexpr (Size > 8) {
      return same<8>(a, b) && same<Size - 8>(a + 8, b + 8);
    } else {
      return std::memcmp(a, b, Size) == 0;
    }
  }

  char* position_;
};

class Parser {
 public:
  Parser(HeaderState& state, base::Cancellation& cancellation) noexcept
      : state_(state), cancellation_(cancellation), reader_(state.text.data(), state.text.size(), &cancellation) {}

  [[nodiscard]] Status run(const ParseOptions& options);
  // True if each tensor begins where the one before it ends.
  [[nodiscard]] bool in_order() const noexcept { return in_order_; }
  // True if the size of each tensor matches its shape and dtype (rules 7 to 9).
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
  void keep_unknown_dtype(std::string_view name);
  bool shape(TensorInfo& info);
  bool offsets(TensorInfo& info);
  void add(const TensorInfo& info);
  bool missing(unsigned seen);
  // Keeps the repeated key with the lowest offset. A repeated key is reported at the end, after all other errors of
  // rule 5.
  void repeated(std::string_view key) noexcept {
    const std::size_t start = static_cast<std::size_t>(key.data() - state_.text.data()) - 1;
    if (start >= repeated_) return;
    repeated_ = start;
    repeated_key_ = key;
  }
  template <class KeyAt>
  void find_repeated(NameIndex& index, const KeyAt& key_at);
  [[nodiscard]] Error failure() const;
  [[nodiscard]] std::string location() const;
  [[nodiscard]] std::string found() const;

  HeaderState& state_;
  base::Cancellation& cancellation_;
  json::Reader reader_;
  std::string_view name_;  // of the current entry
  bool in_entry_ = false;
  std::string detail_;  // if not empty, replaces the text of the reader's failure
  NameIndex unknown_index_;
  base::ChunkedVector<TextRange> unknown_;         // keys of the current entry that the format does not define
  base::ChunkedVector<MetadataPair> pairs_again_;  // of a repeated __metadata__
  NameIndex keys_again_;
  std::size_t repeated_ = kNowhere;  // offset of the first repeated key
  std::string_view repeated_key_;
  bool metadata_seen_ = false;
  const TensorInfo* last_ = nullptr;  // the previous tensor of the text
  Matcher::KnownDtypes known_dtypes_;
  bool in_order_ = true;
  bool sizes_fit_ = true;
  bool accept_unknown_dtypes_ = false;
  ParseWork work_;
};

Status Parser::run(const ParseOptions& options) {
  accept_unknown_dtypes_ = options.accept.unknown_dtypes;
  if (!document(options)) return failure();
  find_repeated(state_.names, [this](std::size_t i) { return state_.tensors[i].name; });
  if (cancellation_.stopped()) return base::opening_cancelled();
  if (repeated_ == kNowhere) return {};
  Error error;
  error.code = Errc::duplicate_key;
  error.offset = 8 + repeated_;
  error.message =
      base::concat({"invalid JSON in header: the key `", printable(repeated_key_.substr(0, 200)), "` is repeated"});
  return error;
}

bool Parser::document(const ParseOptions& options) {
  const char first = state_.text.size() == 0 ? '\0' : *reader_.position();
  if (first == ' ' || first == '\t' || first == '\n' || first == '\r') {
    if (!options.allow_leading_whitespace) {
      return reader_.fail(Errc::json_leading_whitespace, 0, "white space before the { that a header begins with");
    }
    state_.tolerated.leading_whitespace = true;
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
  if (again) {  // Check a repeated __metadata__ like the first one, because its errors come before the repeated key.
    pairs_again_.clear();
    keys_again_.clear();
    return metadata_pairs(pairs_again_, keys_again_);
  }
  state_.metadata_present = true;
  if (!metadata_pairs(state_.metadata, state_.keys)) return false;
  // A header with a repeated key is refused, so it needs no order. The memory for it could exceed the header's limit.
  if (repeated_ == kNowhere) state_.metadata_order = state_.allocator.allocate<std::uint32_t>(state_.metadata.size());
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
    if (reader_.peek() != '"') {
      detail_ = base::concat({"the value of ", base::shown_name(key, 200), " in __metadata__ must be a string"});
      (void)reader_.fail_type("");
      detail_ += found();
      return false;
    }
    if (!reader_.string(value)) return false;
    const std::size_t max_count = reader_.remaining() / kMinPairBytes + 1;
    keys.push(state_.allocator, base::hash(key, state_.hash_key), max_count);
    pairs.push(state_.allocator, max_count) = {state_.range(key), state_.range(value)};
    if (!reader_.next('}', more)) return false;
  }
  find_repeated(keys, [&](std::size_t i) { return state_.view(pairs[i].key); });
  return true;
}

// key_at(i) returns the key with index i. It must point into the text.
template <class KeyAt>
void Parser::find_repeated(NameIndex& index, const KeyAt& key_at) {
  const std::uint64_t before = index.probes();
  const std::uint32_t again = index.build(state_.allocator, key_at, &cancellation_);
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
  info.file_offset = 8 + state_.text.size() + info.begin;  // A hostile offset may wrap. Rule 10 refuses it later.
  add(info);
  return true;
}

void Parser::add(const TensorInfo& info) {
  const std::size_t max_count = reader_.remaining() / kMinEntryBytes + 1;
  state_.names.push(state_.allocator, base::hash(info.name, state_.hash_key), max_count);
  TensorInfo& added = state_.tensors.push(state_.allocator, max_count);
  added = info;
  in_order_ = in_order_ && follows(last_, added);
  sizes_fit_ = sizes_fit_ && size_fits(added);
  last_ = &added;
}

// Reads the object of an entry, with its fields in any order. Unknown fields are ignored, but a repeated one is an
// error.
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
    // The remaining text does not bound the fields of this entry, because they are already read. The whole text does.
    const std::size_t max_count = state_.text.size() / kMinFieldBytes;
    for (std::size_t i = 0; i < unknown_.size(); ++i) {
      unknown_index_.push(state_.allocator, base::hash(state_.view(unknown_[i]), state_.hash_key), max_count);
    }
    find_repeated(unknown_index_, [this](std::size_t i) { return state_.view(unknown_[i]); });
  }
  return seen == kAll || missing(seen);
}

bool Parser::field(std::string_view key, TensorInfo& info, unsigned& seen) {
  const Field which = key == "dtype" ? kDtype : key == "shape" ? kShape : key == "data_offsets" ? kOffsets : kUnknown;
  if (which == kUnknown) {
    unknown_.push(state_.allocator, reader_.remaining() / kMinFieldBytes + 1) = state_.range(key);
    return reader_.skip_value(kOpenInEntry);
  }
  if ((seen & which) != 0) repeated(key);
  seen |= which;
  return which == kDtype ? dtype(info) : which == kShape ? shape(info) : offsets(info);
}

bool Parser::missing(unsigned seen) {
  const char* const field = (seen & kDtype) == 0 ? "dtype" : (seen & kShape) == 0 ? "shape" : "data_offsets";
  detail_ = base::concat({"missing field `", field, "`"});
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
  if (accept_unknown_dtypes_) {
    info.dtype = Dtype::UNKNOWN;
    keep_unknown_dtype(name);
    return true;
  }
  detail_ = base::concat({"unknown dtype `", printable(name.substr(0, 40)), "`"});
  if (name == "float16") detail_ += " (the name of `F16` in an early draft of the format)";
  detail_ += ", it must be one of";
  for (const Dtype each : all_dtypes()) detail_.append(" ").append(to_string(each));
  return reader_.fail(Errc::unknown_dtype, start, "");
}

// Keeps one text per tensor. A repeated `dtype` field is an error that is reported later. The texts of such fields are
// not kept, because their number has no limit.
void Parser::keep_unknown_dtype(std::string_view name) {
  auto& unknown = state_.unknown_dtypes;
  const auto index = static_cast<std::uint32_t>(state_.tensors.size());
  if (!unknown.empty() && unknown[unknown.size() - 1].tensor == index) return;
  unknown.push(state_.allocator, reader_.remaining() / kMinEntryBytes + 1) = {index, state_.range(name)};
}

bool Parser::shape(TensorInfo& info) {
  if (!reader_.open('[', "shape must be an array")) return false;
  if (reader_.consume(']')) {
    info.shape = {};
    return true;
  }
  // Count the commas first, so that the allocation is exact. An integer and its comma take at least two bytes, so
  // hostile text such as `,,,,` cannot raise the count above half of its bytes.
  std::size_t count = 1;
  const char* stop = reader_.position();
  for (; *stop != ']' && *stop != '\0' && *stop != '"' && *stop != '['; ++stop) count += *stop == ',';
  count = std::min(count, static_cast<std::size_t>(stop - reader_.position()) / 2 + 1);
  std::uint64_t* dims = state_.allocator.allocate<std::uint64_t>(count);
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

// Reads an entry in the exact form that writers produce. Returns false for any other form, and consumes nothing then.
bool Parser::canonical_entry(TensorInfo& info) {
  constexpr std::size_t kMaxDims = 8;
  Matcher match(reader_.position());
  if (!match.literal("{\"dtype\":\"") || !match.dtype(known_dtypes_, info.dtype)) return false;
  std::uint64_t dims[kMaxDims];
  std::size_t rank = 0;
  if (!match.literal("\",\"shape\":[")) return false;
  if (!match.one(']')) {
    do {
      if (rank == kMaxDims || !match.integer(dims[rank++])) return false;
    } while (match.one(','));
    if (!match.one(']')) return false;
  }
  if (!match.literal(",\"data_offsets\":[") || !match.integer(info.begin) || !match.one(',') ||
      !match.integer(info.end) || !match.literal("]}")) {
    return false;
  }
  std::uint64_t* kept = state_.allocator.allocate<std::uint64_t>(rank);
  for (std::size_t i = 0; i < rank; ++i) kept[i] = dims[i];
  info.shape = {kept, rank};
  reader_.move_to(match.position());
  return true;
}

// Returns the part of a message that names the tensor.
std::string Parser::location() const {
  if (!in_entry_) return {};
  return base::concat({"tensor `", printable(name_.substr(0, 200)), "`: "});
}

// Describes the token at the failure. The token is intact, because the reader unescapes only the text before it.
std::string Parser::found() const {
  const json::Failure& failure = reader_.failure();
  const std::string_view rest = std::string_view(state_.text.data(), state_.text.size()).substr(failure.offset);
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
  return base::concat({", found ", base::shown_name(rest.substr(0, size), 24)});
}

Error Parser::failure() const {
  const json::Failure& failure = reader_.failure();
  if (failure.code == Errc::cancelled) return base::opening_cancelled();
  Error error;
  error.code = failure.code;
  error.offset = 8 + failure.offset;
  if (failure.code == Errc::invalid_utf8) {
    const auto byte = static_cast<unsigned char>(state_.text.data()[failure.offset]);
    constexpr std::string_view kHexDigits = "0123456789abcdef";
    error.message = base::concat({"invalid UTF-8 in header: 0x",
                                  std::string{kHexDigits[byte >> 4], kHexDigits[byte & 0xF]}, ", byte ", failure.offset,
                                  " of the header's ", state_.text.size(), ", begins no valid sequence"});
    return error;
  }
  error.message =
      base::concat({"invalid JSON in header: ", location(), (detail_.empty() ? failure.what + found() : detail_)});
  return error;
}

}  // namespace

Result<std::shared_ptr<HeaderState>> parse_state(HeaderBuffer text, std::uint64_t data_size,
                                                 const ParseOptions& options, ParseWork* work,
                                                 base::Cancellation* given) {
  base::Cancellation never;
  base::Cancellation& cancellation = given != nullptr ? *given : never;
  if (cancellation.requested()) return base::opening_cancelled();
  const auto state = std::make_shared<HeaderState>(std::move(text), data_size);
  Parser parser(*state, cancellation);
  Status status = parser.run(options);
  if (work != nullptr) *work = parser.work();
  if (!status) return std::move(status).error();
  state->tolerated.unknown_dtypes = state->unknown_dtypes.size();
  status = check_layout(*state, parser.in_order(), parser.sizes_fit(), options.accept, cancellation);
  if (!status) return std::move(status).error();
  return state;
}

Result<Header> parse_header(HeaderBuffer text, std::uint64_t data_size, const ParseOptions& options, ParseWork* work,
                            base::Cancellation* cancellation) {
  Result<std::shared_ptr<HeaderState>> state = parse_state(std::move(text), data_size, options, work, cancellation);
  if (!state) return std::move(state).error();
  return detail::Access<Header>::make(*std::move(state));
}

}  // namespace safetensors::format
