// Writes a file that may be larger than memory. It computes a table of rows block by block, and writes each block as
// soon as it is complete. The new file appears at its path only when all its bytes are written.
//
// Build:  c++ -std=c++20 -O2 stream_write.cpp -o stream_write $(pkg-config --cflags --libs safetensors)
// Run:    ./stream_write table.safetensors 100000000      100 million rows of 1 KiB: 102 GB
#include <safetensors/safetensors.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string_view>
#include <system_error>
#include <vector>

namespace st = safetensors;

constexpr std::uint64_t kWidth = 256;       // elements per row
constexpr std::uint64_t kBlockRows = 8192;  // rows per block: 8 MiB, all that is in memory at a time

// Stands for any computation that gives rows one after the other.
void compute_row(std::uint64_t row, st::Span<float> result) {
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>((row * 31 + i) % 1000) / 1000;
}

void write_table(const char* path, std::uint64_t rows) {
  // The header comes first in the file, so all names, dtypes and shapes are decided before the first byte is written.
  st::HeaderBuilder builder;
  builder.add("table", st::Dtype::F32, {rows, kWidth}).value();
  builder.add("sums", st::Dtype::F32, {rows}).value();
  builder.metadata("format", "pt").value();
  st::Writer writer = st::Writer::create(path, builder.build().value()).value();

  std::vector<float> block(kBlockRows * kWidth);
  std::vector<float> sums(kBlockRows);
  for (std::uint64_t first = 0; first < rows; first += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, rows - first);
    for (std::size_t i = 0; i < count; ++i) {
      const st::Span<float> row(&block[i * kWidth], kWidth);
      compute_row(first + i, row);
      sums[i] = 0;
      for (const float x : row) sums[i] += x;
    }
    writer.write("table", first * kWidth * sizeof(float), st::as_bytes(st::Span(block).first(count * kWidth))).value();
    writer.write("sums", first * sizeof(float), st::as_bytes(st::Span(sums).first(count))).value();
  }
  writer.commit().value();  // an error before this line leaves an old file at the path as it was
}

int main(int argc, char** argv) try {
  const std::string_view digits = argc == 3 ? argv[2] : "";
  std::uint64_t rows = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rows);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    std::cerr << "usage: " << argv[0] << " FILE ROWS\n";
    return 2;
  }
  write_table(argv[1], rows);
  for (const st::Tensor& tensor : st::File::open(argv[1]).value()) std::cout << tensor << '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
