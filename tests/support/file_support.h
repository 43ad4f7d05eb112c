// Files built byte by byte, Sources that record calls, and Sources that misbehave.
#pragma once

#include <safetensors/file.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/slice/slice.h"
#include "support/io_support.h"

namespace safetensors::test {

// Length, header, data.
inline std::string file_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(std::uint64_t{header.size()} >> (8 * i) & 0xFF);
  return bytes.append(header).append(data);
}

// Bytes that tell where they stand.
inline std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 2654435761U) >> 13 & 0xFF);
  return bytes;
}

// The header of one tensor "t".
inline std::string one_header(std::string_view dtype, std::string_view shape, std::uint64_t size) {
  return "{\"t\":{\"dtype\":\"" + std::string(dtype) + "\",\"shape\":" + std::string(shape) + ",\"data_offsets\":[0," +
         std::to_string(size) + "]}}";
}
inline std::string one_header(std::uint64_t size) {
  return one_header("U8", "[" + std::to_string(size) + "]", size);
}

// A file of one tensor "t", its data a pattern.
inline std::string one_tensor(std::string_view dtype, std::string_view shape, std::size_t size) {
  return file_bytes(one_header(dtype, shape, size), pattern(size));
}

// Two tensors: a, F32 [2, 3] at data byte 0; b, U16 [2] at 24.
inline std::string two_tensors() {
  return file_bytes(
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U16","shape":[2],"data_offsets":[24,28]}})",
      std::string("\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\1\0\2\0", 28));
}

// Returns `open`, then members with commas between them until the text has about `bytes` bytes, then `close`.
inline std::string repeated(std::string_view open, std::string_view close, std::size_t bytes,
                            const std::function<std::string(std::size_t)>& member) {
  std::string text(open);
  text.reserve(bytes + 1000);
  for (std::size_t i = 0; text.size() < bytes; ++i) text.append(i == 0 ? "" : ",").append(member(i));
  return text.append(close);
}

inline Tensor tensor(const File& file, std::string_view name) {
  Result<Tensor> tensor = file.tensor(name);
  EXPECT_TRUE(succeeds(tensor));
  return *std::move(tensor);
}

inline constexpr bool kBigEndian = std::endian::native == std::endian::big;

// From the byte order of files to that of the machine, or back.
template <class T>
std::vector<T> swapped_if_big_endian(std::vector<T> elements) {
  if (!kBigEndian) return elements;
  for (T& element : elements) {
    auto* const bytes = reinterpret_cast<std::byte*>(&element);
    std::reverse(bytes, bytes + sizeof(T));
  }
  return elements;
}

// A copy of an array's elements; none when it could not be had.
template <class T>
std::vector<T> elements(const Result<Array>& array) {
  if (!succeeds(array)) return ADD_FAILURE() << array.error().to_string(), std::vector<T>{};
  if (kBigEndian && sizeof(T) > 1) {
    std::vector<T> copied(array->bytes().size() / sizeof(T));
    if (!copied.empty()) std::memcpy(copied.data(), array->bytes().data(), copied.size() * sizeof(T));
    return swapped_if_big_endian(std::move(copied));
  }
  const Result<Span<const T>> elements = array.value().as<T>();
  if (!elements) return ADD_FAILURE() << elements.error().to_string(), std::vector<T>{};
  return {elements->begin(), elements->end()};
}

// Writes one element of an array.
template <class T>
void set_element(Array& array, std::size_t index, T value) {
  const std::vector<T> swapped = swapped_if_big_endian(std::vector<T>{value});
  std::memcpy(array.mutable_bytes().value().data() + index * sizeof(T), swapped.data(), sizeof(T));
}

// Reads from a string, notes each read, and does what it is told to.
class ScriptedSource : public Source {
 public:
  explicit ScriptedSource(std::string bytes) : bytes_(std::move(bytes)) {}

  Result<std::uint64_t> size() const noexcept override {
    if (fail_size) return Error{.code = Errc::read_failed, .os_error = 5, .message = "no answer from the server"};
    return std::uint64_t{bytes_.size()};
  }

  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const noexcept override {
    const std::lock_guard lock(mutex_);
    reads_.push_back({offset, destination.size()});
    if (offset + destination.size() > fail_from)
      return Error{.code = fail_code, .os_error = 5, .message = "no answer from the server"};
    const std::uint64_t end = std::min<std::uint64_t>(bytes_.size(), ends_at);
    if (offset >= end) return std::size_t{0};
    const std::size_t count = std::min({destination.size(), static_cast<std::size_t>(end - offset), most});
    std::memcpy(destination.data(), bytes_.data() + offset, count);
    delivered_ += count;
    return count;
  }

  // The requests since the last call.
  std::vector<format::ByteRun> reads() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(reads_, {});
  }
  // The bytes that reads returned since the last call.
  std::uint64_t delivered() const {
    const std::lock_guard lock(mutex_);
    return std::exchange(delivered_, 0);
  }

  std::uint64_t fail_from = ~std::uint64_t{0};
  Errc fail_code = Errc::read_failed;
  std::uint64_t ends_at = ~std::uint64_t{0};
  std::size_t most = ~std::size_t{0};
  bool fail_size = false;

 private:
  std::string bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<format::ByteRun> reads_;
  mutable std::uint64_t delivered_ = 0;
};

// A file of any size. No memory holds its data, of which every byte is `fill`.
class FilledSource : public Source {
 public:
  FilledSource(std::string_view header, std::uint64_t data_bytes, std::byte fill = {})
      : head_(file_bytes(header, "")), size_(head_.size() + data_bytes), fill_(fill) {}

  Result<std::uint64_t> size() const override { return size_; }
  Result<std::size_t> read_at(std::uint64_t offset, Span<std::byte> destination) const override {
    std::ranges::fill(destination, fill_);
    if (offset < head_.size()) {
      const auto head = bytes_of(head_).subspan(static_cast<std::size_t>(offset));
      std::ranges::copy(head.first(std::min(head.size(), destination.size())), destination.begin());
    }
    return destination.size();
  }

 private:
  const std::string head_;
  const std::uint64_t size_;
  const std::byte fill_;
};

}  // namespace safetensors::test
