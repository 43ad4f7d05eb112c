/// @file
/// A part of the C++17 interface: Dtypes, views, dimensions, options, and the entries of headers. Include
/// safetensors.hpp instead of this header, and read there about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace safetensors17 {
inline namespace v0 {

/// Element types. The numbers are those of `SAFETENSORS_DTYPE_...`, where each is described.
enum class Dtype : safetensors_dtype {
  BOOL = SAFETENSORS_DTYPE_BOOL,                ///< one byte per element
  U8 = SAFETENSORS_DTYPE_U8,                    ///< unsigned integer, 8 bits
  I8 = SAFETENSORS_DTYPE_I8,                    ///< signed integer, 8 bits
  I16 = SAFETENSORS_DTYPE_I16,                  ///< signed integer, 16 bits
  U16 = SAFETENSORS_DTYPE_U16,                  ///< unsigned integer, 16 bits
  F16 = SAFETENSORS_DTYPE_F16,                  ///< IEEE 754 half precision
  BF16 = SAFETENSORS_DTYPE_BF16,                ///< bfloat16
  I32 = SAFETENSORS_DTYPE_I32,                  ///< signed integer, 32 bits
  U32 = SAFETENSORS_DTYPE_U32,                  ///< unsigned integer, 32 bits
  F32 = SAFETENSORS_DTYPE_F32,                  ///< IEEE 754 single precision
  F64 = SAFETENSORS_DTYPE_F64,                  ///< IEEE 754 double precision
  I64 = SAFETENSORS_DTYPE_I64,                  ///< signed integer, 64 bits
  U64 = SAFETENSORS_DTYPE_U64,                  ///< unsigned integer, 64 bits
  C64 = SAFETENSORS_DTYPE_C64,                  ///< complex: two F32
  F8_E4M3 = SAFETENSORS_DTYPE_F8_E4M3,          ///< 8 bits, no infinity
  F8_E5M2 = SAFETENSORS_DTYPE_F8_E5M2,          ///< 8 bits
  F8_E8M0 = SAFETENSORS_DTYPE_F8_E8M0,          ///< 8 bits: a power of two
  F8_E4M3FNUZ = SAFETENSORS_DTYPE_F8_E4M3FNUZ,  ///< 8 bits, no infinity, no negative zero
  F8_E5M2FNUZ = SAFETENSORS_DTYPE_F8_E5M2FNUZ,  ///< 8 bits, no infinity, no negative zero
  F6_E2M3 = SAFETENSORS_DTYPE_F6_E2M3,          ///< 6 bits, packed
  F6_E3M2 = SAFETENSORS_DTYPE_F6_E3M2,          ///< 6 bits, packed
  F4 = SAFETENSORS_DTYPE_F4,                    ///< 4 bits, packed
  UNKNOWN = SAFETENSORS_DTYPE_UNKNOWN,          ///< only with SAFETENSORS_ACCEPT_UNKNOWN_DTYPES: read as bytes
};

/// Returns the name of a dtype, such as "F32". Returns "unknown" for numbers that are not dtypes of the format. The
/// memory is static.
[[nodiscard]] inline std::string_view to_string(Dtype dtype) noexcept {
  const char* name = nullptr;
  std::size_t length = 0;
  (void)safetensors_dtype_name(static_cast<safetensors_dtype>(dtype), &name, &length, nullptr);
  return name ? std::string_view(name, length) : std::string_view("unknown");
}

/// A pointer and a count: elements, dimensions or a list. It owns nothing. The function that returns it says how long
/// it is valid.
template <class T>
class View {
 public:
  /// Makes an empty view.
  constexpr View() noexcept = default;
  /// Makes a view of `size` objects from `data` on.
  constexpr View(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  /// @{
  /// Makes a view of an array, or of a container with data() and size() that is not a temporary. The elements are of
  /// type T, not of a class that is derived from T: those may be larger.
  template <std::size_t N>
  constexpr View(T (&array)[N]) noexcept : data_(array), size_(N) {}  // NOLINT(google-explicit-constructor)
  template <class List, class = std::enable_if_t<std::is_convertible_v<
                            std::remove_pointer_t<decltype(std::declval<List&>().data())> (*)[], T (*)[]>>>
  constexpr View(List& list) noexcept : data_(list.data()), size_(list.size()) {}  // NOLINT
  /// @}
  /// Returns the first object.
  [[nodiscard]] constexpr T* data() const noexcept { return data_; }
  /// Returns the number of objects.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  /// Returns true when size() is 0.
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  /// Returns an object. `index` must be below size(): this is not checked.
  [[nodiscard]] constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }
  /// @{
  /// Iterates over the objects.
  [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
  [[nodiscard]] constexpr T* end() const noexcept { return data_ + size_; }
  /// @}

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// The dimensions of a tensor in elements, outermost first. A scalar has none.
using Dims = View<const std::uint64_t>;

/// Writes dimensions as integers of the engine, such as `std::size_t` or `int`, to `sizes`, which has `count` of them.
/// Errors: SHAPE_MISMATCH (there are not `count` dimensions), SIZE_OVERFLOW (a dimension does not fit in Size). After
/// an error, `sizes` is unchanged.
template <class Size>
Status dims_as(Dims dims, Size* sizes, std::size_t count) noexcept {
  static_assert(std::is_integral_v<Size> && !std::is_same_v<Size, bool>, "dimensions are integers");
  char text[128];
  if (dims.size() != count) {
    std::snprintf(text, sizeof text, "the tensor has %zu dimensions, expected %zu", dims.size(), count);
    return Error(SAFETENSORS_ERROR_SHAPE_MISMATCH, text);
  }
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<Size>::max());
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i] <= kMax) continue;
    std::snprintf(text, sizeof text, "dimension %zu is %llu, expected at most %llu", i,
                  static_cast<unsigned long long>(dims[i]), static_cast<unsigned long long>(kMax));
    return Error(SAFETENSORS_ERROR_SIZE_OVERFLOW, text);
  }
  for (std::size_t i = 0; i < count; ++i) sizes[i] = static_cast<Size>(dims[i]);
  return {};
}

/// Returns the `Rank` dimensions as integers of the engine: `dims_as<std::size_t, 2>(info.shape())`.
/// Errors: those of the other dims_as().
template <class Size, std::size_t Rank>
[[nodiscard]] Result<std::array<Size, Rank>> dims_as(Dims dims) noexcept {
  std::array<Size, Rank> sizes{};
  if (Status status = dims_as(dims, sizes.data(), Rank); !status) return status.error();
  return sizes;
}

/// Which dtypes may be seen as elements of type T. Specialize it for types of the engine, such as its half:
/// @code
/// template <>
/// struct safetensors17::ElementOf<Half> {
///   static constexpr safetensors17::Dtype dtype = safetensors17::Dtype::F16;
///   static constexpr bool accepts(safetensors17::Dtype given) noexcept { return given == dtype; }
/// };
/// @endcode
///
/// Without a specialization, T is float, double, std::byte, or an integer of 8 to 64 bits. `std::uint16_t` also
/// accepts F16 and BF16. `std::uint8_t` and `std::byte` also accept BOOL and the F8 dtypes. `std::byte` also accepts
/// I8. bool accepts nothing, because a file may hold other values than 0 and 1.
template <class T>
struct ElementOf {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, std::byte> ||
                    (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8),
                "no dtype has elements of this type: use float, double, std::byte or an integer, or specialize "
                "safetensors17::ElementOf");
  /// The dtype that an error names when accepts() is false.
  static constexpr Dtype dtype = std::is_floating_point_v<T> ? (sizeof(T) == 4 ? Dtype::F32 : Dtype::F64)
                                 : std::is_signed_v<T>       ? (sizeof(T) == 1   ? Dtype::I8
                                                                : sizeof(T) == 2 ? Dtype::I16
                                                                : sizeof(T) == 4 ? Dtype::I32
                                                                                 : Dtype::I64)
                                                             : (sizeof(T) == 1   ? Dtype::U8
                                                                : sizeof(T) == 2 ? Dtype::U16
                                                                : sizeof(T) == 4 ? Dtype::U32
                                                                                 : Dtype::U64);
  /// Returns true when T accepts elements of a dtype.
  static constexpr bool accepts(Dtype given) noexcept {
    const bool bytes = given == Dtype::BOOL || (given >= Dtype::F8_E4M3 && given <= Dtype::F8_E5M2FNUZ);
    if (given == dtype) return true;
    if (dtype == Dtype::U16) return given == Dtype::F16 || given == Dtype::BF16;
    return dtype == Dtype::U8 && (bytes || (std::is_same_v<T, std::byte> && given == Dtype::I8));
  }
};

/// @{
/// Options. Each is the struct of c.h with the same name in lower case, which describes its members, with the default
/// values set.
struct ParseOptions : safetensors_parse_options {
  ParseOptions() noexcept : safetensors_parse_options SAFETENSORS_PARSE_OPTIONS_INIT {}
};
struct OpenOptions : safetensors_open_options {
  OpenOptions() noexcept : safetensors_open_options SAFETENSORS_OPEN_OPTIONS_INIT {}
};
struct CheckpointOptions : safetensors_checkpoint_options {
  CheckpointOptions() noexcept : safetensors_checkpoint_options SAFETENSORS_CHECKPOINT_OPTIONS_INIT {}
};
struct ReadOptions : safetensors_read_options {
  ReadOptions() noexcept : safetensors_read_options SAFETENSORS_READ_OPTIONS_INIT {}
};
struct WriteOptions : safetensors_write_options {
  WriteOptions() noexcept : safetensors_write_options SAFETENSORS_WRITE_OPTIONS_INIT {}
};
struct LayoutOptions : safetensors_layout_options {
  LayoutOptions() noexcept : safetensors_layout_options SAFETENSORS_LAYOUT_OPTIONS_INIT {}
};
/// @}

/// Destination and dtype of an item of a ReadPlan: `AddOptions().into(memory, size).cast_to(Dtype::F32)`.
struct AddOptions : safetensors_add_options {
  /// Makes options for new memory of the dtype of the tensor.
  AddOptions() noexcept : safetensors_add_options SAFETENSORS_ADD_OPTIONS_INIT {}
  /// Sets the destination. `bytes` must be exactly the size of the result. The memory must stay valid until the read is
  /// over.
  AddOptions& into(void* memory, std::size_t bytes) noexcept {
    destination = memory;
    destination_size = bytes;
    return *this;
  }
  /// Sets the dtype of the result. Casts are possible between floats, and between integers.
  AddOptions& cast_to(Dtype dtype) noexcept {
    cast = static_cast<safetensors_dtype>(dtype);
    return *this;
  }
};

/// @cond
namespace detail {
// The function of C that frees a handle.
struct Free {
  static void call(safetensors_file* raw) noexcept { safetensors_file_free(raw); }
  static void call(safetensors_header* raw) noexcept { safetensors_header_free(raw); }
  static void call(safetensors_checkpoint* raw) noexcept { safetensors_checkpoint_free(raw); }
  static void call(safetensors_tensor* raw) noexcept { safetensors_tensor_free(raw); }
  static void call(safetensors_slice* raw) noexcept { safetensors_slice_free(raw); }
  static void call(safetensors_resolved_slice* raw) noexcept { safetensors_resolved_slice_free(raw); }
  static void call(safetensors_array* raw) noexcept { safetensors_array_free(raw); }
  static void call(safetensors_read_plan* raw) noexcept { safetensors_read_plan_free(raw); }
  static void call(safetensors_read_result* raw) noexcept { safetensors_read_result_free(raw); }
  static void call(safetensors_read_report* raw) noexcept { safetensors_read_report_free(raw); }
};

// Owns a handle of C, or NULL.
template <class C>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(C* raw) noexcept : raw_(raw) {}
  Handle(Handle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) Free::call(std::exchange(raw_, std::exchange(other.raw_, nullptr)));
    return *this;
  }
  ~Handle() { Free::call(raw_); }
  [[nodiscard]] C* get() const noexcept { return raw_; }

 private:
  C* raw_ = nullptr;
};

// Iterates over a list with operator[].
template <class List>
class Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = decltype(std::declval<const List&>()[0]);
  using reference = value_type;
  using difference_type = std::ptrdiff_t;
  using pointer = void;

  Iterator(List list, std::uint64_t index) noexcept : list_(list), index_(index) {}
  [[nodiscard]] value_type operator*() const noexcept { return list_[index_]; }
  Iterator& operator++() noexcept { return ++index_, *this; }
  Iterator operator++(int) noexcept { return {list_, index_++}; }
  friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.index_ == b.index_; }
  friend bool operator!=(const Iterator& a, const Iterator& b) noexcept { return a.index_ != b.index_; }

 private:
  List list_;
  std::uint64_t index_;
};

inline safetensors_status info_at(const safetensors_file* file, std::uint64_t index,
                                  safetensors_tensor_info* info) noexcept {
  return safetensors_file_info_at(file, index, info, nullptr);
}
inline safetensors_status info_at(const safetensors_checkpoint* checkpoint, std::uint64_t index,
                                  safetensors_tensor_info* info) noexcept {
  return safetensors_checkpoint_info_at(checkpoint, index, info, nullptr);
}
inline std::uint64_t count_of(const safetensors_file* file) noexcept {
  return safetensors_file_count(file);
}
inline std::uint64_t count_of(const safetensors_checkpoint* checkpoint) noexcept {
  return safetensors_checkpoint_count(checkpoint);
}

// Frees an object that C functions get as `user`.
template <class T>
void destroy(void* user) noexcept {
  delete static_cast<T*>(user);
}

// Calls a function object that returns whether to go on. A function without a result goes on.
template <class Function>
std::int32_t call_progress(void* user, std::uint64_t completed, std::uint64_t total) noexcept {
  Function& function = *static_cast<Function*>(user);
  if constexpr (std::is_void_v<decltype(function(completed, total))>) {
    function(completed, total);
    return 1;
  } else {
    return function(completed, total) ? 1 : 0;
  }
}

// The functions of a source of the caller.
template <class Source>
struct SourceCalls {
  static safetensors_status fail(const Error& failure, safetensors_error* error) noexcept {
    *error = failure.c();
    return error->code == SAFETENSORS_OK ? error->code = SAFETENSORS_ERROR_READ_FAILED : error->code;
  }
  static safetensors_status size(void* user, std::uint64_t* size, safetensors_error* error) {
    const Result<std::uint64_t> found = static_cast<const Source*>(user)->size();
    if (!found) return fail(found.error(), error);
    *size = *found;
    return SAFETENSORS_OK;
  }
  static safetensors_status read_at(void* user, std::uint64_t offset, void* destination, std::size_t capacity,
                                    std::size_t* count, safetensors_error* error) {
    const Result<std::size_t> read = static_cast<const Source*>(user)->read_at(offset, destination, capacity);
    if (!read) return fail(read.error(), error);
    *count = *read;
    return SAFETENSORS_OK;
  }
};
}  // namespace detail
/// @endcond

/// The entry of a tensor in a header. It is a value, but its name and shape belong to the File, Checkpoint or Tensor
/// that returned it, and are valid as long as that object or the object to which it was moved.
class TensorInfo {
 public:
  /// Makes the entry of no tensor: all numbers are 0.
  TensorInfo() noexcept = default;
  /// Copies an entry of the C interface.
  explicit TensorInfo(const safetensors_tensor_info& info) noexcept : c_(info) {}
  /// Returns the name: any valid UTF-8. Show it with printable().
  [[nodiscard]] std::string_view name() const noexcept { return {c_.name, c_.name_length}; }
  /// Returns the type of the elements.
  [[nodiscard]] Dtype dtype() const noexcept { return static_cast<Dtype>(c_.dtype); }
  /// Returns the dimensions, all of them.
  [[nodiscard]] Dims shape() const noexcept { return {c_.dims, c_.rank}; }
  /// Returns the size in bytes.
  [[nodiscard]] std::uint64_t nbytes() const noexcept { return c_.nbytes; }
  /// @{
  /// Returns the two numbers of `data_offsets`: bytes from the start of the data.
  [[nodiscard]] std::uint64_t data_begin() const noexcept { return c_.begin; }
  [[nodiscard]] std::uint64_t data_end() const noexcept { return c_.end; }
  /// @}
  /// Returns the offset of the first byte in bytes from the start of the file.
  [[nodiscard]] std::uint64_t file_offset() const noexcept { return c_.file_offset; }
  /// Returns the struct of the C interface.
  [[nodiscard]] const safetensors_tensor_info& c() const noexcept { return c_; }

 private:
  safetensors_tensor_info c_ = SAFETENSORS_TENSOR_INFO_INIT;
};

/// The entries of a File or a Checkpoint, for range-based `for`. Valid as long as that object.
template <class C>
class TensorInfos {
 public:
  /// Makes the list of a handle.
  explicit TensorInfos(const C* raw) noexcept : raw_(raw) {}
  /// Returns the number of tensors.
  [[nodiscard]] std::uint64_t size() const noexcept { return detail::count_of(raw_); }
  /// Returns an entry. If `index` is not below size(), all its numbers are 0.
  [[nodiscard]] TensorInfo operator[](std::uint64_t index) const noexcept {
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    (void)detail::info_at(raw_, index, &info);
    return TensorInfo(info);
  }
  /// @{
  /// Iterates over the entries.
  [[nodiscard]] detail::Iterator<TensorInfos> begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] detail::Iterator<TensorInfos> end() const noexcept { return {*this, size()}; }
  /// @}

 private:
  const C* raw_;
};

/// A key of the metadata and its value: any valid UTF-8. Show them with printable().
struct MetadataPair {
  std::string_view key;    ///< the key
  std::string_view value;  ///< its value
};

/// The metadata of a File, sorted by key, for range-based `for`. It and its texts are valid as long as the File.
class Metadata {
 public:
  /// Makes the list of a header.
  explicit Metadata(const safetensors_header* header) noexcept : header_(header) {}
  /// Returns the number of pairs.
  [[nodiscard]] std::uint64_t size() const noexcept {
    safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
    (void)safetensors_header_get_info(header_, &info, nullptr);
    return info.metadata_count;
  }
  /// Returns a pair. If `index` is not below size(), both texts are empty.
  [[nodiscard]] MetadataPair operator[](std::uint64_t index) const noexcept {
    safetensors_metadata pair{nullptr, 0, nullptr, 0};
    (void)safetensors_header_metadata_pair(header_, index, &pair, nullptr);
    return {{pair.key, pair.key_length}, {pair.value, pair.value_length}};
  }
  /// Returns the value of a key, or nullopt.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const noexcept {
    const char* value = nullptr;
    std::size_t length = 0;
    if (safetensors_header_metadata_find(header_, key.data(), key.size(), &value, &length, nullptr)) return {};
    return std::string_view(value, length);
  }
  /// @{
  /// Iterates over the pairs.
  [[nodiscard]] detail::Iterator<Metadata> begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] detail::Iterator<Metadata> end() const noexcept { return {*this, size()}; }
  /// @}

 private:
  const safetensors_header* header_;
};

/// The part of one dimension that a Slice takes, with the meaning that NumPy gives it. Negative numbers count from the
/// end.
struct Dim : safetensors_dim_slice {
  /// Takes the whole dimension.
  [[nodiscard]] static Dim all() noexcept { return Dim(SAFETENSORS_DIM_ALL); }
  /// Takes one element. The result does not have this dimension.
  [[nodiscard]] static Dim at(std::int64_t index) noexcept { return Dim(SAFETENSORS_DIM_AT(index)); }
  /// Takes the elements [begin, end), every `step`.
  [[nodiscard]] static Dim range(std::int64_t begin, std::int64_t end, std::int64_t step = 1) noexcept {
    return Dim(SAFETENSORS_DIM_RANGE(begin, end, step));
  }
  /// Takes the elements from `begin` on, every `step`.
  [[nodiscard]] static Dim from(std::int64_t begin, std::int64_t step = 1) noexcept {
    return Dim(SAFETENSORS_DIM_FROM(begin, step));
  }
  /// Takes the elements before `end`, every `step`.
  [[nodiscard]] static Dim until(std::int64_t end, std::int64_t step = 1) noexcept {
    return Dim(SAFETENSORS_DIM_UNTIL(end, step));
  }
  /// Takes part `rank` of `world` nearly equal parts.
  [[nodiscard]] static Dim shard(std::uint64_t rank, std::uint64_t world) noexcept {
    return Dim(SAFETENSORS_DIM_SHARD(rank, world));
  }
  /// Takes all dimensions that no other entry takes.
  [[nodiscard]] static Dim ellipsis() noexcept { return Dim(SAFETENSORS_DIM_ELLIPSIS); }

 private:
  explicit Dim(const safetensors_dim_slice& dim) noexcept : safetensors_dim_slice(dim) {}
};

}  // namespace v0
}  // namespace safetensors17
