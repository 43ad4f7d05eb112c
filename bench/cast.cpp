// Casting elements in memory, against a memcpy that moves as many bytes in and out.
#include "format/cast.h"

#include <safetensors/dtype.h>

#include <cstring>

#include "bench.h"
#include "format/cast_kernels.h"

namespace st = safetensors;
using st::format::Instructions;

int main(int argc, char** argv) {
  // Per array: in the cache of a core, as a chunk is that was just read, or in memory.
  const std::size_t largest = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 64) << 20;
  const std::pair<st::Dtype, st::Dtype> pairs[] = {
      {st::Dtype::BF16, st::Dtype::F32},    {st::Dtype::F32, st::Dtype::BF16},
      {st::Dtype::F16, st::Dtype::F32},     {st::Dtype::F32, st::Dtype::F16},
      {st::Dtype::F16, st::Dtype::BF16},    {st::Dtype::BF16, st::Dtype::F16},
      {st::Dtype::F8_E4M3, st::Dtype::F32}, {st::Dtype::F8_E4M3, st::Dtype::BF16},
      {st::Dtype::F32, st::Dtype::F8_E4M3}, {st::Dtype::F8_E5M2, st::Dtype::F32},
      {st::Dtype::F32, st::Dtype::F8_E5M2}, {st::Dtype::BF16, st::Dtype::F8_E4M3FNUZ},
      {st::Dtype::F32, st::Dtype::F64},     {st::Dtype::F64, st::Dtype::F32},
      {st::Dtype::F64, st::Dtype::F16}};
  for (const std::size_t size : {std::size_t{256} << 10, largest}) {
    std::printf("larger of the two arrays: %zu KiB; GB/s of the bytes read and written\n", size >> 10);
    std::vector<std::byte> in(size), out(size);
    std::uint32_t state = 1;
    for (std::byte& byte : in) byte = static_cast<std::byte>((state = state * 1664525 + 1013904223) >> 24);
    for (const auto& [from, to] : pairs) {
      const std::size_t from_size = st::bits(from) / 8, to_size = st::bits(to) / 8;
      const std::size_t count = size / std::max(from_size, to_size);
      const std::size_t moved = count * (from_size + to_size);
      const std::size_t times = std::max<std::size_t>(1, (std::size_t{16} << 20) / size);
      std::vector<bench::Contender> contenders;
      contenders.push_back({"memcpy", [&] {
                              for (std::size_t i = 0; i < times; ++i) std::memcpy(out.data(), in.data(), moved / 2);
                            }});
      for (const Instructions instructions : {Instructions::portable, Instructions::avx2}) {
        if (!st::format::available(instructions)) continue;
        contenders.push_back({instructions == Instructions::avx2 ? "avx2" : "portable", [&, instructions] {
                                for (std::size_t i = 0; i < times; ++i) {
                                  st::format::cast_with(instructions, from, in.data(), to, out.data(), count);
                                }
                              }});
      }
      bench::race(contenders, 7);
      std::printf("  %-8s to %-12s", std::string(st::to_string(from)).c_str(), std::string(st::to_string(to)).c_str());
      for (const bench::Contender& contender : contenders) {
        std::printf("  %s %6.2f (%5.2f x)", contender.name.c_str(),
                    static_cast<double>(moved * times) / contender.median() * 1e-9,
                    contender.median() / contenders.front().median());
      }
      std::printf("\n");
    }
  }
}
