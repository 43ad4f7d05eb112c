// Casting elements in memory, against a memcpy that reads and writes the same total number of bytes.
#include <safetensors/dtype.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "bench.h"
#include "format/dtype/cast.h"
#include "format/dtype/cast_integers.h"
#include "format/dtype/cast_kernels.h"

namespace st = safetensors;
using st::format::Instructions;

namespace {

struct Pair {
  st::Dtype from, to;
};

constexpr Pair kPairs[] = {{st::Dtype::BF16, st::Dtype::F32},     {st::Dtype::F32, st::Dtype::BF16},
                           {st::Dtype::F16, st::Dtype::F32},      {st::Dtype::F32, st::Dtype::F16},
                           {st::Dtype::F16, st::Dtype::BF16},     {st::Dtype::BF16, st::Dtype::F16},
                           {st::Dtype::F8_E4M3, st::Dtype::F32},  {st::Dtype::F32, st::Dtype::F8_E4M3},
                           {st::Dtype::F8_E5M2, st::Dtype::F32},  {st::Dtype::F32, st::Dtype::F8_E5M2},
                           {st::Dtype::F8_E4M3, st::Dtype::BF16}, {st::Dtype::BF16, st::Dtype::F8_E4M3FNUZ},
                           {st::Dtype::F64, st::Dtype::F32},      {st::Dtype::F64, st::Dtype::F16},
                           {st::Dtype::F32, st::Dtype::F64},      {st::Dtype::I64, st::Dtype::I32},
                           {st::Dtype::I32, st::Dtype::I64},      {st::Dtype::I64, st::Dtype::U8},
                           {st::Dtype::U8, st::Dtype::I32},       {st::Dtype::I32, st::Dtype::U32}};

// Fills `bytes` with random floats, or with integers that fit into every dtype.
void fill(std::vector<std::byte>& bytes, st::Dtype dtype) {
  std::uint32_t state = 1;
  const std::size_t step = st::format::is_integer_dtype(dtype) ? st::bits(dtype) / 8 : 1;
  const std::byte mask{static_cast<unsigned char>(st::format::is_integer_dtype(dtype) ? 0x7f : 0xff)};
  for (std::size_t i = 0; i < bytes.size(); i += step)
    bytes[i] = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24) & mask;
}

// The larger of the two arrays has `size` bytes. One run is `times` casts in a row.
void race(const Pair& pair, std::size_t size, std::size_t times) {
  std::vector<std::byte> in(size), out(size);
  fill(in, pair.from);
  const std::size_t from_size = st::bits(pair.from) / 8;
  const std::size_t to_size = st::bits(pair.to) / 8;
  const std::size_t count = size / std::max(from_size, to_size);
  const std::size_t moved = count * (from_size + to_size);
  std::vector<bench::Contender> contenders;
  contenders.push_back({"memcpy", [&] {
                          for (std::size_t i = 0; i < times; ++i) std::memcpy(out.data(), in.data(), moved / 2);
                        }});
  if (st::format::is_integer_dtype(pair.from)) {
    contenders.push_back({"checked", [&] {
                            for (std::size_t i = 0; i < times; ++i)
                              if (st::format::try_cast(pair.from, in.data(), pair.to, out.data(), count) != count)
                                std::abort();
                          }});
  }
  for (const Instructions loops : {Instructions::portable, Instructions::avx2}) {
    if (st::format::is_integer_dtype(pair.from) || !st::format::available(loops)) continue;
    contenders.push_back({loops == Instructions::avx2 ? "avx2" : "portable", [&, loops] {
                            for (std::size_t i = 0; i < times; ++i) {
                              st::format::cast_with(loops, pair.from, in.data(), pair.to, out.data(), count);
                            }
                          }});
  }
  bench::race(contenders, 7);
  std::printf("  %-8s to %-12s", st::to_string(pair.from).data(), st::to_string(pair.to).data());
  for (const bench::Contender& contender : contenders) {
    std::printf("  %s %6.2f (%5.2f x)", contender.name.c_str(),
                static_cast<double>(moved * times) / contender.median() * 1e-9,
                contender.median() / contenders.front().median());
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t largest = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) << 20;
  // The first size stays in the cache of a core, like a chunk that was just read. The second is in memory.
  for (const std::size_t size : {std::size_t{256} << 10, largest}) {
    std::printf("the larger array has %zu KiB; GB/s of bytes read and written, and time / that of memcpy\n",
                size >> 10);
    for (const Pair& pair : kPairs) race(pair, size, std::max<std::size_t>(1, (std::size_t{16} << 20) / size));
  }
}
