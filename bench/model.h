// A checkpoint for the benchmarks, and plain reads of it by system calls.
#pragma once

#include <fcntl.h>
#include <safetensors/safetensors.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "bench.h"

namespace bench {

namespace st = safetensors;

// Writes `count` matrices of BF16 with 4096 columns, of random bits. Together, they have `size` bytes.
inline void write_model(const std::string& path, std::size_t count, std::uint64_t size) {
  st::HeaderBuilder builder;
  const std::uint64_t rows = size / count / 8192;
  for (std::size_t i = 0; i < count; ++i) {
    must(builder.add("layers." + std::to_string(i) + ".weight", st::Dtype::BF16, {rows, 4096}));
  }
  const st::Header header = must(builder.build());
  st::Writer writer = must(st::Writer::create(path, header, {.durability = st::Durability::none}));
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> block(1 << 17);
  for (std::uint64_t& word : block) word = random();
  for (const st::TensorInfo& tensor : header.tensors()) {
    for (std::uint64_t at = 0; at < tensor.nbytes(); at += block.size() * 8) {
      const std::uint64_t part = std::min<std::uint64_t>(block.size() * 8, tensor.nbytes() - at);
      must(writer.write(tensor.name, at, std::as_bytes(std::span(block)).first(part)));
    }
  }
  must(writer.commit());
}

// Memory that was never touched, in pages of 4 KiB (advice: MADV_NOHUGEPAGE) or 2 MiB (advice: MADV_HUGEPAGE).
class FreshMemory {
 public:
  FreshMemory(std::size_t size, int advice) : size_(size + (2u << 20)) {
    map_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(map_ != MAP_FAILED, "mmap");
    madvise(map_, size_, advice);
  }
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;
  ~FreshMemory() { munmap(map_, size_); }
  [[nodiscard]] char* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(map_) + (2u << 20) - 1;
    return reinterpret_cast<char*>(address / (2u << 20) * (2u << 20));
  }

 private:
  std::size_t size_;
  void* map_;
};

// Reads all bytes of [offset, offset + size), in calls of at most `chunk` bytes.
inline void pread_all(int fd, char* to, std::uint64_t offset, std::uint64_t size, std::uint64_t chunk = 2u << 20) {
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = pread(fd, to + done, std::min(chunk, size - done), static_cast<off_t>(offset + done));
    require(got > 0, "pread");
    done += static_cast<std::uint64_t>(got);
  }
}

}  // namespace bench
