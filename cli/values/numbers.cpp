// Threads: the chunks are the tasks of os::run_parallel(), which gives each to the next free thread. What a chunk finds
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
#include "os/parallel.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace safetensors::cli {
namespace {

class ChunkTasks final : public os::Tasks {
 public:
  ChunkTasks(std::span<const Chunk> chunks, Console& console, const std::function<Status(std::size_t)>& work)
      : chunks_(chunks), work_(work), show_([this, &console] {
          console.progress(done_, total_);
          return Interrupt::caught();
        }) {
    for (const Chunk& chunk : chunks) total_ += chunk.bytes;
  }

  Status run_all() {
    if (Status status = os::run_parallel(*this, chunks_.size(), os::usable_processors(), &cancellation_); !status)
      return status;
    return show_() ? Status(Interrupt::error()) : Status();  // also the last progress, which removes the line
  }

  [[nodiscard]] Status run(std::size_t index) noexcept override {
    if (Status status = base::guarded([&] { return work_(index); }); !status) return status;
    done_ += chunks_[index].bytes;
    return cancellation_.requested() ? Status(Interrupt::error()) : Status();
  }

 private:
  std::span<const Chunk> chunks_;
  const std::function<Status(std::size_t)>& work_;
  std::atomic<std::uint64_t> done_ = 0;  // bytes
  std::uint64_t total_ = 0;
  const Callback<bool()> show_;
  base::Cancellation cancellation_{show_};
};

// The float dtype of a component.
Dtype part_of(Dtype dtype) noexcept {
  return dtype == Dtype::C64 ? Dtype::F32 : dtype;
}

void integers_to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  const unsigned width = bits(dtype);
  const bool with_sign = is_signed_integer(dtype);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t found = bits_at(bytes, i, width);
    const auto extended = static_cast<std::int64_t>(found << (64 - width)) >> (64 - width);
    numbers[i] = with_sign ? static_cast<double>(extended) : static_cast<double>(found);
  }
}

void cast_to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  auto* const out = reinterpret_cast<std::byte*>(numbers.data());
  format::cast(dtype, bytes.data(), Dtype::F64, out, numbers.size());
  if constexpr (std::endian::native != std::endian::little) {
    for (double& number : numbers)
      number = std::bit_cast<double>(base::load_u64(reinterpret_cast<const std::byte*>(&number)));
  }
}

void look_up(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  double values[64];
  const unsigned width = bits(dtype);  // at most 6
  for (std::uint16_t code = 0; code < 1U << width; ++code) values[code] = static_cast<double>(to_float(dtype, code));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = values[bits_at(bytes, i, width)];
}

}  // namespace

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

Status for_each_chunk(std::span<const Chunk> chunks, Console& console,
                      const std::function<Status(std::size_t index)>& work) {
  return ChunkTasks(chunks, console, work).run_all();
}

void to_double(Dtype dtype, std::span<const std::byte> bytes, std::span<double> numbers) noexcept {
  if (is_integer(dtype)) return integers_to_double(dtype, bytes, numbers);
  if (bits(dtype) < 8) return look_up(dtype, bytes, numbers);
  cast_to_double(part_of(dtype), bytes, numbers);
}

bool is_integer(Dtype dtype) noexcept {
  return bits(dtype) >= 8 && !format::castable(part_of(dtype), Dtype::F64);
}

bool is_signed_integer(Dtype dtype) noexcept {
  return dtype == Dtype::I8 || dtype == Dtype::I16 || dtype == Dtype::I32 || dtype == Dtype::I64;
}

}  // namespace safetensors::cli
