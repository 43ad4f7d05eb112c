/// @file
/// Parses and builds the header of a safetensors file: names, dtypes, shapes, offsets and metadata. No function of this
/// header opens a file.
#pragma once

#include <safetensors/callback.h>
#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/shape.h>
#include <safetensors/span.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace safetensors {
inline namespace v0 {

/// Faults of a file that a reader accepts. Without these flags, each of them is an error.
///
/// Everything else stays an error with any of the flags: holes, tensors that overlap or reach past the end of the file,
/// repeated names, and sizes that do not match the shape and the dtype. Header::tolerated() returns the faults that
/// were found. The library reads such a file, but never writes one.
struct Accept {
  /// Tensors whose dtype is not a name of the format. They get Dtype::UNKNOWN, and are read as bytes. Their size is
  /// that of `data_offsets`.
  bool unknown_dtypes = false;
  /// Bytes after the last tensor.
  bool unused_bytes = false;

  /// Returns an Accept with all flags.
  [[nodiscard]] static constexpr Accept all() noexcept { return {true, true}; }
  /// Compares all flags.
  friend constexpr bool operator==(const Accept& a, const Accept& b) noexcept {
    return a.unknown_dtypes == b.unknown_dtypes && a.unused_bytes == b.unused_bytes;
  }
};

/// The faults that a reader accepted in a file.
struct Tolerated {
  std::uint64_t unknown_dtypes = 0;  ///< number of tensors with Dtype::UNKNOWN
  std::uint64_t unused_bytes = 0;    ///< bytes after the last tensor
  /// White space before the `{`. It does not matter to any(), because the library can write such a file again.
  bool leading_whitespace = false;

  /// Returns true when there is a fault that the library does not write.
  [[nodiscard]] bool any() const noexcept { return unknown_dtypes != 0 || unused_bytes != 0; }
  /// Compares all members.
  friend constexpr bool operator==(const Tolerated& a, const Tolerated& b) noexcept {
    return a.unknown_dtypes == b.unknown_dtypes && a.unused_bytes == b.unused_bytes &&
           a.leading_whitespace == b.leading_whitespace;
  }
};

/// Returns a list of the faults of any(), such as "1 tensor of unknown dtype, 8 unused bytes at the end".
/// Returns an empty text if there are none. May throw `std::bad_alloc`.
[[nodiscard]] SAFETENSORS_API std::string to_string(const Tolerated& tolerated);

/// Options of the functions that read a header.
struct ParseOptions {
  /// Maximum length of the header in bytes. A longer header is refused before memory is allocated for it. 100,000,000
  /// is the limit of the format. With a larger value, the library accepts files that other readers refuse. A value of
  /// 4 GiB or more has the same effect as 4 GiB - 1.
  std::uint64_t max_header_bytes = 100'000'000;
  /// Accept white space before the `{`, like the reference implementation. The format requires that the header begins
  /// with `{`.
  bool allow_leading_whitespace = false;
  /// Faults that the reader accepts. The default accepts none.
  Accept accept = {};
  /// A function that cancels the call: if it returns true, the call ends with Errc::cancelled. Empty: the call cannot
  /// be cancelled.
  ///
  /// The call runs this function from time to time, in the thread of the caller. It begins before it reads the first
  /// byte, and ends after it has checked the last tensor. The function may read a flag that another thread or a signal
  /// handler sets. It must not throw. A cancelled call waits for a read that has already started.
  Callback<bool()> cancelled = {};
};

/// The entry of one tensor in a header. `name` and `shape` point into the Header. They are valid as long as any copy of
/// the Header exists.
struct TensorInfo {
  std::string_view name;          ///< any valid UTF-8, even empty or "../../x"; use printable() to print it
  ShapeView shape;                ///< dimensions in elements, outermost first
  std::uint64_t begin = 0;        ///< first number of `data_offsets`: bytes from the start of the data
  std::uint64_t end = 0;          ///< second number of `data_offsets`: end of the range [begin, end)
  std::uint64_t file_offset = 0;  ///< bytes from the start of the file to the first byte: 8 + header length + begin
  Dtype dtype = Dtype::U8;        ///< type of the elements; UNKNOWN only with Accept::unknown_dtypes

  /// Returns the size of the tensor in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return end - begin; }
  /// Returns the number of elements.
  [[nodiscard]] std::uint64_t numel() const noexcept { return safetensors::numel(shape); }
};

namespace detail {
struct HeaderState;

// A forward iterator over a List with operator[](index), for range-based `for` and <algorithm>. A binary search over it
// takes linear time, because it moves by one step at a time.
template <class List>
class IndexIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using reference = decltype(std::declval<const List&>()[0]);
  using value_type = std::remove_cv_t<std::remove_reference_t<reference>>;
  using difference_type = std::ptrdiff_t;
  using pointer = void;

  IndexIterator() noexcept = default;
  IndexIterator(List list, std::size_t index) noexcept : list_(list), index_(index) {}
  reference operator*() const noexcept { return list_[index_]; }
  template <class Kept = reference, std::enable_if_t<std::is_reference_v<Kept>, int> = 0>
  auto operator->() const noexcept {
    return &**this;
  }
  IndexIterator& operator++() noexcept { return ++index_, *this; }
  IndexIterator operator++(int) noexcept { return {list_, index_++}; }
  friend bool operator==(const IndexIterator& a, const IndexIterator& b) noexcept { return a.index_ == b.index_; }
  friend bool operator!=(const IndexIterator& a, const IndexIterator& b) noexcept { return a.index_ != b.index_; }

 private:
  List list_;
  std::size_t index_ = 0;
};
}  // namespace detail

/// A view of the tensors of a Header, in the order of their bytes. The view is valid as long as any copy of the Header
/// exists. Call const functions from any thread.
class TensorList {
 public:
  /// A forward iterator over TensorInfo. A binary search over it takes linear time: use Header::find().
  using iterator = detail::IndexIterator<TensorList>;

  /// Makes an empty list.
  TensorList() noexcept = default;
  /// Returns the number of entries.
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Returns the tensor at this index. `index` must be below size(). The reference is valid as long as any copy of the
  /// Header exists.
  [[nodiscard]] SAFETENSORS_API const TensorInfo& operator[](std::size_t index) const noexcept;
  /// @{
  /// Iterates over the entries.
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }
  /// @}

 private:
  friend class Header;
  explicit TensorList(const detail::HeaderState* state) noexcept : state_(state) {}
  const detail::HeaderState* state_ = nullptr;
};

/// A view of the pairs of `__metadata__`, sorted by the bytes of their keys. The view and its texts are valid as long
/// as any copy of the Header exists. Call const functions from any thread.
class Metadata {
 public:
  /// A key and its value. Both are views of text in the Header.
  using value_type = std::pair<std::string_view, std::string_view>;
  /// A forward iterator over pairs. A binary search over it takes linear time: use find().
  using iterator = detail::IndexIterator<Metadata>;

  /// Makes an empty view.
  Metadata() noexcept = default;
  /// Returns true when the header has a `__metadata__` object, which may be empty. Returns false when its
  /// value is null.
  [[nodiscard]] SAFETENSORS_API bool present() const noexcept;
  /// Returns the number of entries.
  [[nodiscard]] SAFETENSORS_API std::size_t size() const noexcept;
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Returns the pair at this index. `index` must be below size().
  [[nodiscard]] SAFETENSORS_API value_type operator[](std::size_t index) const noexcept;
  /// Returns the value of a key, or nullopt if there is no such key.
  [[nodiscard]] SAFETENSORS_API std::optional<std::string_view> find(std::string_view key) const noexcept;
  /// @{
  /// Iterates over the entries.
  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, size()}; }
  /// @}

 private:
  friend class Header;
  explicit Metadata(const detail::HeaderState* state) noexcept : state_(state) {}
  const detail::HeaderState* state_ = nullptr;
};

/// A checked header. Its contents are consistent with each other and with the size of the file.
///
/// Copies are cheap, because they share the contents. Call const functions from any thread.
class Header {
 public:
  /// Checks rules 1 to 3 of the format and returns N, the length of the header in bytes. The header begins at byte 8 of
  /// the file.
  ///
  /// `prefix` holds at least the first 8 bytes of the file, or the whole file if the file is shorter. `file_size` is in
  /// bytes. If the file has another common format, such as a zip archive, the message of the error names that format.
  /// With a prefix of 512 bytes, the library recognises all formats that it knows.
  /// Errors: header_too_small, header_too_large, invalid_header_length.
  static SAFETENSORS_API Result<std::uint64_t> length(Span<const std::byte> prefix, std::uint64_t file_size,
                                                      const ParseOptions& options = {}) noexcept;

  /// Checks rules 4 to 10 of the format and returns the header.
  ///
  /// `text` is the N bytes of the header, which this function copies. `data_size` is the number of bytes that follow
  /// the header in the file. On any input, this function uses at most 6 x `text.size()` + 1 MiB of memory, including
  /// the copy.
  /// Errors: header_too_large, those of rules 4 to 10, out_of_memory, cancelled.
  static SAFETENSORS_API Result<Header> parse(std::string_view text, std::uint64_t data_size,
                                              const ParseOptions& options = {}) noexcept;

  /// Makes a header without tensors and metadata. header_bytes() is 8. A Header moved from is like it.
  Header() noexcept = default;

  /// Returns the number of tensors.
  [[nodiscard]] std::size_t size() const noexcept { return tensors().size(); }
  /// Returns true when size() is 0.
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  /// Returns the tensors in the order of their bytes in the file. Empty tensors at the same offset are sorted by the
  /// bytes of their names. The list is valid as long as any copy of this Header exists.
  [[nodiscard]] TensorList tensors() const& noexcept { return TensorList(state_.get()); }
  detail::GiveTheObjectANameFirst tensors() const&& = delete;

  /// Returns the tensor with this name, or nullptr if no tensor has this name. The pointer is valid as long as any copy
  /// of this Header exists.
  [[nodiscard]] SAFETENSORS_API const TensorInfo* find(std::string_view name) const& noexcept;
  detail::GiveTheObjectANameFirst find(std::string_view name) const&& = delete;

  /// Returns the metadata. The view is valid as long as any copy of this Header exists.
  [[nodiscard]] SAFETENSORS_API Metadata metadata() const& noexcept;
  detail::GiveTheObjectANameFirst metadata() const&& = delete;

  /// Returns N, the length of the header in bytes, including its padding.
  [[nodiscard]] SAFETENSORS_API std::uint64_t header_bytes() const noexcept;
  /// Returns the size of the data in bytes.
  [[nodiscard]] SAFETENSORS_API std::uint64_t data_bytes() const noexcept;
  /// Returns the offset of the data in the file: 8 + N bytes.
  [[nodiscard]] std::uint64_t data_start() const noexcept { return 8 + header_bytes(); }
  /// Returns the size of the file in bytes: data_start() + data_bytes().
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return data_start() + data_bytes(); }
  /// Returns the faults of the header that ParseOptions::accept and ParseOptions::allow_leading_whitespace allowed.
  [[nodiscard]] SAFETENSORS_API Tolerated tolerated() const noexcept;

  /// Returns the dtype of a tensor as a text. If the dtype is Dtype::UNKNOWN, this is the text in the file, which may
  /// be any valid UTF-8. Otherwise it is to_string(tensor.dtype). `tensor` must be an entry of this Header. The text is
  /// valid as long as any copy of this Header exists.
  [[nodiscard]] SAFETENSORS_API std::string_view dtype_name(const TensorInfo& tensor) const& noexcept;
  detail::GiveTheObjectANameFirst dtype_name(const TensorInfo& tensor) const&& = delete;

  /// Returns the text that this library writes for this header (docs/format.md).
  ///
  /// The text is compact JSON. Metadata is sorted by key, and tensors by offset. Unlike in tensors(), empty tensors at
  /// the same offset are in the order of the writer: sorted by dtype (the last of all_dtypes() first) and then by name.
  /// Spaces pad the text to header_bytes(), or to a multiple of 8 bytes if the text is longer. If this library wrote
  /// the header, the result is equal to the text in the file, byte for byte. Errors: unsupported (tolerated().any() is
  /// true: this library does not write such faults), out_of_memory.
  [[nodiscard]] SAFETENSORS_API Result<std::string> text() const noexcept;

 private:
  friend struct detail::Access<Header>;
  explicit Header(std::shared_ptr<const detail::HeaderState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const detail::HeaderState> state_;
};

/// Keys and values of `__metadata__`. An empty list makes an empty object. In an optional, nullopt makes no
/// `__metadata__`.
using MetadataPairs = std::vector<std::pair<std::string, std::string>>;

/// Options of HeaderBuilder::build() and of the functions that write files.
struct LayoutOptions {
  /// Alignment of the data in the file, in bytes: a power of two from 1 to 65536. 0 selects 8.
  std::uint32_t data_alignment = 0;
  /// Minimum number of spaces at the end of the header. The alignment may add more spaces. edit_metadata() can use
  /// these spaces later to add metadata in place.
  std::uint64_t metadata_slack = 0;
  /// false: the tensors are sorted by dtype (the last of all_dtypes() first), then by the bytes of their names. Each
  /// tensor then begins at a multiple of its element size. true: the order in which the tensors are given. A tensor may
  /// then begin at any byte.
  bool keep_order = false;
};

/// Collects tensors and metadata, and builds the Header of a new file.
///
/// A HeaderBuilder refuses everything that a reader would refuse. It is not thread-safe.
class HeaderBuilder {
 public:
  /// Makes an empty builder.
  HeaderBuilder() noexcept = default;
  /// @{
  /// Moves the contents. The HeaderBuilder moved from is empty.
  HeaderBuilder(HeaderBuilder&&) noexcept = default;
  HeaderBuilder& operator=(HeaderBuilder&&) noexcept = default;
  /// @}

  /// @{
  /// Adds a tensor. Copies the name and the shape.
  /// Errors: duplicate_name, reserved_name, invalid_utf8, size_overflow, misaligned_size, invalid_argument (unknown
  /// dtype), out_of_memory.
  SAFETENSORS_API Status add(std::string_view name, Dtype dtype, ShapeView shape) noexcept;
  Status add(std::string_view name, Dtype dtype, std::initializer_list<std::uint64_t> shape) noexcept {
    return add(name, dtype, ShapeView(shape.begin(), shape.size()));
  }
  /// @}
  /// Adds a metadata pair. Copies both texts.
  /// Errors: duplicate_name, invalid_utf8, out_of_memory.
  SAFETENSORS_API Status metadata(std::string_view key, std::string_view value) noexcept;
  /// Requests a `__metadata__` object in the header. If you add no pair, the header then contains `"__metadata__":{}`.
  /// Without this call, a header without pairs has no `__metadata__`. Error: out_of_memory.
  SAFETENSORS_API Status metadata_present() noexcept;

  /// Builds the header. Places the tensors one after the other from offset 0, in the order that
  /// LayoutOptions::keep_order chooses. You may call build() several times. Errors: invalid_alignment, header_too_large
  /// (more than 100,000,000 bytes with padding), size_overflow (more than 2^64-1 bytes of data), out_of_memory.
  [[nodiscard]] SAFETENSORS_API Result<Header> build(const LayoutOptions& options = {}) const noexcept;

 private:
  friend struct detail::Access<HeaderBuilder>;
  struct State;
  // Only this object owns it. A shared_ptr needs no complete State to destroy it.
  std::shared_ptr<State> state_;
};

}  // namespace v0
}  // namespace safetensors
