// Builds a Header from names, dtypes and shapes. add() checks each tensor and copies it. build() makes the header from
// views of these copies: see format/header/new_header.h.
#include <safetensors/header.h>

#include <deque>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/exceptions.h"
#include "base/hash.h"
#include "format/header/header.h"
#include "format/header/layout.h"
#include "format/header/new_header.h"

namespace safetensors {
inline namespace v0 {

struct HeaderBuilder::State {
  struct Entry {
    std::string name;
    Dtype dtype;
    Shape shape;
    std::uint64_t nbytes;
  };
  // A hash with a random key. Without the key, nobody can choose names whose hashes collide.
  struct KeyedHash {
    KeyedHash() noexcept : key(base::HashKey::random()) {}
    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept { return base::hash(text, key); }
    base::HashKey key;
  };
  std::deque<Entry> entries;  // a deque, because it never moves its elements: `names` holds views of their names
  std::unordered_set<std::string_view, KeyedHash> names;
  format::NewMetadata metadata;
  bool metadata_present = false;

  Status add(std::string_view name, Dtype dtype, ShapeView shape) {
    if (Status status = format::check_new_name(name, dtype); !status) return status;
    if (names.contains(name)) return format::added_before(name);
    std::uint64_t nbytes = 0;
    if (const Errc code = format::count_bytes(dtype, shape, nbytes); code != Errc::ok) {
      return format::bytes_error(code, name, dtype, shape);
    }
    entries.push_back({std::string(name), dtype, Shape(shape), nbytes});
    // If the insertion throws, undo the push_back: a failed call must leave the builder unchanged.
    base::or_undo([&] { names.insert(entries.back().name); }, [&] { entries.pop_back(); });
    return {};
  }

  Status add_metadata(std::string_view key, std::string_view value) {
    if (Status status = format::add_metadata(metadata, key, value); !status) return status;
    metadata_present = true;
    return {};
  }

  [[nodiscard]] Result<format::NewHeaderText> text(const LayoutOptions& options) const {
    std::vector<format::NewTensor> tensors;
    tensors.reserve(entries.size());
    for (const Entry& entry : entries) tensors.push_back({entry.name, entry.shape, entry.nbytes, entry.dtype});
    const std::string member = metadata_present ? format::metadata_member(metadata) : std::string();
    return format::new_header_text(std::move(tensors), member, options);
  }
};

HeaderBuilder::HeaderBuilder() noexcept = default;
HeaderBuilder::HeaderBuilder(HeaderBuilder&&) noexcept = default;
HeaderBuilder& HeaderBuilder::operator=(HeaderBuilder&&) noexcept = default;
HeaderBuilder::~HeaderBuilder() = default;

Status HeaderBuilder::add(std::string_view name, Dtype dtype, ShapeView shape) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) state_ = std::make_unique<State>();
    return state_->add(name, dtype, shape);
  });
}

Status HeaderBuilder::add(std::string_view name, Dtype dtype, std::initializer_list<std::uint64_t> shape) noexcept {
  return add(name, dtype, ShapeView(shape.begin(), shape.size()));
}

Status HeaderBuilder::metadata(std::string_view key, std::string_view value) noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) state_ = std::make_unique<State>();
    return state_->add_metadata(key, value);
  });
}

Status HeaderBuilder::metadata_present() noexcept {
  return base::guarded([&]() -> Status {
    if (!state_) state_ = std::make_unique<State>();
    state_->metadata_present = true;
    return {};
  });
}

namespace detail {

template <>
struct Access<HeaderBuilder> {
  static Result<format::NewHeaderText> text(const HeaderBuilder& builder, const LayoutOptions& options) {
    return builder.state_ ? builder.state_->text(options) : HeaderBuilder::State().text(options);
  }
};

}  // namespace detail

Result<Header> HeaderBuilder::build(const LayoutOptions& options) const noexcept {
  return base::guarded([&]() -> Result<Header> {
    Result<format::NewHeaderText> text = detail::Access<HeaderBuilder>::text(*this, options);
    if (!text) return std::move(text).error();
    return format::new_header(*std::move(text));
  });
}

}  // namespace v0

namespace format {

Result<BuiltHeader> build_header(const HeaderBuilder& builder, const LayoutOptions& options) {
  Result<NewHeaderText> made = detail::Access<HeaderBuilder>::text(builder, options);
  if (!made) return std::move(made).error();
  Result<Header> header = Header::parse(made->text, made->data_bytes);
  if (!header) return std::move(header).error();
  return BuiltHeader{*std::move(header), std::move(made->text)};
}

}  // namespace format
}  // namespace safetensors
