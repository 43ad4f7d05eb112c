// Builds a Header from names, dtypes and shapes. add() checks each tensor. build() sorts the tensors in the order of
// the writer, assigns their offsets, and writes the text.
//
// build() then gives the text to the parser that reads files. So a builder never makes a header that a reader refuses.
// The rules of the layout are in the code only once.
#include <safetensors/header.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <unordered_set>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/aligned_order.h"
#include "format/header.h"
#include "format/header_writer.h"
#include "format/layout.h"
#include "format/printable.h"

namespace safetensors {
inline namespace v0 {
namespace {

constexpr std::string_view kReserved = "__metadata__";

}  // namespace

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
  std::map<std::string, std::string, std::less<>> metadata;
  bool metadata_present = false;

  // Returns the entries in the order of the writer: by descending rank of the dtype, then by name. Large elements come
  // first, so each tensor begins at a multiple of its element size, without gaps in the data.
  [[nodiscard]] std::vector<const Entry*> in_order(TensorOrder wanted, std::uint32_t alignment) const {
    std::vector<const Entry*> order;
    order.reserve(entries.size());
    for (const Entry& entry : entries) order.push_back(&entry);
    if (wanted == TensorOrder::given) return order;
    std::sort(order.begin(), order.end(), [](const Entry* a, const Entry* b) {
      return format::written_before(a->dtype, a->name, b->dtype, b->name);
    });
    return wanted == TensorOrder::aligned ? aligned(order, alignment) : order;
  }

  // Returns the entries in the order of format::aligned_order().
  static std::vector<const Entry*> aligned(const std::vector<const Entry*>& order, std::uint32_t alignment) {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(order.size());
    for (const Entry* entry : order) sizes.push_back(entry->nbytes);
    std::vector<const Entry*> result;
    result.reserve(order.size());
    for (const std::size_t i : format::aligned_order(sizes, alignment)) result.push_back(order[i]);
    return result;
  }

  Status add(std::string_view name, Dtype dtype, ShapeView shape) {
    // A caller can convert any number to Dtype. An unknown number has no name.
    if (parse_dtype(to_string(dtype)) != dtype) {
      return base::make_error(Errc::invalid_argument, format::tensor_named(name) + ": unknown dtype " +
                                                          std::to_string(static_cast<int>(dtype)));
    }
    if (Status status = format::check_utf8("tensor name", name, name); !status) return status;
    if (name == kReserved) return base::make_error(Errc::reserved_name, "a tensor cannot be named __metadata__");
    if (names.contains(name)) {
      return base::make_error(Errc::duplicate_name, "a tensor named `" + printable(name) + "` was added before");
    }
    std::uint64_t nbytes = 0;
    if (const Errc code = format::count_bytes(dtype, shape, nbytes); code != Errc::ok) {
      return format::bytes_error(code, name, dtype, shape);
    }
    entries.push_back({std::string(name), dtype, Shape(shape), nbytes});
    // If the insertion throws, undo the push_back: a failed call must leave the builder unchanged.
    try {
      names.insert(entries.back().name);
    } catch (...) {
      entries.pop_back();
      throw;
    }
    return {};
  }

  Status add_metadata(std::string_view key, std::string_view value) {
    if (Status status = format::check_utf8("metadata key", key, key); !status) return status;
    if (Status status = format::check_utf8("metadata value of", key, value); !status) return status;
    if (!metadata.emplace(key, value).second) {
      return base::make_error(Errc::duplicate_name, "a metadata key `" + printable(key) + "` was added before");
    }
    metadata_present = true;
    return {};
  }

  Result<format::BuiltHeader> build(const LayoutOptions& options) const {
    const std::uint32_t alignment = options.data_alignment == 0 ? 8 : options.data_alignment;
    if (!std::has_single_bit(alignment) || alignment > 65536) {
      return base::make_error(Errc::invalid_alignment, "data_alignment is " + std::to_string(alignment) +
                                                           ", it must be a power of two from 1 to 65536");
    }
    format::HeaderWriter writer;
    if (metadata_present) writer.metadata(metadata);
    std::uint64_t offset = 0;
    for (const Entry* entry : in_order(options.order, alignment)) {
      std::uint64_t end = 0;
      if (!base::add(offset, entry->nbytes, end)) {
        return base::make_error(Errc::size_overflow, "tensor `" + printable(entry->name) + "` of " +
                                                         std::to_string(entry->nbytes) + " bytes at byte " +
                                                         std::to_string(offset) +
                                                         ": the data has more than 2^64-1 bytes");
      }
      writer.tensor(entry->name, entry->dtype, entry->shape, offset, end);
      offset = end;
    }
    std::string text = std::move(writer).finish();
    if (Status status = format::pad_text(text, alignment, options.metadata_slack); !status) {
      return std::move(status).error();
    }
    // Parse the text like that of a file, because the library must never write a header that it would refuse.
    Result<Header> header = Header::parse(text, offset);
    if (!header) return std::move(header).error();
    return format::BuiltHeader{*std::move(header), std::move(text)};
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

Result<Header> HeaderBuilder::build(const LayoutOptions& options) const noexcept {
  return base::guarded([&]() -> Result<Header> {
    Result<format::BuiltHeader> built = format::build_header(*this, options);
    if (!built) return std::move(built).error();
    return std::move(built->header);
  });
}

namespace detail {

template <>
struct Access<HeaderBuilder> {
  static Result<format::BuiltHeader> build(const HeaderBuilder& builder, const LayoutOptions& options) {
    return builder.state_ ? builder.state_->build(options) : HeaderBuilder::State().build(options);
  }
};

}  // namespace detail

}  // namespace v0

namespace format {

Result<BuiltHeader> build_header(const HeaderBuilder& builder, const LayoutOptions& options) {
  return detail::Access<HeaderBuilder>::build(builder, options);
}

}  // namespace format
}  // namespace safetensors
