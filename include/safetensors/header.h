// The header of a safetensors file: names, dtypes, shapes, offsets, metadata. Pure: no file is touched here.
#pragma once

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace safetensors {
inline namespace v0 {

struct ParseOptions {
  // Headers longer than this are refused before anything is allocated. 100,000,000 is the format's limit; raising
  // it accepts files that other readers refuse. Never more than 4 GiB - 1.
  std::uint64_t max_header_bytes = 100'000'000;
  // Accept white space before the `{`, as the reference implementation does. The format says the header begins with
  // `{`.
  bool allow_leading_whitespace = false;
  /// Ends the call with Errc::cancelled once it returns true. Called now and then by the thread that made the call, and
  /// by no other, from before the first byte is read until the last tensor is checked; it must not throw. It may look
  /// at a flag that another thread or a signal handler sets. A read that is under way is waited for. Empty: the call
  /// cannot be cancelled.
  std::function<bool()> cancelled = {};
};

// One tensor of a header. name and shape point into the Header and live as long as any copy of it.
struct TensorInfo {
  std::string_view name;          // any valid UTF-8, also empty or "../../x": show it with printable()
  ShapeView shape;                // in elements
  std::uint64_t begin = 0;        // data_offsets: bytes from the start of the data, half open
  std::uint64_t end = 0;          //
  std::uint64_t file_offset = 0;  // of the first byte, from the start of the file: 8 + header length + begin
  Dtype dtype = Dtype::U8;

  [[nodiscard]] std::uint64_t nbytes() const noexcept { return end - begin; }
};

namespace detail {
struct HeaderState;

// A random-access iterator over anything with operator[](index): enough for range-for and <algorithm>.
template <class List>
class IndexIterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using reference = decltype(std::declval<const List&>()[0]);
  using value_type = std::remove_cv_t<std::remove_reference_t<reference>>;
  using difference_type = std::ptrdiff_t;
  using pointer = void;

  IndexIterator() noexcept = default;
  IndexIterator(List list, std::size_t index) noexcept : list_(list), index_(static_cast<difference_type>(index)) {}
  reference operator*() const noexcept { return list_[static_cast<std::size_t>(index_)]; }
  reference operator[](difference_type n) const noexcept { return list_[static_cast<std::size_t>(index_ + n)]; }
  auto operator->() const noexcept requires std::is_reference_v<reference> { return &**this; }
  IndexIterator& operator++() noexcept { return *this += 1; }
  IndexIterator& operator--() noexcept { return *this -= 1; }
  IndexIterator operator++(int) noexcept { return {list_, static_cast<std::size_t>(index_++)}; }
  IndexIterator operator--(int) noexcept { return {list_, static_cast<std::size_t>(index_--)}; }
  IndexIterator& operator+=(difference_type n) noexcept { return index_ += n, *this; }
  IndexIterator& operator-=(difference_type n) noexcept { return index_ -= n, *this; }
  friend IndexIterator operator+(IndexIterator a, difference_type n) noexcept { return a += n; }
  friend IndexIterator operator+(difference_type n, IndexIterator a) noexcept { return a += n; }
  friend IndexIterator operator-(IndexIterator a, difference_type n) noexcept { return a -= n; }
  friend difference_type operator-(const IndexIterator& a, const IndexIterator& b) noexcept {
    return a.index_ - b.index_;
  }
  friend bool operator==(const IndexIterator& a, const IndexIterator& b) noexcept { return a.index_ == b.index_; }
  friend auto operator<=>(const IndexIterator& a, const IndexIterator& b) noexcept { return a.index_ <=> b.index_; }

 private:
  List list_;
  difference_type index_ = 0;
};
}  // namespace detail

// The tensors of a Header in one of its two orders. A view: lives as long as any copy of the Header.
class TensorList {
 public:
  using iterator = detail::IndexIterator<TensorList>;

  TensorList() noexcept = default;
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] SAFETENSORS_API const TensorInfo& operator[](std::size_t index) const noexcept;
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }

 private:
  friend class Header;
  TensorList(const detail::HeaderState* state, const std::uint32_t* order) noexcept : state_(state), order_(order) {}
  const detail::HeaderState* state_ = nullptr;
  const std::uint32_t* order_ = nullptr;  // null: as the text has them
};

// The pairs of __metadata__, sorted by the bytes of their keys. A view: lives as long as any copy of the Header.
class Metadata {
 public:
  using value_type = std::pair<std::string_view, std::string_view>;
  using iterator = detail::IndexIterator<Metadata>;

  Metadata() noexcept = default;
  // Whether the header has a __metadata__ object at all: an empty one is present, null is absent.
  [[nodiscard]] SAFETENSORS_API bool present() const noexcept;
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] SAFETENSORS_API value_type operator[](std::size_t index) const noexcept;
  [[nodiscard]] SAFETENSORS_API std::optional<std::string_view> find(std::string_view key) const noexcept;
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }

 private:
  friend class Header;
  explicit Metadata(const detail::HeaderState* state) noexcept : state_(state) {}
  const detail::HeaderState* state_ = nullptr;
};

// A checked header: whatever it says is consistent. Copies are cheap and share; const calls from any thread.
class Header {
 public:
  // Rules 1-3 of the format. prefix: the first 8 bytes of the file or more, or all bytes of a shorter file. Returns the
  // header's length in bytes, N; the header is the N bytes from byte 8 on. If the file is of another common kind, such
  // as a zip archive, the error's message names it; 512 bytes are enough to recognise all kinds.
  static SAFETENSORS_API Result<std::uint64_t> length(std::span<const std::byte> prefix, std::uint64_t file_size,
                                                      const ParseOptions& options = {}) noexcept;

  // Rules 4-10. text: the N bytes (copied); data_size: what follows them in the file. Memory: at most 6 x text +
  // 1 MiB, the copy included, on any input. Error also: cancelled.
  static SAFETENSORS_API Result<Header> parse(std::string_view text, std::uint64_t data_size,
                                              const ParseOptions& options = {}) noexcept;

  SAFETENSORS_API Header() noexcept;  // no tensors, no metadata; N = 8
  SAFETENSORS_API Header(const Header&) noexcept;
  SAFETENSORS_API Header(Header&&) noexcept;
  SAFETENSORS_API Header& operator=(const Header&) noexcept;
  SAFETENSORS_API Header& operator=(Header&&) noexcept;
  SAFETENSORS_API ~Header();

  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;  // number of tensors
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  // In the order of their bytes in the file; tensors of no bytes at one offset by name.
  [[nodiscard]] SAFETENSORS_API TensorList tensors() const& noexcept;
  TensorList tensors() const&& = delete;
  // By the bytes of their names. Made on first use, which may fail for memory.
  [[nodiscard]] SAFETENSORS_API Result<TensorList> tensors_by_name() const& noexcept;
  Result<TensorList> tensors_by_name() const&& = delete;

  // nullptr when there is none.
  [[nodiscard]] SAFETENSORS_API const TensorInfo* find(std::string_view name) const& noexcept;
  const TensorInfo* find(std::string_view name) const&& = delete;

  [[nodiscard]] SAFETENSORS_API Metadata metadata() const& noexcept;
  Metadata metadata() const&& = delete;

  [[nodiscard]] SAFETENSORS_API std::uint64_t header_bytes() const noexcept;  // N, padding included
  [[nodiscard]] SAFETENSORS_API std::uint64_t data_bytes() const noexcept;
  // 8 + N: where the data starts in the file.
  [[nodiscard]] std::uint64_t data_start() const noexcept { return 8 + header_bytes(); }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return data_start() + data_bytes(); }
  // Whether white space stood before the `{` (only with ParseOptions::allow_leading_whitespace).
  [[nodiscard]] SAFETENSORS_API bool leading_whitespace() const noexcept;

  // The text as our writer writes it (docs/format.md): compact, metadata sorted, tensors in order of offset (of no
  // bytes at one offset: as the writer orders them), padded with spaces to header_bytes() where that is enough, else to
  // a multiple of 8. Byte-identical for what we wrote.
  [[nodiscard]] SAFETENSORS_API Result<std::string> text() const noexcept;

 private:
  friend struct detail::HeaderState;
  explicit Header(std::shared_ptr<const detail::HeaderState> state) noexcept;
  std::shared_ptr<const detail::HeaderState> state_;
};

struct LayoutOptions {
  // The data starts at a multiple of this: a power of two from 1 to 65536. 0: 8.
  std::uint32_t data_alignment = 0;
  // Spaces kept at the end of the header, so that metadata can grow in place (edit_metadata).
  std::uint64_t metadata_slack = 0;
};

// Collects what a file will hold and lays it out. Refuses everything that a reader would refuse. Not thread-safe.
class HeaderBuilder {
 public:
  SAFETENSORS_API HeaderBuilder() noexcept;
  SAFETENSORS_API HeaderBuilder(HeaderBuilder&&) noexcept;
  SAFETENSORS_API HeaderBuilder& operator=(HeaderBuilder&&) noexcept;
  SAFETENSORS_API ~HeaderBuilder();

  // Errors: duplicate_name, reserved_name, invalid_utf8, size_overflow, misaligned_size, invalid_argument (no dtype).
  SAFETENSORS_API Status add(std::string_view name, Dtype dtype, ShapeView shape) noexcept;
  SAFETENSORS_API Status add(std::string_view name, Dtype dtype, std::initializer_list<std::uint64_t> shape) noexcept;
  // Errors: duplicate_name, invalid_utf8.
  SAFETENSORS_API Status metadata(std::string_view key, std::string_view value) noexcept;
  // Writes `"__metadata__":{}` even if no pair is added.
  SAFETENSORS_API Status metadata_present() noexcept;

  // Orders tensors by dtype rank (highest first), then name, one after the other from offset 0. May be called again.
  // Errors: invalid_alignment, header_too_large (over 100,000,000 with padding), size_overflow (data over 2^64-1).
  [[nodiscard]] SAFETENSORS_API Result<Header> build(const LayoutOptions& options = {}) const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace v0
}  // namespace safetensors
