// Threads: os::run_parallel() gives each task, such as a chunk, to the next free thread. What a chunk finds
// goes into its own element of a list of the caller, so no result depends on the number of threads.
//
// Numbers: floats that casts know go through the cast to F64. The other dtypes are read element by element: integers,
// and floats of 4 and 6 bits, whose few values are in a table.
#include "values/numbers.h"

#include "interrupt.h"

#include <safetensors/element.h>

#include "base/cancellation.h"
#include "base/error.h"
#include "file/file.h"
#include "format/dtype/cast.h"
#include "format/header/header_writer.h"
#include "os/parallel.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>

namespace safetensors::cli {
namespace {

// dtype: F32, or a float that is exact in F32.
void floats_to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  float block[512];
  for (std::size_t at = 0; at < numbers.size(); at += std::size(block)) {
    const std::size_t count = std::min(std::size(block), numbers.size() - at);
    format::cast(dtype, bytes.data() + at * bits(dtype) / 8, Dtype::F32, reinterpret_cast<std::byte*>(block), count);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::endian::native == std::endian::little) {
        numbers[at + i] = static_cast<double>(block[i]);
      } else {
        const std::uint64_t found = bits_at(std::as_bytes(std::span(block)), i, 32);
        numbers[at + i] = static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(found)));
      }
    }
  }
}

}  // namespace

const std::array<double, 256>& values_of(Dtype dtype) noexcept {
  static const auto tables = [] {
    std::vector<std::array<double, 256>> made(all_dtypes().size());
    for (const Dtype one : all_dtypes()) {
      for (unsigned code = 0; bits(one) <= 8 && code < 1U << bits(one); ++code) {
        double& value = made[format::rank(one)][code];
        value = is_signed_integer(one) ? static_cast<std::int8_t>(code)
                : is_integer(one)      ? code
                                       : static_cast<double>(to_float(one, static_cast<std::uint16_t>(code)));
      }
    }
    return made;
  }();
  return tables[format::rank(dtype)];
}

void add_chunks(std::vector<Chunk>& chunks, std::size_t item, std::uint64_t elements, unsigned width) {
  constexpr std::uint64_t kBits = std::uint64_t{4} << 20;  // of 512 KiB, so that the L2 cache holds two chunks
  const std::uint64_t max = kBits / width / 8 * 8;
  for (std::uint64_t begin = 0; begin < elements; begin += max) {
    const auto count = static_cast<std::size_t>(std::min(max, elements - begin));
    chunks.push_back({item, begin, count, count * width / 8});
  }
}

Status read_chunk(const Tensor& tensor, const Chunk& chunk, std::vector<std::byte>& bytes) {
  const unsigned width = bits(tensor.dtype());
  bytes.resize(chunk.count * width / 8);
  const std::uint64_t offset = tensor.info().file_offset + chunk.begin / 8 * width;
  return detail::Access<Tensor>::state(tensor).read(tensor.info(), offset, bytes);
}

Status run_tasks(std::size_t count, std::uint64_t total, Console& console,
                 const std::function<Status(std::size_t index, const Done& done)>& work) {
  const Interrupt interrupt;
  std::atomic<std::uint64_t> bytes = 0;
  const Callback<bool()> show = [&] {
    console.progress(bytes, total);
    return Interrupt::caught();
  };
  base::Cancellation cancellation(show);
  const Done done = [&](std::uint64_t more) {
    bytes += more;
    return !cancellation.requested();
  };
  const auto run = [&](std::size_t index) { return work(index, done); };
  if (Status status = os::run_parallel(count, os::usable_processors(), run, &cancellation); !status) return status;
  return show() ? Status(Interrupt::error()) : Status();  // also the last progress, which removes the line
}

Status for_each_chunk(std::span<const Chunk> chunks, Console& console,
                      const std::function<Status(std::size_t index)>& work) {
  std::uint64_t total = 0;
  for (const Chunk& chunk : chunks) total += chunk.bytes;
  return run_tasks(chunks.size(), total, console, [&](std::size_t index, const Done& done) {
    Status status = work(index);
    return !status || done(chunks[index].bytes) ? status : Status(Interrupt::error());
  });
}

void to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  const unsigned width = bits(dtype);
  if (width > 8 && dtype != Dtype::F64 && !is_integer(dtype))
    return floats_to_double(dtype == Dtype::C64 ? Dtype::F32 : dtype, bytes, numbers);
  const std::array<double, 256>& values = values_of(dtype);
  const bool with_sign = is_signed_integer(dtype);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (width == 8) {
      numbers[i] = values[std::to_integer<std::size_t>(bytes[i])];
      continue;
    }
    const std::uint64_t found = bits_at(bytes, i, width);
    const auto extended = static_cast<std::int64_t>(found << (64 - width)) >> (64 - width);
    numbers[i] = width < 8             ? values[static_cast<std::size_t>(found)]
                 : dtype == Dtype::F64 ? std::bit_cast<double>(found)
                 : with_sign           ? static_cast<double>(extended)
                                       : static_cast<double>(found);
  }
}

bool is_integer(Dtype dtype) noexcept {
  return dtype == Dtype::BOOL || format::castable(dtype, Dtype::I64);
}

bool is_signed_integer(Dtype dtype) noexcept {
  return dtype == Dtype::I8 || dtype == Dtype::I16 || dtype == Dtype::I32 || dtype == Dtype::I64;
}

}  // namespace safetensors::cli
