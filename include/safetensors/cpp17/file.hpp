/// @file
/// A part of the C++17 interface: File and Checkpoint. Include safetensors.hpp instead of this header, and read there
/// about errors, lifetimes and threads.
#pragma once

#include <safetensors/c.h>
#include <safetensors/cpp17/error.hpp>
#include <safetensors/cpp17/tensor.hpp>
#include <safetensors/cpp17/values.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

namespace safetensors17 {
inline namespace v0 {

/// A file with a checked header. Opening it reads the header, and nothing else. All functions except those that make a
/// File are const.
class File {
 public:
  /// Opens a path. Set `accept`, `access` and other members of the options before: see safetensors_open_options.
  /// Errors: OPEN_FAILED (with os_error()), NOT_REGULAR_FILE, READ_FAILED, FILE_TRUNCATED, CANCELLED, and those of
  /// rules 1 to 10 of the format.
  [[nodiscard]] static Result<File> open(const char* path, const OpenOptions& options = {}) noexcept {
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_file_open(path, &options, &raw, &error.c())) return error;
    return adopt(raw);
  }
  /// Opens a file through a descriptor, which stays owned by the caller. Errors: those of open().
  [[nodiscard]] static Result<File> from_fd(int descriptor, const OpenOptions& options = {}) noexcept {
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_file_from_fd(descriptor, &options, &raw, &error.c())) return error;
    return adopt(raw);
  }
  /// Opens a file that is in memory. The memory must not change, and must outlive everything that is made from it: the
  /// File, its Tensors and their Arrays. `size` is in bytes. Errors: CANCELLED, and those of rules 1 to 10.
  [[nodiscard]] static Result<File> from_memory(const void* data, std::size_t size,
                                                const ParseOptions& options = {}) noexcept {
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_file_from_memory(data, size, nullptr, nullptr, &options, &raw, &error.c())) return error;
    return adopt(raw);
  }
  /// Opens a file that is in memory which `owner` keeps valid, such as a std::shared_ptr or a std::unique_ptr. The
  /// library destroys the owner when nothing needs the memory any more, on any thread. After an error, it is destroyed
  /// at once. A move of the owner must not move the memory. Errors: those of the other from_memory().
  template <class Owner>
  [[nodiscard]] static Result<File> from_memory(const void* data, std::size_t size, Owner owner,
                                                const ParseOptions& options) noexcept {
    auto kept = std::unique_ptr<Owner>(new (std::nothrow) Owner(std::move(owner)));
    if (!kept) return Error(SAFETENSORS_ERROR_OUT_OF_MEMORY, "out of memory");
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_file_from_memory(data, size, detail::destroy<Owner>, kept.get(), &options, &raw, &error.c()))
      return error;
    (void)kept.release();  // the library has it
    return adopt(raw);
  }
  /// Opens a file over storage of the engine, such as an archive or an asset bundle. `source` has two functions:
  /// @code
  /// st::Result<std::uint64_t> size() const noexcept;  // the size of the file in bytes; called once
  /// // Reads up to `capacity` bytes at `offset`. Returns the number of bytes read, 0 only at the end.
  /// st::Result<std::size_t> read_at(std::uint64_t offset, void* memory, std::size_t capacity) const noexcept;
  /// @endcode
  ///
  /// Any number of threads may call read_at() at the same time. The library keeps the source as it keeps an owner in
  /// from_memory(). A reference to storage in the source must outlive the Files and Tensors.
  /// Errors: those of the source, CANCELLED, and those of rules 1 to 10.
  template <class Source>
  [[nodiscard]] static Result<File> from_source(Source source, const ParseOptions& options = {}) noexcept {
    auto kept = std::unique_ptr<Source>(new (std::nothrow) Source(std::move(source)));
    if (!kept) return Error(SAFETENSORS_ERROR_OUT_OF_MEMORY, "out of memory");
    safetensors_source calls = SAFETENSORS_SOURCE_INIT;
    calls.user = kept.get();
    calls.size = detail::SourceCalls<Source>::size;
    calls.read_at = detail::SourceCalls<Source>::read_at;
    calls.release = detail::destroy<Source>;
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_file_from_source(&calls, &options, &raw, &error.c())) return error;
    (void)kept.release();  // the library has it
    return adopt(raw);
  }
  /// Takes ownership of a handle of the C interface, also after an error. Error: INVALID_ARGUMENT if it is NULL.
  [[nodiscard]] static Result<File> adopt(safetensors_file* raw) noexcept {
    detail::Handle<safetensors_file> file(raw);
    Error error;
    safetensors_header* header = nullptr;
    if (safetensors_file_header(raw, &header, &error.c())) return error;
    return File(std::move(file), detail::Handle<safetensors_header>(header));
  }

  /// Returns the number of tensors.
  [[nodiscard]] std::uint64_t size() const noexcept { return safetensors_file_count(c()); }
  /// Returns the entries of all tensors, in the order of the bytes in the file. They are valid as long as the File.
  [[nodiscard]] TensorInfos<safetensors_file> tensors() const& noexcept { return TensorInfos<safetensors_file>(c()); }
  detail::GiveTheObjectANameFirst tensors() const&& = delete;
  /// Returns the entry of the tensor with this name. It is valid as long as the File. Error: NOT_FOUND.
  [[nodiscard]] Result<TensorInfo> find(std::string_view name) const& noexcept {
    Error error;
    safetensors_tensor_info info = SAFETENSORS_TENSOR_INFO_INIT;
    if (safetensors_header_find(header_.get(), name.data(), name.size(), &info, &error.c())) return error;
    return TensorInfo(info);
  }
  detail::GiveTheObjectANameFirst find(std::string_view name) const&& = delete;
  /// Returns the tensor with this name. Error: NOT_FOUND; the message has the most similar name, if there is one.
  [[nodiscard]] Result<Tensor> tensor(std::string_view name) const noexcept {
    Error error;
    safetensors_tensor* raw = nullptr;
    if (safetensors_file_tensor(c(), name.data(), name.size(), &raw, &error.c())) return error;
    return Tensor(raw);
  }
  /// Returns the metadata.
  [[nodiscard]] Metadata metadata() const& noexcept { return Metadata(header_.get()); }
  detail::GiveTheObjectANameFirst metadata() const&& = delete;
  /// Returns the text of a dtype in the file, also of an unknown one. It is valid as long as the File. Show it with
  /// printable(). Error: NOT_FOUND.
  [[nodiscard]] Result<std::string_view> dtype_name(std::string_view name) const& noexcept {
    Error error;
    const char* text = nullptr;
    std::size_t length = 0;
    if (safetensors_header_dtype_name(header_.get(), name.data(), name.size(), &text, &length, &error.c()))
      return error;
    return std::string_view(text, length);
  }
  detail::GiveTheObjectANameFirst dtype_name(std::string_view name) const&& = delete;
  /// Returns the sizes of the header, and the number of accepted faults.
  [[nodiscard]] safetensors_header_info header_info() const noexcept {
    safetensors_header_info info = SAFETENSORS_HEADER_INFO_INIT;
    (void)safetensors_header_get_info(header_.get(), &info, nullptr);
    return info;
  }
  /// Returns the bytes of all tensors as one Array of U8: those of a tensor are [data_begin(), data_end()) of its
  /// TensorInfo. `map` and the errors are those of Tensor::view().
  [[nodiscard]] Result<Array> view(std::int32_t map = SAFETENSORS_MAP_SHARED) const noexcept {
    Error error;
    safetensors_array* raw = nullptr;
    if (safetensors_file_view(c(), map, &raw, &error.c())) return error;
    return Array(raw);
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_file* c() const noexcept { return file_.get(); }

 private:
  File(detail::Handle<safetensors_file> file, detail::Handle<safetensors_header> header) noexcept
      : file_(std::move(file)), header_(std::move(header)) {}

  detail::Handle<safetensors_file> file_;
  detail::Handle<safetensors_header> header_;
};

/// The tensors of several files, such as the shards of a model. All functions are const.
class Checkpoint {
 public:
  /// Takes ownership of a handle of the C interface.
  explicit Checkpoint(safetensors_checkpoint* raw) noexcept : handle_(raw) {}
  /// Opens a file, an index (`*.json`), a folder, or a pattern such as "model-*.safetensors". Reads all headers.
  /// Errors: those of File::open(), INVALID_INDEX, AMBIGUOUS_CHECKPOINT, NOT_FOUND, DUPLICATE_NAME.
  [[nodiscard]] static Result<Checkpoint> open(const char* path, const CheckpointOptions& options = {}) noexcept {
    return open(View<const char* const>(&path, 1), options);
  }
  /// Opens all files that several paths stand for. Errors: those of the other open(), and INVALID_ARGUMENT if there are
  /// no paths.
  [[nodiscard]] static Result<Checkpoint> open(View<const char* const> paths,
                                               const CheckpointOptions& options = {}) noexcept {
    Error error;
    safetensors_checkpoint* raw = nullptr;
    if (safetensors_checkpoint_open_paths(paths.data(), paths.size(), &options, &raw, &error.c())) return error;
    return Checkpoint(raw);
  }
  /// Returns the number of tensors.
  [[nodiscard]] std::uint64_t size() const noexcept { return safetensors_checkpoint_count(c()); }
  /// Returns the number of files.
  [[nodiscard]] std::uint64_t file_count() const noexcept {
    std::uint64_t count = 0;
    (void)safetensors_checkpoint_size(c(), nullptr, &count, nullptr);
    return count;
  }
  /// Returns the file at an index. Error: NOT_FOUND when `index` is not below file_count().
  [[nodiscard]] Result<File> file(std::uint64_t index) const noexcept {
    Error error;
    safetensors_file* raw = nullptr;
    if (safetensors_checkpoint_file_at(c(), index, &raw, &error.c())) return error;
    return File::adopt(raw);
  }
  /// Returns the entries of all tensors, file after file. They are valid as long as the Checkpoint.
  [[nodiscard]] TensorInfos<safetensors_checkpoint> tensors() const& noexcept {
    return TensorInfos<safetensors_checkpoint>(c());
  }
  detail::GiveTheObjectANameFirst tensors() const&& = delete;
  /// Returns true when there is a tensor with this name.
  [[nodiscard]] bool contains(std::string_view name) const noexcept {
    std::int32_t contained = 0;
    (void)safetensors_checkpoint_contains(c(), name.data(), name.size(), &contained, nullptr);
    return contained != 0;
  }
  /// Returns the tensor with this name. Error: NOT_FOUND; the message has the most similar name, if there is one.
  [[nodiscard]] Result<Tensor> tensor(std::string_view name) const noexcept {
    Error error;
    safetensors_tensor* raw = nullptr;
    if (safetensors_checkpoint_tensor(c(), name.data(), name.size(), &raw, &error.c())) return error;
    return Tensor(raw);
  }
  /// Returns the handle of the C interface, which stays owned by this object. NULL if it was moved from.
  [[nodiscard]] const safetensors_checkpoint* c() const noexcept { return handle_.get(); }

 private:
  detail::Handle<safetensors_checkpoint> handle_;
};

}  // namespace v0
}  // namespace safetensors17
