// Reads the values of tensors in chunks, by several threads, and converts elements of every dtype to numbers. Bytes are
// those of the file: little-endian and packed. A BOOL is the value of its byte.
#pragma once

#include "console.h"

#include <safetensors/dtype.h>
#include <safetensors/error.h>
#include <safetensors/file.h>

#include "base/little_endian.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace safetensors::cli {

// Elements of a tensor, or of two tensors that are compared.
struct Chunk {
  std::size_t item = 0;     // index of the tensor in a list of the caller
  std::uint64_t begin = 0;  // index of the first element, a multiple of 8: so chunks begin at whole bytes
  std::size_t count = 0;    // elements
  std::size_t bytes = 0;    // their size
};

// Cuts a tensor into chunks of at most 512 KiB, and adds them. width: bits of an element.
void add_chunks(std::vector<Chunk>& chunks, std::size_t item, std::uint64_t elements, unsigned width);

// Reads the bytes of the chunk of a tensor. Errors: those of Tensor::read().
[[nodiscard]] Status read_chunk(const Tensor& tensor, const Chunk& chunk, std::vector<std::byte>& bytes);

// Counts bytes for the progress. Returns false after a signal: the task then ends.
using Done = std::function<bool(std::uint64_t bytes)>;

// Calls work(index, done) for every index below `count`. Threads, one per usable processor, take the indexes in their
// order. work may throw std::bad_alloc. The calling thread shows how many of `total` bytes are done. After a signal,
// the tasks stop, and the process ends by the signal: the caller has no Interrupt. It writes its output later, because
// a write to a pipe that nobody reads never ends. Errors: out_of_memory, and the error of the first task that fails.
[[nodiscard]] Status run_tasks(std::size_t count, std::uint64_t total, Console& console,
                               const std::function<Status(std::size_t index, const Done& done)>& work);

// The same for chunks: calls work(index) for each.
[[nodiscard]] Status for_each_chunk(std::span<const Chunk> chunks, Console& console,
                                    const std::function<Status(std::size_t index)>& work);

// The number of real numbers of an element: 2 for C64, else 1.
[[nodiscard]] constexpr std::size_t components_of(Dtype dtype) noexcept {
  return dtype == Dtype::C64 ? 2 : 1;
}

// Returns the bits of an element, which has `width` of them, at most 64. Elements of 4 and 6 bits follow each other
// from the lowest bit up.
[[nodiscard]] inline std::uint64_t bits_at(std::span<const std::byte> bytes, std::uint64_t element,
                                           unsigned width) noexcept {
  const auto at = static_cast<std::size_t>(element * width / 8);
  const unsigned shift = width % 8 == 0 ? 0 : static_cast<unsigned>(element * width % 8);
  std::uint64_t found = 0;
  if (at + 8 <= bytes.size()) {
    found = base::load_u64(bytes.data() + at);
  } else {
    std::byte window[8] = {};
    std::memcpy(window, bytes.data() + at, bytes.size() - at);
    found = base::load_u64(window);
  }
  return found >> shift & (~std::uint64_t{0} >> (64 - width));
}

// Returns the values of a dtype of at most 8 bits, by code.
[[nodiscard]] const std::array<double, 256>& values_of(Dtype dtype) noexcept;

// Converts elements to double: components_of(dtype) numbers per element. Integers of more than 53 bits are rounded.
void to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept;

// Returns whether a dtype is one of integers, or BOOL.
[[nodiscard]] bool is_integer(Dtype dtype) noexcept;
[[nodiscard]] bool is_signed_integer(Dtype dtype) noexcept;

}  // namespace safetensors::cli
